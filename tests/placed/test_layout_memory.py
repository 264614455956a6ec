"""``memory --stack``: a GPU of a layout in training, against ``ranks``, ``plan`` and sums by hand."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

import tfcalc as library
from tests.conftest import Program
from tfcalc import Layout, Training, Workload, load, ranks

LLAMA, TENSORS = 8_030_261_248, 32 * 9 + 3
"""Parameters of Llama 3 8B, and its tensors, each with a number of AdamW's steps."""


def asked(tfcalc: Program, *words: str) -> dict[str, Any]:
    done = tfcalc("memory", *words, "--json")
    assert done.returncode in (0, 1), done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_gpu_of_fsdp_by_hand(tfcalc: Program) -> None:
    """On 8 GPUs, all of whose sizes 8 divides: 4 bytes of weights, 4 of gradients and 8 of moments."""
    found = asked(tfcalc, "llama-3-8b", "--stack", "fsdp", "--gpus", "8", "--seq", "512")
    states = [found[f"{name}_bytes"] for name in ("weights", "gradients", "optimizer", "master_weights")]
    assert states == [LLAMA // 2, LLAMA // 2, LLAMA + 4 * TENSORS, 0]
    assert (found["stack"], found["layout"]["dp"], found["conventions"]["zero"]) == ("fsdp", 8, "3")


def test_a_gpu_with_experts_by_hand(tfcalc: Program) -> None:
    """Mixtral 8x7B: 8 groups have one expert of each layer, whose optimizer 8 of 64 GPUs share, and 64 all else's.

    Of Megatron-core 2 bytes of weights, 4 of gradients, 4 of master weights; AdamW's number of a step of each tensor.
    """
    experts, others = 32 * 3 * 4096 * 14336, 46_702_792_704 - 8 * 32 * 3 * 4096 * 14336
    found = asked(tfcalc, "mixtral-8x7b", "--train", "--ep", "8", "--gpus", "64", "--seq", "4096")
    assert found["weights_bytes"] == 2 * (experts + others)
    assert found["gradients_bytes"] == 4 * (experts + others)
    assert found["master_weights_bytes"] == pytest.approx(4 * (experts / 8 + others / 64), rel=1e-6)
    assert found["optimizer_bytes"] == pytest.approx(8 * (experts / 8 + others / 64), rel=1e-4)
    assert (found["stack"], found["layout"]["ep"], found["layout"]["dp"]) == ("megatron", 8, 64)


LAYOUTS = (
    ("llama-3-8b", "megatron", "--tp 2 --sequence-parallel --pp 4 --grad-accum 8 --gpus 16 --zero 1"),
    ("llama-3-70b", "megatron", "--tp 8 --pp 4 --first-stage-layers 19 --last-stage-layers 21 --grad-accum 8"),
    ("mixtral-8x7b", "megatron", "--tp 2 --sequence-parallel --ep 4 --etp 1 --dp 4 --zero 1 --checkpointing full"),
    ("qwen3-30b-a3b", "fsdp", "--dp 32 --replicas 2 --ep 4 --etp 1"),
    ("llama-3-8b", "deepspeed", "--dp 4 --zero 2 --tp 2"),
)


@pytest.mark.parametrize(("name", "stack", "words"), LAYOUTS)
def test_it_is_the_fullest_stage_of_ranks(tfcalc: Program, name: str, stack: str, words: str) -> None:
    split = [*words.split(), "--stack", stack, "--seq", "1024"]
    stages = json.loads(tfcalc("ranks", name, *split, "--json").stdout)["stages"]
    found = asked(tfcalc, name, *split)
    fullest = max(stages, key=lambda stage: stage["allocated_bytes"])
    assert found["fullest_stage"] == fullest["stage"]
    assert found["peak_bytes"] == found["total_bytes"] == fullest["allocated_bytes"]
    assert found["master_weights_bytes"] + found["optimizer_bytes"] == fullest["optimizer_bytes"]
    for key in ("weights_bytes", "gradients_bytes", "activations_bytes", "gathered_bytes", "reserved"):
        assert found[key] == fullest[key]
    assert found["temporary_bytes"] >= 0
    assert sum(part["bytes"] for part in found["components"]) == found["peak_bytes"]


@pytest.mark.parametrize(
    "words",
    [
        "llama-3-70b --stack megatron --tp 4 --pp 4 --gpus 64 --grad-accum 8 --batch 2 --seq 4096 --gpu h100",
        "mixtral-8x7b --stack megatron --ep 8 --gpus 64 --batch 2 --seq 4096 --gpu h100",
        "llama-3-8b --stack deepspeed --gpus 8 --zero 1 --batch 4 --seq 4096 --gpu a100-80",
        "llama-3-8b --stack fsdp --gpu 8xrtx-4090 --batch 2 --seq 2048",
    ],
)
def test_what_would_make_it_fit_was_tried(tfcalc: Program, words: str) -> None:
    """Each change by the words that are printed for it, and the largest sizes, where one more is too large."""
    found = asked(tfcalc, *words.split())
    assert found["status"] in ("no", "risky")
    assert found["changes"]
    for change in found["changes"]:
        own = change["flags"].split()
        again = asked(tfcalc, *_without(words.split(), own), *own)
        assert (again["total_bytes"], again["status"]) == (change["total_bytes"], change["status"])
        assert again["fits"] is change["fits"]
    told = " ".join(tfcalc("memory", *words.split()).stdout.split())
    commands = [part.split(" tries them all")[0] for part in told.split("changes: ")[1:] if "tries them all" in part]
    assert len(commands) == ("rtx" not in words), "of a card without rates there is no search"
    for command in commands:
        searched = tfcalc(*command.split()[1:], "--json")
        assert searched.returncode == 0, searched.stderr
        assert json.loads(searched.stdout)["fits"] is True


def _without(words: list[str], others: list[str]) -> list[str]:
    """Return the words but for options of these names, with the values of these."""
    names = {word for word in others if word.startswith("--")}
    found, skips = [], False
    for word in words:
        if not skips and word not in names:
            found.append(word)
        skips = word in names
    return found


def test_as_a_function() -> None:
    model, at = load("llama-3-8b"), Layout(dp=8)
    run = Workload(phase="train", seq_len=512)
    (stage,) = ranks(model, at, run, stack="fsdp").stages
    assert library.memory(model, run, layout=at, stack="fsdp").answer == stage.allocated_bytes
    judged = library.fits(model, None, run, gpu="8xh100", layout=at, stack="fsdp")
    assert judged.fits
    assert judged.report.answer == stage.allocated_bytes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("llama-3-8b --stack horovod", "stack 'horovod' is not known; known: megatron, fsdp, deepspeed"),
        ("llama-3-8b --stack fsdp --lora", "--lora 16 has no effect on a GPU of a layout; leave it out"),
        ("llama-3-8b --stack fsdp --serve", "--stack fsdp has no effect with --serve; leave it out"),
        ("llama-3-8b --train --stack fsdp --kv fp8", "--kv fp8 has no effect without --serve; add --serve"),
        ("llama-3-8b --stack fsdp --dtype bf16", "--dtype bf16 has no effect with --train; give --precision"),
        ("llama-3-8b --stack fsdp --gpus 8 --gpu 4xh100", "a layout of 8 GPUs contradicts 4xh100"),
        ("llama-3-8b --stack deepspeed --dp 4 --zero 3 --ep 2", "whose experts have ZeRO 2 at most"),
        ("llama-3-8b --stack fsdp --timeline", "--timeline has no effect on a GPU of a layout; leave it out"),
        ("mamba-2.8b --stack megatron --dp 2", "no rule splits mixer (Mamba) over devices"),
    ],
)
def test_what_has_no_effect_is_refused_in_a_line(tfcalc: Program, words: str, said: str) -> None:
    done = tfcalc("memory", *words.split())
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


