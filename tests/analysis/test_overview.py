"""A model at a glance: its numbers by hand, and those of the single commands that it names."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import tfcalc
from tests.conftest import Program
from tfcalc import Serving, Training, Workload, catalog
from tfcalc.analysis.facts import facts
from tfcalc.answers.overview import overview
from tfcalc.render import rendered
from tfcalc.report.declared import Unknown
from tfcalc.report.sheet import Sheet
from tfcalc.report.style import Style
from tfcalc.search.gpus import COMMON, common, serving_on, training_on
from tfcalc.training import allocator
from tfcalc.training import peaks as peaks_of_training
from tfcalc.training.allocator import Reserved
from tfcalc.training.peaks import Peaks
from tfcalc.units import parse_bytes

LAYERS, HIDDEN, KV, FFN, VOCABULARY = 32, 4096, 8 * 128, 14336, 128256
"""Llama 3 8B, by its config.json."""
MATRICES = LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * KV + 3 * HIDDEN * FFN)


def lines(sheet: Sheet, width: int) -> list[str]:
    return rendered(sheet, "table", Style(width=width)).splitlines()


def one_of_each_family() -> list[str]:
    found: dict[str, str] = {}
    for name in catalog.names():
        found.setdefault(catalog.preset(name).family, name)
    return sorted(found.values())


def test_the_numbers_of_llama_by_hand() -> None:
    found = overview(tfcalc.load("llama-3-8b"))
    assert found.total_params == found.active_params == 8_030_261_248  # transformers (tests/oracle)
    assert found.embedding_params == VOCABULARY * HIDDEN
    assert found.weights["bf16"] == 2 * 8_030_261_248
    assert found.kv_per_token == 2 * LAYERS * KV * 2
    assert found.kv_per_token == 131_072
    assert found.kv_cache == 131_072 * 8192
    attention = LAYERS * 4 * 4096 * HIDDEN  # Q Kᵀ and P V: 2·l·h each for a token, over all 4,096 keys
    assert found.forward_flops == 2 * MATRICES + 2 * HIDDEN * VOCABULARY + attention
    assert found.training_flops == 3 * found.forward_flops


def test_the_cache_of_latent_attention_by_hand() -> None:
    found = overview(tfcalc.load("deepseek-v3"))
    assert found.kv_per_token == 61 * (512 + 64) * 2
    assert found.kv_cache == 61 * (512 + 64) * 2 * 8192
    assert (found.facts.experts, found.facts.active_experts, found.facts.expert_size) == (256, 8, 2048)
    assert found.active_params < found.total_params == 671_026_404_352  # transformers (tests/oracle)


def test_windows_do_not_change_what_a_token_adds() -> None:
    found = overview(tfcalc.load("gemma-3-12b-it"))
    assert found.kv_per_token == 48 * 2 * 8 * 256 * 2
    assert isinstance(found.kv_cache, int)
    assert found.kv_cache < found.kv_per_token * 131_072


def test_a_state_is_no_cache_per_token() -> None:
    found = overview(tfcalc.load("mamba2-780m"))
    assert found.kv_per_token == 0
    assert isinstance(found.kv_cache, int)
    assert found.kv_cache > 0
    assert any(row[0] == "state" for row in found.sheet().rows)


@pytest.mark.parametrize(
    ("name", "heads"),
    [("falcon-7b", 1), ("gpt-bigcode-santacoder", 1), ("dbrx-base", 8), ("llama-3-8b", 8), ("gpt2", 12)],
)
def test_the_heads_of_keys(name: str, heads: int) -> None:
    assert overview(tfcalc.load(name)).facts.kv_heads == heads


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "line",
    [
        ["llama-3-8b"],
        ["llama-3-8b", "--layers", "2", "--seq", "1k", "--batch", "2"],
        ["t5-small"],
        ["bert-base-uncased"],
        ["mamba2-780m"],
        ["vit-base-patch16-224"],
        ["gpt-oss-20b"],
        ["overview", "--d-model", "64", "--checkpointing", "none"],
    ],
    ids=" ".join,
)
def test_each_line_is_the_answer_of_the_command_that_it_names(tfcalc: Program, line: list[str]) -> None:
    found = json.loads(tfcalc(*line, "--json").stdout)
    for name, command in found["commands"].items():
        program, *words = shlex.split(command)
        result = tfcalc(*words, "--json")
        assert (program, result.returncode, result.stderr) == ("tfcalc", 0, ""), command
        answer = json.loads(result.stdout)
        for key, other in pairs(name):
            expected = found[key]
            if key == "weights_bytes":
                expected = next(iter(expected.values()))
            assert answer[other] == expected, command


def pairs(line: str) -> list[tuple[str, str]]:
    """The keys of an overview, and those that the command of this line has for them."""
    if line.startswith("finetune_"):
        return [(f"{line}_bytes", "peak_bytes")]
    same = ["total_params", "active_params", "embedding_params"]
    return {
        "params": [(key, key) for key in same],
        "weights": [("weights_bytes", "total_bytes")],
        "kv_cache": [("kv_cache_bytes", "kv_cache_bytes")],
        "forward": [("forward_flops_per_token", "flops_per_token")],
        "training": [("training_flops_per_token", "flops_per_token")],
        "serve": [("serving_bytes", "peak_bytes")],
    }[line]


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "gpt-oss-20b", "bert-base-uncased"])
def test_weights_in_each_format_are_those_of_memory(name: str) -> None:
    model = tfcalc.load(name)
    own, *others = overview(model).weights.items()
    assert own[1] == tfcalc.memory(model).answer
    for format, size in others:
        assert size == tfcalc.memory(model, weights=format).answer


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", one_of_each_family())
def test_every_family_has_one_screen(name: str) -> None:
    found = overview(tfcalc.load(name))
    shown = lines(found.sheet(), 80)
    assert len(shown) <= 20
    assert max(map(len, shown)) <= 80
    assert shown[0].endswith(f"parameters ({found.total_params:,})")
    for width in (40, 120):
        assert max(map(len, lines(found.sheet(), width))) <= width
    for command in found.commands.values():
        assert command.startswith("tfcalc ")
    answer: dict[str, Any] = found.to_dict()
    json.dumps(answer)
    missing = {name for name, value in answer.items() if value is None and name.endswith(("_bytes", "_token"))}
    assert missing == set(answer["reasons"])
    assert all(answer["reasons"].values())


def test_what_is_not_known_is_said() -> None:
    found = overview(tfcalc.load("bert-base-uncased"))
    assert isinstance(found.kv_per_token, Unknown)
    rows: dict[Any, Any] = {row[0]: row[2] for row in found.sheet().rows}
    assert rows["KV cache"] == "none: it generates no text"
    assert "kv_cache" not in found.commands


def test_no_word_is_broken_at_40_columns() -> None:
    found = overview(tfcalc.load("deepseek-v3"))
    words = " ".join(lines(found.sheet(), 40)).split()
    for word in ("fp8-block;", "deepseek_v3,", "--checkpointing", "QLoRA"):
        assert word in words


def test_common_gpus_are_in_the_table() -> None:
    assert {gpu.name for gpu in common()} == set(COMMON)


def test_gpus_of_serving_are_those_that_an_engine_has_room_on() -> None:
    """Nine tenths of a card's memory, as vLLM takes them by default; less where the driver takes more."""
    card = next(gpu for gpu in common() if gpu.name == "H100-SXM")
    most = int(0.9 * parse_bytes(card.memory_reported))
    assert most < card.usable().bytes
    assert card in serving_on(most, Serving(), "bf16")
    assert card not in serving_on(most + 1, Serving(), "bf16")
    assert card in serving_on(most + 1, Serving(cache="static"), "bf16")  # which no engine preallocates
    assert "T4" in [gpu.name for gpu in serving_on(2**30, Serving(), "fp16")]
    assert "T4" not in [gpu.name for gpu in serving_on(2**30, Serving(), "bf16")]  # it has no bf16


