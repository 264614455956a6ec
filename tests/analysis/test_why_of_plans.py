"""``why``: a measured number of bytes, and the plan of training or of serving that it is said to be of."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.conftest import Program
from tfcalc import Serving, Training, UsageError, Workload, load, memory, why

GPT2 = 124_439_808
STATES = 16 * GPT2 + 148 * 4
"""fp32 weights, gradients and two moments, and a step count of 4 bytes for each of its 148 tensors."""


def test_the_parts_of_a_step_are_told_from_its_peak() -> None:
    run = Workload(phase="train", seq_len=8)
    found = why(str(STATES), load("gpt2"), "memory", run, training=Training(precision="fp32"))
    assert found.answer == STATES
    assert found.reasons[0].cause.startswith("weights, optimizer states and gradients at the peak")
    assert why("1.99GB", load("gpt2"), None, run, training=Training(precision="fp32")).answer == STATES


def test_a_cache_and_weights_of_serving_are_found() -> None:
    """16 bits: 8.03B parameters, and 128 KiB for each of 4,096 tokens."""
    plan = Serving(context=4096)
    weights, cache = 2 * 8_030_261_248, 4096 * 2 * 32 * 8 * 128 * 2
    for size, cause in ((weights, "weights at the peak"), (cache, "KV cache at the peak")):
        found = why(str(size), load("llama-3-8b"), "memory", serving=plan)
        assert (found.answer, found.reasons[0].cause) == (size, cause)


@pytest.mark.parametrize(
    "line",
    [
        "49GB llama-2-70b --qlora",
        "32GB llama-3-8b --fsdp --gpus 8",
        "6.38GB gpt2 --train --batch 8 --checkpointing none",
        "40GiB llama-3-8b --serve --context 32k",
        "2.5GB --lora --seq 256",
        "3GiB gpt2 --method dpo",
    ],
)
def test_each_command_prints_the_peak_that_it_is_named_for(quick: Program, line: str) -> None:
    found = quick("why", *line.split(), "--json")
    answer = json.loads(found.stdout)
    peaks = [one for one in (*answer["reasons"], *answer["nearest"]) if one["cause"].startswith("the peak")]
    assert peaks
    for one in peaks:
        words = shlex.split(one["command"])
        assert words[0] == "tfcalc"
        ran = quick(*words[1:], "-q")
        assert (ran.stdout.strip(), ran.stderr) == (str(one["exact_value"]), ""), one["command"]
    for note in answer["notes"]:
        if "tfcalc memory" in note:
            command = note[note.index("tfcalc memory") :].removesuffix(" has both")
            assert quick(*shlex.split(command)[1:], "-q").returncode in (0, 1), command


def test_what_was_typed_is_not_supposed_to_be_otherwise(quick: Program) -> None:
    found = quick("why", "49GB", "gpt2", "--train", "--batch", "2", "--checkpointing", "full", "--precision", "bf16")
    assert "with batches of" not in found.stdout
    assert "checkpointing" not in found.stdout.partition("nvidia-smi")[0].partition("\n\n")[2]
    assert " in bf16-" not in found.stdout


def test_a_plan_has_no_effect_on_other_numbers(quick: Program) -> None:
    assert "give the number its unit" in quick("why", "163M", "gpt2", "--qlora").stderr
    assert quick("why", "Loading model weights took 14.9888 GB", "llama-3.1-8b", "--lora", "8").returncode == 2
    assert quick("why", "49GB", "gpt2", "--train", "--gpu", "h100").returncode == 2
    assert quick("why", "does it take 12.7GiB", "llama-3-8b", "--qlora").stdout.startswith("12.7GiB is")
    model = load("gpt2")
    with pytest.raises(UsageError, match="cannot be combined"):
        why("1GB", model, training=Training(), serving=Serving())
    with pytest.raises(UsageError, match="has no effect on flops"):
        why("1T", model, "flops", training=Training())
    with pytest.raises(UsageError, match="a plan is of a number"):
        why("Loading model weights took 14.9888 GB", model, training=Training())


def test_the_library_says_what_the_command_line_does(quick: Program) -> None:
    run, plan = Workload(phase="train", seq_len=1024, recompute="full"), Training(precision="bf16", lora=8)
    peak = memory(load("gpt2"), run, training=plan).total_bytes
    found = why(str(peak), load("gpt2"), "memory", run, training=plan)
    typed = "--seq 1024 --precision bf16 --lora 8"
    line = quick("why", str(peak), "gpt2", "--of", "memory", *typed.split(), "-q")
    assert line.stdout == f"{peak}\n" == f"{found.answer}\n"