MODELS = (
    "llama-3-8b",
    "llama-3-70b",
    "gpt2-xl",
    "mixtral-8x7b",
    "qwen3-30b-a3b",
    "qwen3-32b",
    "deepseek-v3",
    "gemma-7b",
)
QUESTIONS = [
    (name, stack, gpus) for name in MODELS for stack in ("megatron", "fsdp", "deepspeed") for gpus in (64, 256, 1024)
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "stack", "gpus"), QUESTIONS)
def test_rows_of_a_plan_are_opened_by_what_they_print(tfcalc: Program, name: str, stack: str, gpus: int) -> None:
    """Each layout that is recommended for 64 to 1,024 GPUs, by ``ranks`` and by ``memory`` as they are printed."""
    draw = random.Random(f"{name} {stack} {gpus}")
    card, length = draw.choice(("h100", "h200", "a100-80")), draw.choice((2048, 4096, 8192))
    batch = gpus * draw.choice((1, 2, 4))
    words = (name, "--gpu", card, "--gpus", gpus, "--seq", length, "--global-batch-size", batch, "--stack", stack)
    done = tfcalc("plan", *map(str, words), "--json")
    if done.returncode == 3:
        pytest.skip(done.stderr)
    assert done.returncode in (0, 1), done.stderr
    planned = json.loads(done.stdout)
    for row in planned["layouts"][:3]:
        opened = {command.split()[1]: command.split()[1:] for command in row["commands"]}
        assert {"ranks", "memory"} <= opened.keys(), row["layout"]["words"]
        stages = json.loads(tfcalc(*opened["ranks"], "--json").stdout)["stages"]
        fullest = max(stage["allocated_bytes"] for stage in stages)
        by_memory = json.loads(tfcalc(*opened["memory"], "--json").stdout)
        assert fullest == pytest.approx(row["peak_bytes"], rel=5e-4)
        assert by_memory["peak_bytes"] == pytest.approx(row["peak_bytes"], rel=5e-4)
        assert by_memory.get("status", row["status"]) == row["status"]


@pytest.mark.parametrize(
    ("plan", "more", "said"),
    [
        (Training(lora=8), {}, "--lora 8 has no effect on a GPU of a layout"),
        (Training(gpus=8), {}, "--gpus 8 has no effect on a GPU of a layout"),
        (Training(), {"weights": "nf4"}, "weights='nf4' has no effect on a GPU of a layout"),
        (Training(), {"serve": True}, "training and serving cannot be combined"),
    ],
)
def test_a_function_drops_nothing(plan: Training, more: dict[str, Any], said: str) -> None:
    """Adapters, or a number of GPUs beside the layout's, would be another question."""
    with pytest.raises(library.UsageError, match=re.escape(said)):
        library.memory("llama-3-8b", 512, training=plan, layout=Layout(dp=4), **more)


def test_what_a_settings_file_says_of_a_layout_implies_no_training(
    tfcalc: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be meant for ``plan``; where training is asked for it counts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tfcalc.toml").write_text('stack = "fsdp"\n')
    assert asked(tfcalc, "gpt2")["conventions"]["phase"] == "at rest"
    assert "stack" not in asked(tfcalc, "gpt2", "--serve")
    assert asked(tfcalc, "gpt2", "--train", "--gpus", "2", "--seq", "64")["stack"] == "fsdp"
