"""On which GPUs that people have it fits, the smallest first: by the rule of ``tfcalc memory --gpu``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from tfcalc.analysis.budget import of_accelerator
from tfcalc.analysis.standing import bytes_in
from tfcalc.hardware import Accelerator, accelerators
from tfcalc.plans import Serving
from tfcalc.training.states import workspaces

if TYPE_CHECKING:
    from tfcalc.analysis.peaks import Peaks
    from tfcalc.plans import Training
    from tfcalc.workload import Workload

COMMON = (
    "T4",
    "RTX-3090",
    "RTX-4090",
    "L4",
    "RTX-5090",
    "A100-SXM-40",
    "L40S",
    "A100-SXM-80",
    "H100-SXM",
    "H200-SXM",
    "B200-HGX",
    "MI300X",
)
"""GPUs that can be rented or bought nearly everywhere, by their names in hardware.csv."""
MOST = 2
"""GPUs that are named."""


@cache
def common() -> tuple[Accelerator, ...]:
    """The common GPUs, those with the least usable memory first."""
    known = [gpu for gpu in accelerators() if gpu.name in COMMON]
    return tuple(sorted(known, key=lambda gpu: (int(gpu.memory.split()[0]), COMMON.index(gpu.name))))


def serving_on(need: int, plan: Serving, dtype: str) -> Iterator[Accelerator]:
    """The common GPUs that compute in ``dtype``, and on which serving by this plan fits: ``need`` bytes at the peak.

    >>> [gpu.name for gpu in serving_on(150 * 2**30, Serving(), "bf16")], list(serving_on(2**40, Serving(), "bf16"))
    (['B200-HGX', 'MI300X'], [])
    """
    return (gpu for gpu in _computing(dtype) if need <= of_accelerator(gpu).serving(plan).bytes)


def training_on(need: int, peaks: Peaks, run: Workload, plan: Training, dtype: str) -> Iterator[Accelerator]:
    """The same of a step of training, whose ``peaks`` are known: ``need`` bytes where nothing is known of the GPU."""
    small = bytes_in(workspaces(plan.capability))
    simulated = cache(lambda: peaks.reserved(run, plan).reserved)

    def fits(gpu: Accelerator) -> bool:
        card, more = of_accelerator(gpu), bytes_in(workspaces(gpu.capability)) - small
        if need + more > card.allocatable(plan):
            return False
        if card.bytes > MOST_RESERVED * (need + more) or card.bytes > ROUNDED * (simulated() + more):
            return True
        return peaks.runs_in(run, plan.replaced(capability=gpu.capability), card.bytes)

    return filter(fits, _computing(dtype))


MOST_RESERVED = 1.5
"""Times what is allocated: no step that was simulated reserves as much (each preset, tuned in three ways: 1.43)."""
ROUNDED = 1.02
"""Times what was simulated with other workspaces: it reserves no more with these."""


def _computing(dtype: str) -> Iterator[Accelerator]:
    return (gpu for gpu in common() if dtype in gpu.peaks)


def in_words(gpus: Iterator[Accelerator]) -> str:
    """``RTX-3090 or RTX-4090 (24 GB)``: the smallest, with another of the same memory."""
    first = next(gpus, None)
    if first is None:
        return "more than one GPU"
    alike = [first.name, *(gpu.name for gpu in takewhile(lambda gpu: gpu.memory == first.memory, gpus))][:MOST]
    return f"{' or '.join(alike)} ({first.memory})"
