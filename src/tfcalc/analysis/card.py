"""What a card shows of a training step: three figures, told apart, in text and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.hardware import CONTEXT
from tfcalc.training.card import Figure, OnCard, bands, on_card
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.analysis.peaks import Peaks
    from tfcalc.plans import Training
    from tfcalc.workload import Workload


def of_step(peaks: Peaks, run: Workload, plan: Training, allocated: int) -> OnCard:
    """The figures of a step whose peak is known."""
    return on_card(allocated, peaks.reserved(run, plan).reserved, CONTEXT)


def in_a_line(found: OnCard, units: str) -> str:
    """``On the card: allocated 73.9-81.4, reserved 75.4-92.0, nvidia-smi 75.6-93.3 GiB``."""
    told = [_ends(figure, units) for figure in found]
    unit = told[-1].split(" ")[1]
    short = (text.removesuffix(f" {unit}") for text in told)
    return f"On the card: {', '.join(f'{called} {text}' for called, text in zip(CALLED, short, strict=True))} {unit}"


CALLED = ("allocated", "reserved", "nvidia-smi")


def lines(found: OnCard, units: str) -> list[str]:
    """Each with its number and its band: ``reserved 2.72 GiB (2.64-3.27 GiB): caching allocator, simulated``."""
    return [
        f"{called} {short_bytes(figure.bytes, units)} ({_ends(figure, units)}): {what}"
        for called, what, figure in zip(CALLED, WHAT, found, strict=True)
    ]


WHAT = (
    "torch.cuda.max_memory_allocated",
    "the caching allocator, simulated",
    "and the CUDA context with its libraries",
)


def assumptions() -> list[str]:
    """What the bands rest on."""
    by = bands()
    told = {name: f"{by[name].low - 1:+.0%} to {by[name].high - 1:+.0%}" for name in ("allocated", "reserved")}
    now, before = by["context"], by["old context"]
    return [
        f"allocated {told['allocated']}: the error of published peaks; reserved {told['reserved']}: measured over "
        "simulated, of two sources, the extremes of both (PyTorch's default allocator, without a limit)",
        f"nvidia-smi: CUDA context and libraries {now.low:,.0f} to {now.high:,.0f} MiB since CUDA 11.7, "
        f"{before.low:,.0f} to {before.high:,.0f} MiB before; by the sources in card_memory.csv",
    ]


def _ends(figure: Figure, units: str) -> str:
    low, high = (short_bytes(size, units) for size in (figure.low, figure.high))
    number, unit = low.split(" ")
    return f"{number if unit == high.split(' ')[1] else low}-{high}"
