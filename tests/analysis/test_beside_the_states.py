"""What stands in memory beside the states: cuBLAS's workspaces, and the logits that a training loop does not free."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Training, Workload, fits, load, memory
from tfcalc.answers.explain import explain
from tfcalc.errors import InvalidModel
from tfcalc.report import Report
from tfcalc.training.peaks import Peaks

STEP = Workload(2, 64, phase="train")
SMALL = 2 * 4096 * 1024 + 8 * 16 * 1024
"""``:4096:2:16:8``: PyTorch 2.13's default, aten/src/ATen/cuda/CublasHandlePool.cpp (parseChosenWorkspaceSize)."""
LARGE = 32 * 2**20
"""The same of compute capabilities 9, 10 and 12."""


def asked(name: str = "gpt2", run: Workload = STEP, **plan: Any) -> Report:
    return memory(load(name), run, training=Training(**plan))


def test_two_threads_have_a_workspace_each() -> None:
    on_cuda, recorded = asked(), asked(device="recorded")
    assert on_cuda.totals["workspaces_bytes"] == 2 * SMALL
    assert recorded.totals["workspaces_bytes"] == 0
    for ours, theirs in zip(on_cuda.more["timeline"], recorded.more["timeline"], strict=True):
        assert ours["states_bytes"] - theirs["states_bytes"] == 2 * SMALL


@pytest.mark.parametrize("gpu", ["t4", "a100", "rtx-4090", "24GB", "h100", "b200", "rtx-5090"])
def test_a_workspace_is_as_large_as_the_gpu_wants(gpu: str) -> None:
    size = LARGE if gpu in ("h100", "b200", "rtx-5090") else SMALL
    found = fits(load("gpt2"), gpu=gpu, workload=STEP).report
    assert found.totals["workspaces_bytes"] == 2 * size
    assert found.answer == asked().answer + 2 * (size - SMALL)


@pytest.mark.parametrize(("precision", "width"), [("fp32", 4), ("bf16", 2), ("bf16-mixed", 2), ("fp16-master", 2)])
def test_the_tutorials_loop_does_not_free_the_logits(precision: str, width: int) -> None:
    plan = Training(precision=precision, loop="tutorial")
    trainer, tutorial = asked(precision=precision), asked(precision=precision, loop="tutorial")
    logits = 2 * 64 * 50257 * width
    assert (trainer.totals["outputs_bytes"], tutorial.totals["outputs_bytes"]) == (0, logits)
    for ours, theirs in zip(tutorial.more["timeline"], trainer.more["timeline"], strict=True):
        assert ours["peak_bytes"] - theirs["peak_bytes"] == logits  # this step's, or in forward those of the last
    assert tutorial.answer == Peaks(load("gpt2")).peak(STEP, plan)
    assert tutorial.conventions["loop"] == "tutorial"


@pytest.mark.parametrize(
    ("term", "formula", "size"), [("outputs", "2lbV", 2 * 2 * 64 * 50257), ("workspaces", "17039360", 2 * SMALL)]
)
def test_an_answer_can_be_opened_there(term: str, formula: str, size: int) -> None:
    plan = Training(loop="tutorial", precision="bf16")
    found = explain(term, load("gpt2"), "memory", STEP, training=plan).to_dict()
    assert (found["formula"], found["total_bytes"]) == (formula, size)


@pytest.mark.parametrize("plan", [{"backend": "fused"}, {"backend": "megatron"}])
def test_no_loop_holds_logits_that_are_not_made(plan: dict[str, Any]) -> None:
    with pytest.raises(InvalidModel, match="--loop tutorial has no effect"):
        asked("llama-3-8b", loop="tutorial", **plan)
