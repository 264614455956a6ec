"""How much of an accelerator's peak a training run uses: MFU and HFU from its tokens per second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isfinite
from typing import TYPE_CHECKING

from tfcalc.analysis.flops import flops
from tfcalc.analysis.remarks import needs_tokens
from tfcalc.conventions import Conventions
from tfcalc.errors import UsageError
from tfcalc.hardware import SPARSITY, TERA, Accelerator, looks_sparse, named
from tfcalc.number_formats import MULTIPLIED
from tfcalc.report import Report
from tfcalc.report.sheet import Column, Rounded, Share, Sheet
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

MFU = "model FLOPs (without recomputation) over the peak (arXiv 2204.02311, appendix B)"
HFU = "executed FLOPs over the peak, with recomputation (of activations, of a fused kernel's scores)"
SMALLEST_PEAK = 10**10
"""No accelerator is slower; a peak below it was meant in TFLOP/s."""


@dataclass(frozen=True, slots=True)
class Machines:
    """``gpus`` accelerators with a dense ``peak`` each, in FLOP/s; ``name`` and ``notes`` where the table has them."""

    peak: float
    gpus: int = 1
    precision: str = "bf16"
    name: str = ""
    notes: tuple[str, ...] = ()

    @property
    def together(self) -> Fraction:
        """The peak of all."""
        return self.gpus * Fraction(self.peak)


@dataclass(frozen=True, slots=True)
class Utilisation:
    """``model_flops`` and ``hardware_flops`` are those of a token, ``rate`` the tokens per second of all machines."""

    step: Report
    machines: Machines
    rate: Fraction
    model_flops: Fraction
    hardware_flops: Fraction
    warnings: tuple[str, ...]

    @property
    def mfu(self) -> Fraction:
        """Model FLOPs utilisation."""
        return self.model_flops * self.rate / self.machines.together

    @property
    def hfu(self) -> Fraction:
        """Hardware FLOPs utilisation."""
        return self.hardware_flops * self.rate / self.machines.together

    def sheet(self) -> Sheet:
        """What is divided by what."""
        known = self.machines
        return Sheet(
            title=f"MFU {float(self.mfu):.2%}, HFU {float(self.hfu):.2%}".replace("%", " %"),
            subtitle=self.step.heading,
            columns=[Column("rate", numeric=False), Column("FLOP/s"), Column("of the peak")],
            rows=[
                [f"peak of {_gpus(known)}", Rounded(float(known.together)), _share(known.together, known)],
                ["MFU: model FLOPs", Rounded(float(self.model_flops * self.rate)), _share(self.mfu)],
                ["HFU: executed FLOPs", Rounded(float(self.hardware_flops * self.rate)), _share(self.hfu)],
            ],
            quiet=Rounded(float(self.mfu)),
            notes=[*self.warnings, *self._notes(), *self.step.notes],
            **(self.step.footer._asdict() | self._footer()),
        )

    def _footer(self) -> dict[str, tuple[str, ...]]:
        meanings = (f"MFU: {MFU}", f"HFU: {HFU}")
        return {
            "see_also": ("--assumptions", "--json"),
            "assumptions": (*meanings, *self.step.footer.assumptions),
        }

    def _notes(self) -> Iterator[str]:
        model, run, rate = round(self.model_flops), round(self.hardware_flops), float(self.rate)
        yield f"{model:,} model FLOPs per token ({run:,} executed) x {rate:,.10g} tokens/s of all GPUs together"
        yield f"dense {self.machines.precision} peak: {_tera(self.machines.peak)} TFLOP/s per GPU"
        yield from self.machines.notes

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the keys of a step, and the utilisation as fractions of 1."""
        found = self.step.to_dict()
        components = found.pop("components")
        told = {"mfu": MFU, "hfu": HFU, "tokens_per_second": "of all GPUs together"}
        return {
            **found,
            "conventions": {**self.step.conventions, **told},
            "mfu": float(self.mfu),
            "hfu": float(self.hfu),
            "model_flops_per_token": float(self.model_flops),
            "hardware_flops_per_token": float(self.hardware_flops),
            "tokens_per_second": float(self.rate),
            "tokens_per_second_per_gpu": float(self.rate / self.machines.gpus),
            "gpus": self.machines.gpus,
            "gpu": self.machines.name,
            "precision": self.machines.precision,
            "peak_flops_per_second": self.machines.peak,
            "warnings": list(self.warnings),
            "components": components,
        }


