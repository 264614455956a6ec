"""Share of an accelerator's peak that a training run uses: MFU and HFU from its tokens per second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING

from tfcalc.analysis.common import FLOPS, subject
from tfcalc.analysis.remarks import needs_tokens
from tfcalc.answers.flops import Flops, flops
from tfcalc.errors import UsageError
from tfcalc.hardware import SPARSITY, TERA, Accelerator, looks_sparse, named, parse_gpu
from tfcalc.model import own_run
from tfcalc.number_formats import MULTIPLIED
from tfcalc.printable import quoted
from tfcalc.report.declared import When, integer, number, text, texts
from tfcalc.report.opening import found, given, ratio
from tfcalc.report.sheet import Column, Rounded, Share, Sheet, of
from tfcalc.timing.estimate import OVER, whose_rate
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.analysis.common import Subject
    from tfcalc.model import Model
    from tfcalc.plans import Training

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


UTILISED = When(lambda used: used.machines, "mfu")
"""Of an answer about a throughput that was measured."""


class Utilisation(Flops):
    """MFU and HFU: what is done of the peak, by the FLOPs of a token and the tokens per second of all machines."""

    mfu = number(
        "model FLOPs utilisation, a fraction of 1",
        lambda used: float(used.model_share),
        ratio("tokens_per_second", "model_flops_per_token", over=("gpus", "peak_flops_per_second")),
        when=UTILISED,
    )
    hfu = number(
        "hardware FLOPs utilisation, a fraction of 1",
        lambda used: float(used.hardware_share),
        ratio("tokens_per_second", "hardware_flops_per_token", over=("gpus", "peak_flops_per_second")),
        when=UTILISED,
    )
    model_flops_per_token = number(
        "FLOPs per token without recomputation",
        lambda used: float(used.model_flops_of_token),
        ratio("model_flops", over=("tokens",)),
        found("the FLOPs of a step without recomputation (not that of a fused kernel either), by its tokens"),
        when=UTILISED,
    )
    hardware_flops_per_token = number(
        "FLOPs per token with recomputation",
        lambda used: float(used.hardware_flops_of_token),
        ratio("total_flops", over=("tokens",)),
        when=UTILISED,
    )
    tokens_per_second = number(
        "rate of all GPUs together",
        lambda used: float(used.rate),
        given("given by --tokens-per-second, or a step's tokens over --step-time"),
        when=UTILISED,
    )
    tokens_per_second_per_gpu = number(
        "rate of one GPU",
        lambda used: float(used.rate / used.machines.gpus),
        ratio("tokens_per_second", over=("gpus",)),
        when=UTILISED,
    )
    gpus = integer("GPUs", lambda used: used.machines.gpus, given("given by --gpus"), when=UTILISED)
    gpu = text("the accelerator; empty where only a peak was given", lambda used: used.machines.name, when=UTILISED)
    precision = text("number format of the peak", lambda used: used.machines.precision, when=UTILISED)
    peak_flops_per_second = number(
        "dense peak of one GPU",
        lambda used: used.machines.peak,
        given("given by --peak, or the GPU's data sheet"),
        when=UTILISED,
    )
    warnings = texts("what is doubtful of the rate or the peak", lambda used: used.doubts, when=UTILISED)

    def __init__(
        self,
        question: Subject,
        by: Conventions,
        machines: Machines,
        rate: float,
        *,
        per_gpu: bool,
        plan: Training | None = None,
    ) -> None:
        super().__init__(question, by)
        self.machines, self.per_gpu, self.plan = machines, per_gpu, plan
        self.rate = Fraction(rate) * (machines.gpus if per_gpu else 1)

    @cached_property
    def model_flops_of_token(self) -> Fraction:
        """FLOPs of a token, nothing recomputed, not by a fused kernel either."""
        once = replace(self.run, recompute="none", kernel="math")
        return Fraction(flops(self.question.model, once, self.by, training=self.plan).answer, self.tokens)

    @cached_property
    def hardware_flops_of_token(self) -> Fraction:
        """FLOPs of a token, with all that is recomputed."""
        return Fraction(self.total_flops, self.tokens)

    @property
    def model_share(self) -> Fraction:
        """Model FLOPs utilisation."""
        return self.model_flops_of_token * self.rate / self.machines.together

    @property
    def hardware_share(self) -> Fraction:
        """Hardware FLOPs utilisation."""
        return self.hardware_flops_of_token * self.rate / self.machines.together

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Warnings of what is probably wrong."""
        return tuple(_doubts(self))

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of a step's numbers, and of the ratios of utilisation."""
        return {**super().definitions, "mfu": MFU, "hfu": HFU, "tokens_per_second": "of all GPUs together"}

    def sheet(self) -> Sheet:
        """Return the rates and the peak that they are divided by."""
        known = self.machines
        shares = f"MFU {float(self.model_share):.2%}, HFU {float(self.hardware_share):.2%}"
        return Sheet(
            title=shares.replace("%", " %"),
            subtitle=self.heading,
            columns=[Column("rate", numeric=False), Column("FLOP/s"), Column("of the peak")],
            rows=[
                [f"peak of {_gpus(known)}", Rounded(float(known.together)), _share(known.together, known)],
                [
                    "MFU: model FLOPs",
                    Rounded(float(self.model_flops_of_token * self.rate)),
                    of(_share(self.model_share), Utilisation.mfu),
                ],
                [
                    "HFU: executed FLOPs",
                    Rounded(float(self.hardware_flops_of_token * self.rate)),
                    of(_share(self.hardware_share), Utilisation.hfu),
                ],
            ],
            quiet=of(Rounded(self.mfu), Utilisation.mfu),
            notes=[*self.doubts, *self._of_rates(), *self.notes],
            **(self.footer._asdict() | self._below()),
        )

    def _below(self) -> dict[str, tuple[str, ...]]:
        meanings = (f"MFU: {MFU}", f"HFU: {HFU}")
        return {"see_also": ("--assumptions", "--json"), "assumptions": (*meanings, *self.footer.assumptions)}

    def _of_rates(self) -> Iterator[str]:
        model, run, rate = round(self.model_flops_of_token), round(self.hardware_flops_of_token), float(self.rate)
        yield f"{model:,} model FLOPs per token ({run:,} executed) x {rate:,.10g} tokens/s of all GPUs together"
        yield f"dense {self.machines.precision} peak: {_tera(self.machines.peak)} TFLOP/s per GPU"
        yield from self.machines.notes


