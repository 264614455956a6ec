"""What somebody who had the README alone could not trust, and can now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Program
from tfcalc import Serving, UsageError, fits, load, memory

LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
SERVED = ("--serve", "--context", "8k")


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_3_8B), encoding="utf-8")
    return str(path)


def test_a_config_without_a_dtype_is_said_to_be_taken_for_fp32_and_bf16_is_proposed(
    tfcalc: Program, config: str
) -> None:
    """8,030,261,248 parameters in 4 bytes are 29.9 GiB, in 2 bytes 15.0, as engines serve them."""
    engine = tfcalc("memory", config, *SERVED, "--gpu", "24GB")
    assert engine.returncode == 0
    assert "fp32 checkpoint in fp16, as vLLM's --dtype auto" in engine.stdout
    served = (*SERVED, "--cache", "dynamic")
    found = tfcalc("memory", config, *served, "--gpu", "24GB")
    assert found.returncode == 1
    assert "fp32, as the config states no dtype" in found.stdout
    assert "--weights bf16 --kv bf16" in found.stdout
    stated = tfcalc("memory", config, *served, "--gpu", "24GB", "--weights", "bf16", "--kv", "bf16")
    assert stated.returncode == 0
    assert "states no dtype" not in stated.stdout


def test_the_cache_has_the_format_that_was_asked_for(tfcalc: Program, config: str) -> None:
    """2 x 32 layers x 8 heads x 128 x 8,192 tokens of 2 bytes: 2^30."""
    for format_of_weights in ("--dtype", "--weights"):
        found = json.loads(tfcalc("memory", config, *SERVED, format_of_weights, "bf16", "--json").stdout)
        assert found["kv_cache_bytes"] == 2**30


@pytest.mark.parametrize("more", [(), SERVED, ("--train", "--batch", "8")])
def test_a_model_that_cannot_be_read_is_3_whatever_else_is_typed(
    tfcalc: Program, tmp_path: Path, more: tuple[str, ...]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{bad", encoding="utf-8")
    for place in (tmp_path / "none.json", broken):
        assert tfcalc("memory", str(place), *more).returncode == 3


def test_a_prompt_that_is_shorter_than_a_chunk_is_read_at_once() -> None:
    shown = str(memory(load("llama-3-8b"), serving=Serving(context=2048)))
    assert "2,048 tokens of a prompt at once" in shown


def test_training_in_16_bits_alone_says_that_there_are_no_master_weights(tfcalc: Program) -> None:
    plain, master = (
        " ".join(tfcalc("memory", "llama-3-8b", "--train", "--precision", name).stdout.split())
        for name in ("bf16", "bf16-master")
    )
    assert "no fp32 master weights" in plain
    assert "no fp32 master weights" not in master


def test_a_gpu_by_its_name_is_the_same_for_the_library_and_the_command_line(tfcalc: Program) -> None:
    by_name = fits(load("llama-3-8b"), gpu="rtx-4090", serving=Serving(context=8192))
    found = json.loads(tfcalc("memory", "llama-3-8b", *SERVED, "--gpu", "rtx-4090", "--json").stdout)
    assert by_name.to_dict() == found
    with pytest.raises(UsageError, match="leave one of them out"):
        fits(load("llama-3-8b"), "24GB", gpu="rtx-4090")
    with pytest.raises(UsageError, match="there is no budget"):
        fits(load("llama-3-8b"))


GPT2_PARAMETERS = 124_439_808
"""Of the published GPT-2 small (Radford et al. 2019, whose table 2 says 117M; the checkpoint has these)."""
GPT2_ATTENTION = 4 * 768 * 768 + 4 * 768


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("gpt2",), GPT2_PARAMETERS),
        (("complete", "gpt2"), GPT2_PARAMETERS),
        (("attention", "gpt2"), GPT2_ATTENTION),
        (("gpt2", "attention"), GPT2_ATTENTION),
    ],
)
def test_a_model_to_explain_may_stand_where_it_stands_in_every_other_command(
    tfcalc: Program, words: tuple[str, ...], count: int
) -> None:
    assert tfcalc("explain", *words, "-q").stdout == f"{count}\n"


@pytest.mark.parametrize("command", ["explain", "formula"])
def test_a_quantity_in_the_place_of_a_part_is_that_of_the_whole(tfcalc: Program, command: str) -> None:
    found = tfcalc(command, "flops", "gpt2", "-q")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == tfcalc(command, "complete", "gpt2", "--of", "flops", "-q").stdout


@pytest.mark.parametrize("words", [("nonsense",), ("gpt2", "--model", "bert-base-uncased")])
def test_what_is_neither_a_part_nor_a_model_is_refused(tfcalc: Program, words: tuple[str, ...]) -> None:
    refused = tfcalc("explain", *words)
    assert refused.returncode == 2
    assert f"target '{words[0]}' is not known" in refused.stderr