def utilisation(
    model: Model,
    rate: float,
    machines: Machines,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    per_gpu: bool = False,
) -> Utilisation:
    """MFU and HFU of training ``model`` at ``rate`` tokens per second, of all ``machines`` or of each (``per_gpu``).

    MFU leaves out recomputation, HFU counts all that ``workload`` runs. Raises UsageError for a rate, a peak or
    a number of GPUs that is not above 0, and InvalidModel as :func:`~tfcalc.analysis.flops.flops`.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> used = utilisation(Transformer(), 100_000, Machines(peak=312e12))
    >>> used.mfu == used.model_flops * 100_000 / 312_000_000_000_000
    True
    """
    for what, number in (("tokens per second", rate), ("peak", machines.peak), ("GPUs", machines.gpus)):
        if not (isfinite(number) and number > 0):
            raise UsageError(f"{what} {number!r} is not above 0", "give a positive number")
    if machines.peak < SMALLEST_PEAK:
        raise UsageError(
            f"a peak of {machines.peak:g} FLOP/s is too low for an accelerator",
            f"{machines.peak:g} TFLOP/s are {machines.peak:g}T",
        )
    workload = (workload or Workload(phase="train")).replaced(convolutions="run")
    if not workload.training:
        raise UsageError(f"MFU is defined for training, not for phase {workload.phase}", "use phase train")
    step = flops(model, workload, conventions)
    needs_tokens(step, "MFU from a rate of tokens")
    once = replace(workload, recompute="none", kernel="math")
    tokens = int(step.totals["tokens"])
    found = Utilisation(
        step,
        machines,
        Fraction(rate) * (machines.gpus if per_gpu else 1),
        Fraction(flops(model, once, conventions).answer, tokens),
        Fraction(step.answer, tokens),
        (),
    )
    return replace(found, warnings=tuple(_warnings(found, per_gpu)))


def machines_of(name: str, gpus: int = 1, precision: str = "bf16") -> Machines:
    """Accelerators of the table, with their dense peak at this precision. Raises UsageError with the nearest name.

    >>> machines_of("h100", 8).peak
    989400000000000.0
    """
    found, *others = named(name)
    peak = found.peak(precision)
    return Machines(peak, gpus, precision, found.name, (*found.doubts(), *_others(found, others, precision)))


def _others(found: Accelerator, others: list[Accelerator], precision: str) -> Iterator[str]:
    """Those that the name may also mean, where it makes a difference."""
    unlike = [one for one in others if one.peaks.get(precision) != found.peaks[precision]]
    if unlike:
        peaks = ", ".join(f"{one.name} ({_tera(one.peaks.get(precision, 0))})" for one in unlike)
        yield f"assuming {found.name}; others of this name: {peaks}"


def _warnings(found: Utilisation, per_gpu: bool) -> Iterator[str]:
    """What is probably wrong."""
    given = found.machines
    if given.name == "" and given.precision in MULTIPLIED and (card := looks_sparse(given.peak, given.precision)):
        dense = card.peaks[given.precision]
        yield (
            f"{_tera(given.peak)} TFLOP/s looks like {card.name}'s peak with sparsity: dense {given.precision} is "
            f"{_tera(dense)}, by which MFU is {float(found.mfu) * SPARSITY:.2%}".replace("%", " %")
        )
    elif found.hfu > 1:
        which, used = ("MFU", found.mfu) if found.mfu > 1 else ("HFU", found.hfu)
        yield f"{which} over 100 % is impossible: {_remedy(found, float(used), per_gpu)}"


def _remedy(found: Utilisation, used: float, per_gpu: bool) -> str:
    gpus = found.machines.gpus
    if per_gpu and gpus > 1 and used <= gpus:
        return f"is the rate of all {gpus} GPUs together? Without --per-gpu it is {used / gpus:.1%}".replace("%", " %")
    if found.step.totals["recompute_flops"] and found.mfu <= 1:
        return "does this run recompute that much? See --checkpointing"
    if gpus == 1:
        return f"is the rate of several GPUs? It takes at least {ceil(used):,}: add --gpus"
    return (
        "check the rate (tokens, not samples, in a second), the number of GPUs, the peak, the precision and the model"
    )


def _tera(flops: float) -> str:
    return f"{flops / TERA:,.5g}"


def _gpus(known: Machines) -> str:
    kind = known.name or "GPU"
    return f"{known.gpus:,} x {kind}" if known.gpus > 1 else kind


def _share(part: Fraction, of: Machines | None = None) -> Share:
    share = part / of.together if of else part
    return Share(share.numerator, share.denominator)
