"""``tfcalc memory``: training, serving, and whether it fits, as scripts and people ask for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc.units import short_bytes

TRAIN = ("memory", "gpt2", "--train", "--batch", "8", "--seq", "1024", "--precision", "bf16")
SERVE = ("memory", "llama-3-8b", "--serve", "--context", "8k", "--concurrency", "4")
KEYS = {
    "total_bytes",
    "weights_bytes",
    "gradients_bytes",
    "optimizer_bytes",
    "activations_bytes",
    "kv_cache_bytes",
    "buffers_bytes",
    "temporary_bytes",
}


def answer(tfcalc: Program, *arguments: str) -> dict[str, Any]:
    ran = tfcalc(*arguments, "--json")
    assert ran.returncode in (0, 1), ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("asked", [TRAIN, SERVE, ("memory", "gpt2", "--weights", "nf4")], ids=" ".join)
def test_the_json_has_the_promised_keys(tfcalc: Program, asked: tuple[str, ...]) -> None:
    found = answer(tfcalc, *asked)
    assert found.keys() >= KEYS | {"schema_version", "command", "model", "conventions", "components"}
    assert all(isinstance(found[key], int) for key in KEYS)
    assert sum(part["bytes"] for part in found["components"]) == found["total_bytes"]


def test_training_says_when_the_peak_is_and_what_each_phase_holds(tfcalc: Program) -> None:
    found = answer(tfcalc, *TRAIN)
    assert found["peak_phase"] in ("forward", "backward", "step")
    assert [phase["phase"] for phase in found["timeline"]] == ["forward", "loss", "backward", "step"]
    assert max(phase["peak_bytes"] for phase in found["timeline"]) == found["peak_bytes"] == found["total_bytes"]


@pytest.mark.parametrize("asked", [TRAIN, SERVE], ids=["train", "serve"])
def test_every_format_has_the_same_total(tfcalc: Program, asked: tuple[str, ...]) -> None:
    total = answer(tfcalc, *asked)["total_bytes"]
    assert tfcalc(*asked, "-q").stdout.strip() == str(total)
    assert f",{total},1.000000" in tfcalc(*asked, "--format", "csv").stdout
    for form in ("table", "plain", "markdown"):
        assert tfcalc(*asked, "--format", form).stdout.lstrip("*").startswith(f"{short_bytes(total)} peak")


@pytest.mark.parametrize("budget", ["80GB", "4GiB"])
@pytest.mark.parametrize("asked", [TRAIN, SERVE, ("memory", "gpt2")], ids=["train", "serve", "rest"])
def test_quiet_is_the_total_whether_it_fits_or_not(tfcalc: Program, asked: tuple[str, ...], budget: str) -> None:
    """One command, one quantity: exit 1 says that it does not fit."""
    alone, within = tfcalc(*asked, "-q"), tfcalc(*asked, "--budget", budget, "-q")
    assert within.stdout == alone.stdout
    assert within.returncode == (int(alone.stdout) > {"80GB": 80 * 10**9, "4GiB": 4 * 2**30}[budget])


def test_kv_cache_of_a_server_is_128_kib_a_token(tfcalc: Program) -> None:
    """vllm#10517: 131,072 bytes for each token of Llama-3.1-8B in bf16."""
    assert answer(tfcalc, *SERVE)["kv_cache_bytes"] == 4 * 8192 * 131_072


def test_what_fits_is_0_and_what_does_not_is_1(tfcalc: Program) -> None:
    fits, short = tfcalc(*TRAIN, "--budget", "80GB"), tfcalc(*TRAIN, "--budget", "4GiB")
    assert (fits.returncode, short.returncode) == (0, 1)
    assert fits.stdout.startswith("FITS: ")
    assert short.stdout.startswith("DOES NOT FIT: ")
    assert {tfcalc(*TRAIN, *more, "-q").stdout for more in ((), ("--budget", "80GB"), ("--budget", "4GiB"))} == {
        f"{answer(tfcalc, *TRAIN)['total_bytes']}\n"
    }, "the same quantity with a budget and without"
    found = answer(tfcalc, *TRAIN, "--budget", "4GiB")
    assert found["fits"] is False
    assert found["headroom_bytes"] == 4 * 2**30 - found["total_bytes"] < 0


def test_the_largest_batch_fits_and_one_more_does_not(tfcalc: Program) -> None:
    largest = answer(tfcalc, *TRAIN, "--budget", "24GB")["largest_batch_size"]
    with_size = ("memory", "gpt2", "--train", "--seq", "1024", "--precision", "bf16", "--batch")
    there, more = (int(tfcalc(*with_size, str(size), "-q").stdout) for size in (largest, largest + 1))
    assert there <= 24 * 10**9 < more