LARGER = 2 * (8 * 4096 - 2 * 4096 - 8 * 16) * 1024
"""Bytes that cuBLAS's workspaces have more on Hopper than on what is not known."""


class Simulated:
    """Peaks whose bytes and whose allocator's part are given; where scores are stored, a step takes twice as much."""

    def __init__(self, need: int, reserved: int, least: int) -> None:
        self.need, self._reserved, self.least = need, reserved, least
        self.simulations = 0

    def peak(self, _run: Workload, plan: Training, **_: object) -> int:
        more = {"9.0": LARGER, "7.5": self.need}
        return self.need + more.get(plan.capability, 0)

    def reserved_within(self, _run: Workload, _plan: Training, memory: int) -> Reserved | None:
        self.simulations += 1
        return Reserved(self._reserved, 0, memory < self._reserved) if memory >= self.least else None


def training_fits_on(need: int, reserved: int = 0, least: int = 0, dtype: str = "bf16") -> list[str]:
    peaks: Any = Simulated(need, reserved, least)
    return [gpu.name for gpu in training_on(peaks, Workload(phase="train"), Training(), dtype)]


def test_gpus_of_training_have_room_for_fragments_and_for_a_larger_workspace() -> None:
    card = next(gpu for gpu in common() if gpu.name == "H100-SXM")
    usable = card.usable().bytes
    most = int(usable / 1.08) - LARGER
    assert card.name in training_fits_on(most)
    assert card.name not in training_fits_on(most + 1)
    gives_back = usable + 2**30  # what it caches, where it has to
    assert card.name in training_fits_on(most, gives_back, least=usable)
    assert card.name not in training_fits_on(most, gives_back, least=usable + 1)


