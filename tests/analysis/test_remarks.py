"""What is said beside a count: what has no effect, what few would expect, what is no count of tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc import UsageError, Workload, flops, load
from tfcalc.answers.flops_of_run import flops_of_run
from tfcalc.answers.utilisation import Machines, utilisation


@pytest.mark.parametrize(
    ("flag", "switch"),
    [
        ("--mla absorbed", {"latent": "absorbed"}),
        ("--experts all", {"experts": "all"}),
        ("--source-seq 5", {"source_len": 5}),
    ],
)
def test_a_switch_without_effect_is_refused_by_its_name(flag: str, switch: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"^{flag} has no effect on the FLOPs of gpt2"):
        flops(load("gpt2"), Workload(**switch))


OF_A_SMALL_LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "vocab_size": 32000,
}
OF_EACH = (
    "params",
    "flops",
    "memory --train",
    "memory --serve --gpu h100",
    "overview",
    "fit --gpu rtx-4090 --train",
    "train --tokens 1M --gpu h100",
    "serve --gpu h100",
)


@pytest.mark.parametrize("command", OF_EACH)
def test_a_size_that_a_config_lacks_is_told(tfcalc: Program, tmp_path: Path, command: str) -> None:
    """transformers' LlamaConfig has 32 layers and 4,096 hidden numbers where a config says nothing."""
    name, *words = command.split()
    path = tmp_path / "config.json"
    for missing, default in {"num_hidden_layers": "32", "hidden_size": "4,096"}.items():
        path.write_text(json.dumps({key: size for key, size in OF_A_SMALL_LLAMA.items() if key != missing}))
        told = " ".join(tfcalc(name, str(path), *words).stdout.split())
        assert f"Not in the config: {missing} ({default} is taken)" in told
    path.write_text(json.dumps(OF_A_SMALL_LLAMA))
    assert "Not in the config" not in tfcalc(name, str(path), *words).stdout


def test_an_expensive_default_is_said() -> None:
    run = Workload(phase="decode", cached=4096)
    assert "expanded at each step" in flops(load("deepseek-v3"), run).notes[0]
    assert not flops(load("llama-3-8b"), run).notes


def test_a_model_of_images_is_counted_by_samples() -> None:
    short, long = (flops(load("vit-base-patch16-224"), Workload(batch_size=3, seq_len=l)) for l in (10, 500))
    assert short.totals == long.totals
    assert short.totals["tokens"] == 3
    assert short.heading.endswith(", 3 samples")
    with pytest.raises(UsageError, match="reads none"):
        flops_of_run(load("vit-base-patch16-224"), 1000)
    with pytest.raises(UsageError, match="reads none"):
        utilisation(load("vit-base-patch16-224"), 1000, Machines(peak=312e12))


def test_a_decoded_tokens_source_stands_in_the_answer() -> None:
    found = flops(load("t5-small"), Workload(phase="decode", cached=100, source_len=7))
    assert found.conventions["source_len"] == 7
    assert "source of 7" in found.heading


def test_more_tokens_than_positions_are_counted_and_said() -> None:
    assert flops(load("gpt2"), Workload(seq_len=2048)).notes[0].startswith("2,048 tokens exceed its 1,024")


def test_a_length_beyond_what_a_model_was_made_for_is_said_wherever_it_is_counted(tfcalc: Program) -> None:
    """Llama 3 was made for 8,192 tokens (max_position_embeddings of its config)."""
    for words in (
        "flops llama-3-8b --seq 4096k",
        "memory llama-3-8b --serve --context 64k",
        "memory llama-3-8b --train --seq 16k",
        "llama-3-8b --seq 16k",
    ):
        assert "tokens exceed the 8,192 that it was made for" in tfcalc(*words.split()).stdout, words
    assert "exceed" not in tfcalc("flops", "llama-3-8b", "--seq", "8k").stdout


def test_as_many_requests_as_there_is_room_for_fit_and_no_more(tfcalc: Program) -> None:
    """What the first line says of requests is so, whatever number was asked about."""
    words = ("memory", "llama-3-8b", "--serve", "--gpu", "h100", "--margin", "0", "--concurrency")
    assert tfcalc(*words, "3").stdout.splitlines()[0].endswith(", room for 55 requests of 8,192 tokens")
    assert (tfcalc(*words, "55").returncode, tfcalc(*words, "56").returncode) == (0, 1)
    assert "room for" not in tfcalc(*words, "56").stdout


def test_the_largest_that_leaves_less_than_the_margin_is_tight(tfcalc: Program) -> None:
    """55 requests leave 0.3 of 71.2 GiB, and 5 % are 3.6."""
    said = tfcalc("memory", "llama-3-8b", "--serve", "--gpu", "h100").stdout
    assert "largest concurrency: 55 (tight)" in said
    assert said.splitlines()[0].endswith(", room for 55 requests of 8,192 tokens")
    assert "(tight)" not in tfcalc("memory", "llama-3-8b", "--serve", "--gpu", "h100", "--margin", "0").stdout