def test_a_card_has_less_than_its_name_says(tfcalc: Program) -> None:
    found = answer(tfcalc, *SERVE, "--gpu", "h100")
    assert found["budget_bytes"] < 80 * 2**30
    assert found["largest_context"] == 8192, "the model's own"
    assert found["largest_context_exact"] > 8192


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("memory", "gpt2", "--gpus", "8"), 2, "--train"),
        (("memory", "gpt2", "--lora", "8", "--kv", "fp8"), 2, "--lora 8 is of training, and --kv fp8 of serving"),
        (("memory", "gpt2", "--train", "--kv", "fp8"), 2, "--serve"),
        (("memory", "gpt2", "--timeline", "--serve"), 2, "--train"),
        (("memory", "gpt2", "--timeline", "--kv", "fp8"), 2, "--timeline is of training, and --kv fp8 of serving"),
        (("memory", "gpt2", "--budget", "80"), 2, "GiB"),
        (("memory", "gpt2", "--budget", "80GB", "--gpu", "h100"), 2, "--gpu"),
        (("memory", "gpt2", "--gpu", "h1000"), 2, "H100"),
        (("memory", "gpt2", "--gpu", "8xh100"), 2, "8 GPUs hold no model at rest together"),
        (("memory", "gpt2", "--train", "--gpu", "8xh100", "--gpus", "4"), 2, "contradicts"),
        (("memory", "gpt2", "--margin", "3"), 2, "--gpu"),
        (("memory", "gpt2", "--gpu", "h100", "--margin", "101"), 2, "from 0 to 100"),
        (("memory", "gpt2", "--serve", "--budget", "8GB", "--gpu-memory-utilization", "0.8"), 2, "--gpu"),
        (("memory", "gpt2", "--serve", "--gpu", "h100", "--gpu-memory-utilization", "8"), 2, "0 to 1"),
        (("memory", "gpt2", "--weights", "nf5"), 2, "nf4"),
        (("memory", "gpt2", "--train", "--precision", "bf61"), 2, "bf16"),
        (("memory", "gpt2", "--train", "--optimizer", "adamv"), 2, "adam"),
        (("memory", "gpt2", "--train", "--lora", "8", "--lora-targets", "q_proj"), 2, "q_proj"),
        (("memory", "gpt2", "--train", "--tp", "2"), 2, "megatron"),
        (("memory", "longformer-base-4096", "--train"), 3, "longformer"),
        (("memory", "mixtral-8x7b", "--train", "--backend", "megatron"), 2, "experts"),
        (("memory", "gpt2", "--serve", "--concurrency", "0"), 2, "at least 1"),
    ],
)
def test_what_cannot_be_is_one_clear_line(tfcalc: Program, arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = tfcalc(*arguments)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("term", ["activations", "optimizer", "gradients", "weights", "temporary"])
def test_every_term_opens_up(tfcalc: Program, term: str) -> None:
    found = answer(tfcalc, *TRAIN)
    opened = tfcalc("explain", term, "--model", "gpt2", "--of", "memory", *TRAIN[2:], "-q")
    assert int(opened.stdout) == found[f"{term}_bytes"]


def test_a_settings_file_may_say_how_one_trains(tfcalc: Program, tmp_path: Any) -> None:
    (tmp_path / "tfcalc.toml").write_text('precision = "bf16"\noptimizer = "sgd"\n')
    assert answer(tfcalc, "memory", "gpt2", "--train")["conventions"]["optimizer"] == "sgd"


@pytest.mark.parametrize("asked", [("--train",), ("--serve",), ("--train", "--gpu", "h100")], ids=" ".join)
def test_positions_that_lack_a_size_are_refused_whatever_is_asked(tfcalc: Program, asked: tuple[str, ...]) -> None:
    ran = tfcalc("memory", "--kind", "decoder", "--positions", "relative", "--vocab-size", "100", *asked)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("tfcalc: relative positions without max_distance; give max_distance")


def test_a_model_whose_training_is_not_known_says_so(tfcalc: Program) -> None:
    ran = tfcalc("memory", "chatglm3-6b", "--train", "--batch", "8")
    assert ran.returncode == 2
    assert "training memory is not supported for chatglm" in ran.stderr


def test_a_parameter_without_a_shape_is_trained(tfcalc: Program) -> None:
    """CLIP's scale of its logits; what is kept is held against PyTorch in tests/verify."""
    ran = tfcalc("memory", "clip-vit-base-patch32", "--train", "--batch", "8")
    assert ran.returncode == 0, ran.stderr


def test_the_phases_of_a_step_stand_beside_the_verdict_on_a_card(tfcalc: Program) -> None:
    """--timeline with --gpu: the verdict's first line and exit code, and a row for each phase."""
    asked = ("memory", "gpt2", "--train", "--batch", "64", "--gpu", "rtx-3060")
    done, verdict = tfcalc(*asked, "--timeline"), tfcalc(*asked)
    assert done.stdout.splitlines()[0] == verdict.stdout.splitlines()[0]
    assert (done.returncode, verdict.returncode) == (1, 1)
    for phase in ("forward", "loss", "backward", "optimizer step"):
        assert f"\n{phase} " in done.stdout
    assert "█ states" in done.stdout
    assert "On the card: allocated" in done.stdout


def test_modules_that_run_again_are_named(tfcalc: Program) -> None:
    words = ("memory", "llama-3-8b", "--train", "--backend", "megatron", "--recompute-modules", "mlp core_attn")
    assert "gradient checkpointing selective: core_attn, mlp" in " ".join(tfcalc(*words).stdout.split())
    assert json.loads(tfcalc(*words, "--json").stdout)["conventions"]["recomputation"] == "selective: core_attn, mlp"