def test_a_step_that_nothing_was_given_back_in_is_simulated_once_for_the_gpus_that_run_its_kernels() -> None:
    most = int(next(gpu for gpu in common() if gpu.name == "RTX-4090").usable().bytes / 1.08) - LARGER
    peaks: Any = Simulated(most, reserved=most, least=0)
    found = [gpu.name for gpu in training_on(peaks, Workload(phase="train"), Training(), "bf16")]
    assert {"RTX-3090", "RTX-4090", "RTX-5090"} < set(found)
    assert peaks.simulations == 1


def test_what_is_reserved_is_simulated_once_where_nothing_else_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers are those of a simulation for each card by itself: for other limits, workspaces, and too little."""
    model, run, plan = tfcalc.load("gpt2"), Workload(phase="train", batch_size=1, seq_len=128), Training()
    asked = [(capability, 2**30 * size) for size in (8, 80, 40, 4, 1) for capability in ("8.6", "8.9", "9.0", "12.0")]
    alone = [Peaks(model).reserved_within(run, plan.replaced(capability=each), memory) for each, memory in asked]
    calls, simulated = list[str](), allocator.reserved

    def noted(*told: Any, **more: Any) -> Reserved:
        calls.append("simulated")
        return simulated(*told, **more)

    monkeypatch.setattr(peaks_of_training, "reserved", noted)
    peaks = Peaks(model)
    assert [peaks.reserved_within(run, plan.replaced(capability=each), memory) for each, memory in asked] == alone
    assert alone[0] is not None
    assert alone[0].reserved < 2**32
    assert alone[-1] is None
    assert len(calls) == 4  # small and large workspaces: with room to spare, and in a GiB


def test_a_gpu_with_other_kernels_is_asked_for_what_they_take() -> None:
    """A T4 has no flash kernel: a step that stores its scores there is not judged by one that does not."""
    card = next(gpu for gpu in common() if gpu.name == "T4")
    most = int(card.usable().bytes / 1.08 / 2)
    assert card.name in training_fits_on(most, dtype="fp16")
    assert card.name not in training_fits_on(most + 1, dtype="fp16")
    assert card.name not in training_fits_on(most, least=2**40, dtype="fp16")  # nor are its fragments those of others


def test_the_library_and_the_command_line_answer_alike(tfcalc: Program) -> None:
    import tfcalc as library

    found = json.loads(tfcalc("gpt2", "--json").stdout)
    assert found == json.loads(json.dumps(library.overview(library.load("gpt2")).to_dict()))
    assert tfcalc("gpt2", "-q").stdout == "124439808\n"


def test_adapters_of_layers_that_share_a_block_are_no_experts() -> None:
    """Zamba2 has nine sets of adapters, each of which its own layer goes through; LongCat-Flash has 512 experts.

    256 more of LongCat's do nothing: transformers' LongcatFlashConfig (n_routed_experts, zero_expert_num).
    """
    zamba, longcat = (tfcalc.from_config({"model_type": name}) for name in ("zamba2", "longcat_flash"))
    assert facts(zamba, zamba.tree(Workload())).experts is None
    of_longcat = facts(longcat, longcat.tree(Workload()))
    assert (of_longcat.experts, of_longcat.active_experts) == (512, 12)


def test_a_config_without_a_format_says_in_which_it_is_counted_and_served(tfcalc: Program, tmp_path: Path) -> None:
    """transformers loads it in fp32; vLLM's --dtype auto serves an fp32 checkpoint in fp16."""
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config |= {"intermediate_size": 128, "vocab_size": 100, "architectures": ["LlamaForCausalLM"]}
    for stated, told in (({}, True), ({"torch_dtype": "bfloat16"}, False)):
        file = tmp_path / "config.json"
        file.write_text(json.dumps(config | stated))
        said = tfcalc("overview", str(file)).stdout
        assert ("fp32, as the config states no dtype" in said) is told
        assert ("tokens in fp16 in 90 %" in said) is told
