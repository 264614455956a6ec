"""Seconds as they are told: an estimate with the band of its class of runs, scaled where one run was measured."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from tfcalc.named_tuple import NamedTuple
from tfcalc.timing.rates import table

EXPERTS, OTHER, MEASURED, CALIBRATED = "experts", "other", "measured", "calibrated"
PAIRS, EAGER = "pairs", "transformers"
"""Classes of runs: of mixtures; of other stacks and GPUs than most; scaled by one run that was measured; by rates
fitted to several; two that differ in layout; code that runs operation by operation on one GPU."""
CODE = {
    "megatron": "Megatron-LM",
    "fsdp": "FSDP trainers (llm-foundry, fms-fsdp, MaxText)",
    "deepspeed": "Megatron-DeepSpeed of 2022 and NeMo of 2023",
    "megatron-2022": "Megatron-LM of 2022",
    EAGER: "transformers on one H100 or H200",
}
"""Whose steps the rates of each stack were fitted to, as people are told."""
SECONDS_OF_A_DAY, SECONDS_OF_AN_HOUR = 86_400, 3_600
HOURS_OF_A_MONTH = 730
"""A twelfth of 365 days, by which clouds tell prices of a month."""


OVER = "over 100 % is impossible"
"""What an MFU above 1 is; so is an HFU."""


def whose_rate(above: float, gpus: int, *, per_gpu: bool = False) -> str:
    """Say what a rate may be that is ``above`` the peak of the GPUs this many times; nothing where nobody can tell.

    >>> whose_rate(7.2, 1), whose_rate(7.2, 8, per_gpu=True), whose_rate(7.2, 8)
    ('is the rate of several GPUs? It takes at least 8', 'is the rate of all 8 GPUs together?', '')
    """
    if per_gpu and 1 < above <= gpus:
        return f"is the rate of all {gpus:,} GPUs together?"
    return f"is the rate of several GPUs? It takes at least {ceil(above):,}" if gpus == 1 else ""


class ErrorBand(NamedTuple):
    """Errors of a class of published runs, each source estimated by rates that were fitted to all others.

    ``typical`` and ``most`` are the middle and the ninth tenth of |estimate / published - 1|, of these ``runs``.
    """

    kind: str
    typical: float
    most: float
    runs: int

    @property
    def words(self) -> str:
        """``half of 237 published runs (dense), each estimated without its own source, were within 7 %, nine …``."""
        both = f"within {100 * self.typical:.0f} %, nine of ten within {100 * self.most:.0f} %"
        if self.kind == OTHER:
            return f"few runs of this kind are published, of which half should be {both}"
        if self.kind == MEASURED:
            return f"after one measured run half of a source's others were {both}"
        if self.kind == EAGER:
            return f"half of {self.runs} steps that were timed on H100s and an H200 were {both}"
        if self.kind == CALIBRATED:
            return f"each left out in its turn, half of the {self.runs:,} runs that were calibrated on were {both}"
        whose = "all of one source" if self.kind == EXPERTS else "each estimated without its own source"
        return f"half of {self.runs:,} published runs ({self.kind}), {whose}, were {both}"


class Estimate(NamedTuple):
    """Seconds, from ``low`` to ``high``, by a band."""

    seconds: float
    band: ErrorBand

    @property
    def low(self) -> float:
        """The lower end: the estimate was too high."""
        return self.seconds / (1 + self.band.most)

    @property
    def high(self) -> float:
        """The upper end: the estimate was too low."""
        return self.seconds / (1 - self.band.most)

    def in_words(self, stack: str, *, by_file: bool) -> str:
        """Say whose rates of which stack it is made by, unless a file has them, and how good it is."""
        by = "" if by_file else f" by rates of {CODE[stack]}"
        return f"Seconds are an estimate{by}: {self.band.words}"


class Pace(NamedTuple):
    """Speed that is said, in the place of an estimate: a share of the peak (``mfu``), or a rate that was measured.

    ``tokens_per_second`` are those of all GPUs, ``step_time`` the seconds of a step.
    """

    mfu: float | None = None
    tokens_per_second: float | None = None
    step_time: float | None = None

    @property
    def given(self) -> bool:
        """Return whether any of it was said."""
        return any(one is not None for one in self)

    @property
    def words(self) -> str:
        """``35 % of the peak``, ``5,000 tokens/s``, ``0.35 s a step``: one of them, which was said."""
        if self.mfu is not None:
            return f"{100 * self.mfu:g} % of the peak"
        return f"{self.tokens_per_second:,.12g} tokens/s" if self.step_time is None else f"{self.step_time:g} s a step"


def band_of(generation: str, stack: str, *, experts: bool, measured: bool = False, alone: bool = False) -> ErrorBand:
    """Return the band of a class of runs: a mixture of experts, a dense model on a stack that was seen much, others.

    ``measured``: the estimate is scaled by a run of the same machine and stack; ``alone``: on one GPU.
    """
    if measured:
        kind = MEASURED
    elif stack == EAGER:
        kind = EAGER if alone and generation == "hopper" and not experts else OTHER
    elif experts:
        kind = EXPERTS
    else:
        kind = "dense" if generation in ("ampere", "hopper") and stack != "fsdp" else OTHER
    return _band(kind)


def band_of_pairs() -> ErrorBand:
    """Return the band of the ratio of two layouts' steps: of one model on as many GPUs."""
    return _band(PAIRS)


def _band(kind: str) -> ErrorBand:
    known: Mapping[str, Any] = table()["bands"][kind]
    return ErrorBand(kind, known["p50"], known["p90"], known["runs"])
