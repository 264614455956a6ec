"""Which GPUs that people have hold so many bytes, the smallest first."""

from __future__ import annotations

from functools import cache

from tfcalc.hardware import Accelerator, accelerators

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
SPARE = 20
"""One part in so many of a GPU's usable memory is to stay free: 5 %."""
TRAINED = 4
"""In training one part in so many of what is allocated: 25 %, as card_memory.csv derives it (``fit``)."""
MOST = 2
"""GPUs that are named."""


@cache
def common() -> tuple[Accelerator, ...]:
    """The common GPUs, those with the least usable memory first."""
    known = [gpu for gpu in accelerators() if gpu.name in COMMON]
    return tuple(sorted(known, key=lambda gpu: (int(gpu.memory.split()[0]), COMMON.index(gpu.name))))


def holding(need: int, dtype: str = "fp32", *, trained: bool = False) -> list[Accelerator]:
    """The common GPUs that hold ``need`` bytes with 5 % to spare, and compute in ``dtype``, the smallest first.

    What is ``trained`` needs more beside it: fragments, and what the model of its peak may be off.

    >>> [gpu.name for gpu in holding(150 * 2**30)], holding(2**40)
    (['B200-HGX', 'MI300X'], [])
    """
    needed, of = (need * (TRAINED + 1), TRAINED) if trained else (need * SPARE, SPARE - 1)
    return [gpu for gpu in common() if needed <= gpu.usable().bytes * of and dtype in gpu.peaks]


def in_words(gpus: list[Accelerator]) -> str:
    """``RTX-3090 or RTX-4090 (24 GB)``: the smallest, with another of the same memory."""
    if not gpus:
        return "more than one GPU"
    alike = [gpu.name for gpu in gpus if gpu.memory == gpus[0].memory][:MOST]
    return f"{' or '.join(alike)} ({gpus[0].memory})"
