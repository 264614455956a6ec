"""``tfcalc MODEL`` names cards that ``tfcalc memory --gpu`` accepts, too."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.conftest import Quick

LINES = ("serving", "finetune_full", "finetune_lora", "finetune_qlora")


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "words",
    [
        "starcoder2-3b",  # 13.4 GiB: a T4 has 13.1 for serving
        "qwen3-8b",
        "llama-2-70b",
        "llama-3.3-70b-instruct",
        "bloom-560m --batch 1",
        "gpt2",
        "transformer-base",
        "llama-3-8b --layers 16 --seq 2k",
    ],
)
def test_the_command_of_a_line_accepts_the_smallest_card_that_is_named(words: str, quick: Quick) -> None:
    found = json.loads(quick(*words.split(), "--json").stdout)
    for line in LINES:
        command = found["commands"].get("serve" if line == "serving" else line)
        if not found[f"{line}_gpus"]:
            continue
        program, *asked = shlex.split(command)
        done = quick(*asked, "--gpu", found[f"{line}_gpus"][0], "-q")
        assert (program, done.returncode, done.stderr) == ("tfcalc", 0, ""), (command, done.stdout)


def test_what_is_assumed_of_cards_is_said_where_cards_are_named(quick: Quick) -> None:
    serving, training = "in 90 % of a GPU's memory", "AdamW, 8 % of its peak to spare"
    said = {name: " ".join(quick(name).stdout.split()) for name in ("gpt2", "bert-base-uncased", "mamba2-780m")}
    assert {name: (serving in text, training in text) for name, text in said.items()} == {
        "gpt2": (True, True),
        "bert-base-uncased": (True, True),  # it reads, and keeps no cache
        "mamba2-780m": (True, True),  # its loops are not checkpointed
    }


def test_an_apple_gpu_has_what_metal_lets_it_take_and_no_word_of_cuda(quick: Quick) -> None:
    """48 of 64 GiB by llama.cpp's log (tests/test_hardware.py); PyTorch trains there with the math kernel."""
    training = quick("memory", "gpt2", "--train", "--gpu", "m3-max-64", "--precision", "bf16").stdout
    serving = quick("memory", "qwen2.5-0.5b", "--serve", "--gpu", "m3-max-64").stdout
    for said in (training, serving):
        assert "M3 Max 64 has 48.0 GiB usable" in said
        assert "Metal (no such machine was compared)" in " ".join(said.split())
        assert not [word for word in ("CUDA", "nvidia-smi", "vLLM", "90 %") if word in said]
    assert "math attention" in training
    taken = quick("memory", "gpt2", "--train", "--gpu", "m4-max").stdout
    assert "assuming M4-Max-36 (36 GiB); others of this name: M4-Max-48 (48 GiB)" in " ".join(taken.split())


def test_what_apples_gpus_do_not_run_is_refused_and_not_proposed(quick: Quick) -> None:
    for words in (
        ["--qlora"],
        ["--optimizer", "adamw-8bit"],
        ["--alloc-conf", "expandable_segments"],
        ["--loss", "fused"],
        ["--offload", "optimizer"],
        ["--attention-kernel", "flash"],
    ):
        done = quick("memory", "gpt2", "--train", "--gpu", "m3-max-64", *words)
        assert done.returncode == 2, words
        assert "Apple's GPUs" in done.stderr, words
    assert quick("memory", "gpt2", "--train", "--gpu", "2xm3-max-64").returncode == 2
    found = json.loads(quick("memory", "qwen3-8b", "--train", "--gpu", "m3-max-48", "--json").stdout)
    proposed = " ".join(remedy["flags"] for remedy in found["changes"])
    assert proposed
    for word in ("--qlora", "8bit", "--offload", "--alloc-conf", "--gpus", "--fsdp", "loss fused"):
        assert word not in proposed