def utilisation(
    model: Model,
    rate: float,
    machines: Machines,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    per_gpu: bool = False,
    training: Training | None = None,
) -> Utilisation:
    """MFU and HFU of training ``model`` at ``rate`` tokens per second, of all ``machines`` or of each (``per_gpu``).

    MFU leaves out recomputation, HFU counts all that ``workload`` runs. Where ``training`` adapts or freezes modules,
    both are of the FLOPs of that step: frozen weights have no gradients. Raises UsageError for a rate, a peak or
    a number of GPUs that is not above 0, and InvalidModel as :func:`~tfcalc.flops`.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> used = utilisation(Transformer(), 100_000, Machines(peak=312e12))
    >>> used.model_share == used.model_flops_of_token * 100_000 / 312_000_000_000_000
    True
    """
    for what, amount in (("tokens per second", rate), ("peak", machines.peak), ("GPUs", machines.gpus)):
        if not (isfinite(amount) and amount > 0):
            raise UsageError(f"{what} {amount!r} is not above 0", "give a positive number")
    if machines.peak < SMALLEST_PEAK:
        raise UsageError(
            f"a peak of {machines.peak:g} FLOP/s is too low for an accelerator",
            f"{machines.peak:g} TFLOP/s are {machines.peak:g}T",
        )
    workload = own_run(model, workload or Workload(phase="train")).of_flops.replaced(convolutions="run")
    if not workload.training:
        raise UsageError(f"MFU is defined for training, not for phase {workload.phase}", "use phase train")
    by = conventions or Conventions()
    question = subject(model, workload, by, training=training, of=FLOPS)
    used = Utilisation(question, by, machines, rate, per_gpu=per_gpu, plan=training)
    needs_tokens(used.conventions, "MFU from a rate of tokens")
    return used


def machines_of(name: str, gpus: int = 1, precision: str = "bf16") -> Machines:
    """Accelerators of the table, with their dense peak at this precision; ``8xh100`` are eight.

    Raises UsageError with the nearest name, or where two numbers of GPUs are given.

    >>> machines_of("h100", 8).peak, machines_of("8xh100").gpus
    (989400000000000.0, 8)
    """
    count, card = parse_gpu(name)
    if count > 1 and gpus not in (1, count):
        raise UsageError(f"--gpu {quoted(name)} are {count} GPUs, and --gpus says {gpus}", "leave one of them out")
    gpus = count if count > 1 else gpus
    found, *others = named(card, "--peak")
    peak = found.peak(precision)
    return Machines(peak, gpus, precision, found.name, (*found.doubts(), *_others(found, others, precision)))


def _others(found: Accelerator, others: list[Accelerator], precision: str) -> Iterator[str]:
    """Yield the other accelerators that the name may also mean, where it makes a difference."""
    unlike = [one for one in others if one.peaks.get(precision) != found.peaks[precision]]
    if unlike:
        peaks = ", ".join(f"{one.name} ({_tera(one.peaks.get(precision, 0))})" for one in unlike)
        yield f"assuming {found.name}; others of this name: {peaks}"


def _doubts(used: Utilisation) -> Iterator[str]:
    """Yield what is probably wrong."""
    known = used.machines
    if known.name == "" and known.precision in MULTIPLIED and (card := looks_sparse(known.peak, known.precision)):
        dense = card.peaks[known.precision]
        yield (
            f"{_tera(known.peak)} TFLOP/s looks like {card.name}'s peak with sparsity: dense {known.precision} is "
            f"{_tera(dense)}, by which MFU is {float(used.model_share) * SPARSITY:.2%}".replace("%", " %")
        )
    elif used.hardware_share > 1:
        which, above = ("MFU", used.model_share) if used.model_share > 1 else ("HFU", used.hardware_share)
        yield f"{which} {OVER}: {_remedy(used, float(above))}"


def _remedy(used: Utilisation, above: float) -> str:
    gpus = used.machines.gpus
    if used.recompute_flops and used.model_share <= 1 and not (used.per_gpu and 1 < above <= gpus):
        return "does this run recompute that much? See --checkpointing"
    if whose := whose_rate(above, gpus, per_gpu=used.per_gpu):
        return f"{whose}: add --gpus" if gpus == 1 else f"{whose} Without --per-gpu it is {100 * above / gpus:.1f} %"
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
