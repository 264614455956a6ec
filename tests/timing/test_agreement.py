"""Layouts that are recommended hold what ``ranks`` says that their GPUs hold."""

from __future__ import annotations

from typing import Any

import pytest

import tfcalc
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("llama-3-8b", {"tp": 2, "pp": 4, "dp": 2}),
        ("llama-3-8b", {"tp": 8, "pp": 2, "vpp": 4, "dp": 2}),
        ("llama-3-70b", {"tp": 4, "pp": 4, "vpp": 10, "cp": 2, "dp": 4}),
        ("mixtral-8x7b", {"tp": 2, "pp": 4, "ep": 4, "etp": 1, "dp": 4}),
        ("mixtral-8x7b", {"tp": 2, "pp": 2, "ep": 2, "etp": 2, "dp": 4}),
        ("qwen3-30b-a3b", {"ep": 8, "etp": 1, "dp": 8}),
    ],
)
@pytest.mark.parametrize("zero", ["0", "1"])
def test_states_are_those_of_ranks(name: str, at: dict[str, Any], zero: str) -> None:
    """Weights, gradients and states of the fullest stage, but for the padding of the vocabulary: within 1 %."""
    model = tfcalc.load(name)
    training = tfcalc.Training(precision="bf16-master-fp32-grads", zero=zero, grad_accum=8)
    layout = tfcalc.Layout(sequence_parallel=at.get("tp", 1) > 1)._replace(**at)
    stages = tfcalc.ranks(model, layout, tfcalc.Workload(seq_len=4096), training).stages
    memory = DeviceMemory(work_of(model, 4096), Layouts(**at, batches=8, zero=int(zero)))
    closed = max(float(memory.states()), float(memory.states(last=True)))
    assert closed == pytest.approx(max(stage.states_bytes for stage in stages), rel=0.01)
