"""Bytes of a device of a layout, against Megatron-core on B200; what waits in a pipeline, by PyTorch's tables."""

from __future__ import annotations

import pytest

import tfcalc
from tests.planning_runs import config
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of

LLAMA_70B = {"h": 8192, "a": 64, "g": 8, "d": 128, "f": 28672, "V": 128256, "gated": True, "untied": True, "E": 0}
LLAMA_405B = LLAMA_70B | {"h": 16384, "a": 128, "f": 53248}
MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("arch", "layers", "length", "at", "allocated"),
    [
        (LLAMA_70B, 12, 4096, Layouts(pp=2, dp=4, batches=4), 68149.2 * MIB),
        (LLAMA_70B, 12, 4096, Layouts(tp=8, batches=4), 28965.4 * MIB),
        (LLAMA_405B, 4, 4096, Layouts(tp=2, dp=4, batches=4), 83549.9 * MIB),
        (LLAMA_405B, 4, 4096, Layouts(tp=4, dp=2, batches=4), 54158.1 * MIB),
        (LLAMA_70B, 12, 32768, Layouts(tp=2, cp=4, batches=4), 68.43 * GIB),
        (LLAMA_405B, 4, 131072, Layouts(tp=2, cp=4, batches=4), 118.13 * GIB),
    ],
    ids=["70b-pp2", "70b-tp8", "405b-tp2", "405b-tp4", "70b-cp4", "405b-cp4"],
)
def test_peaks_of_megatron_core(
    arch: dict[str, object], layers: int, length: int, at: Layouts, allocated: float
) -> None:
    """Source: SimuMax docs/b200/b200_release_v1.2_summary.json (max_allocated_mb, real_alloc_gib): 8 B200, a
    distributed optimizer, gradients in fp32, sequence parallelism, nothing recomputed (tests/oracle/points3).
    """
    model = tfcalc.from_config(config({"arch": arch, "layers": layers, "seq": length}))
    peak = float(DeviceMemory(work_of(model, length), at).peak)
    assert peak == pytest.approx(allocated, rel=0.08)


@pytest.mark.parametrize(
    ("at", "first", "last"),
    [
        (Layouts(pp=4, batches=8), 4, 1),
        (Layouts(pp=4, vpp=2, batches=8), 5.5, 2.5),
        (Layouts(pp=4, vpp=4, batches=8), 4.75, 3.25),
        (Layouts(pp=8, vpp=2, batches=32), 11.5, 4.5),
        (Layouts(pp=8, vpp=4, batches=32), 9.75, 6.25),
        (Layouts(pp=8, batches=3), 3, 1),
    ],
)
def test_what_is_in_flight(at: Layouts, first: float, last: float) -> None:
    """Source: PyTorch 2.13's schedules put on a clock (get_schedule_ops of 1F1B and Interleaved1F1B)."""
    memory = DeviceMemory(work_of(tfcalc.load("gpt2"), 64), at)
    assert float(memory.in_flight()) == first
    assert float(memory.in_flight(last=True)) == last


def test_states_by_hand() -> None:
    """GPT-2 on one device: 2 bytes of weights, 4 of gradients, 12 of the optimizer; over 8 with ZeRO-1, 2 and 3.

    Megatron-LM fills the vocabulary up to a multiple of 128: 47 more rows of 768.
    """
    work = work_of(tfcalc.load("gpt2"), 64)
    states = {zero: float(DeviceMemory(work, Layouts(dp=8, zero=zero)).states()) for zero in range(4)}
    params = 124_439_808 + 47 * 768
    assert states == {0: 18 * params, 1: 7.5 * params, 2: 4 * params, 3: 2.25 * params}
