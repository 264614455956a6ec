"""How many floating-point operations: one forward pass, or a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.common import FLOPS, subject
from tfcalc.analysis.nothing import why_zero
from tfcalc.analysis.remarks import LENGTHS, SAMPLES, overcounted, remarks
from tfcalc.analysis.stated import for_programs, in_short, in_words, sizes_in_words
from tfcalc.conventions import Conventions
from tfcalc.core.component import Measure
from tfcalc.core.measure import (
    elementwise_again_flops,
    elementwise_backward_flops,
    elementwise_flops,
    flops_of,
    matmul_again_flops,
    matmul_backward_flops,
    matmul_flops,
)
from tfcalc.errors import UsageError
from tfcalc.report import Footer, Report, exact
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.common import Subject
    from tfcalc.analysis.fine_tuning import Tuning
    from tfcalc.footprint.plans import Training
    from tfcalc.model import Model


MATMUL = {"forward": matmul_flops, "backward": matmul_backward_flops, "recompute": matmul_again_flops}
ELEMENTWISE = {
    "forward": elementwise_flops,
    "backward": elementwise_backward_flops,
    "recompute": elementwise_again_flops,
}
TITLES = {
    "forward": "FLOPs for a forward pass",
    "train": "FLOPs for a training step",
    "prefill": "FLOPs for a prefill",
    "decode": "FLOPs to decode one token of each sequence",
}


def flops(
    model: Model,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    depth: int | None = None,
    training: Training | None = None,
) -> Report:
    """Count the FLOPs of ``model``: a forward pass, a training step, a prefill or a decoded token.

    A multiply-add is 2 FLOPs; a matrix product of M×K and K×N is 2·M·K·N forward and 4·M·K·N backward, as in PyTorch's
    FlopCounterMode.

    Args:
        model: a :class:`~tfcalc.Transformer`, or what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return.
        workload: ``phase``, sequences and their lengths in tokens; by default a forward pass of one of 512 tokens.
        conventions: which operations are counted: matrix products (default), or ``count="all"``.
        depth: levels of the breakdown; by default down to the layers.
        training: LoRA's adapters, or modules that are frozen, which need no gradients of their weights.

    Returns:
        A report: ``answer`` is the number of FLOPs; ``totals`` has those of forward, backward and recomputation, the
        number of tokens and the FLOPs per token.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: an option of the workload has no effect on this model.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> flops(Transformer(), Workload(batch_size=32, seq_len=20, source_len=10)).answer
    42553835520
    """
    conventions = conventions or Conventions()
    asked = subject(model, workload, conventions, training, FLOPS)
    workload = asked.run
    if asked.tuning is not None:
        check_tuning(asked.tuning, workload)
    root, everything = asked.node.component, conventions.count == "all"

    def amount(measure: Measure) -> int:
        return exact(root.total(measure))

    matmul = {name: amount(measure) for name, measure in MATMUL.items() if name == "forward" or workload.training}
    small = {name: amount(measure) for name, measure in ELEMENTWISE.items() if name == "forward" or workload.training}
    parts = {name: count + (small[name] if everything else 0) for name, count in matmul.items()}
    asked_for = flops_of(workload.training, everything)
    entry = asked.entry(asked_for, {"flops": asked_for}, depth)
    of_any_length = not LENGTHS.isdisjoint(entry.formula.free_symbols)
    tokens = exact(workload.target.tokens if of_any_length else workload.batch_size)
    per_token, rest = divmod(entry.value, tokens)
    tuned = () if asked.tuning is None else (asked.tuning.heading,)
    sizes = sizes_in_words(workload) if of_any_length else f"{workload.batch_size:,} samples"
    return Report(
        command="flops",
        heading=", ".join([asked.model.summary, *tuned, sizes]),
        title=TITLES[workload.phase],
        unit="flops",
        answer=entry.value,
        totals={
            **{f"{name}_flops": parts.get(name, 0) for name in MATMUL},
            "model_flops": entry.value - parts.get("recompute", 0),
            "total_flops": entry.value,
            "matmul_flops": sum(matmul.values()),
            "elementwise_flops": sum(small.values()),
            "overcounted_flops": overcounted(model, workload),
            "tokens": tokens,
            "flops_per_token": entry.value / tokens if rest else per_token,
        },
        model=asked.model.described(),
        conventions=for_programs("flops", workload, conventions)
        | ({} if of_any_length else {"tokens": SAMPLES})
        | ({} if asked.tuning is None else asked.tuning.described),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=(*([] if entry.value else [why_zero(root, "flops", workload)]), *remarks(model, workload)),
        footer=Footer(
            assumes=(*in_short(workload, conventions), *_frozen(asked)),
            not_counted="" if everything else "norms, softmax, activations, rotations (--count all)",
            see_also=("--train", "--formulas", "--assumptions")
            if workload.phase == "forward"
            else ("--formulas", "--assumptions"),
            assumptions=tuple(in_words("flops", workload, conventions, sizes=of_any_length)),
        ),
    )


def check_tuning(tuning: Tuning, run: Workload) -> None:
    """Raise UsageError for what is not counted of training a part, or changes no FLOPs of this run."""
    if tuning.plan.dora:
        raise UsageError("FLOPs of DoRA are not supported: its norms of weights are not counted", "leave out --dora")
    if tuning.plan.freeze and not run.training:
        raise UsageError(f"--freeze {tuning.plan.freeze} has no effect without --train", "add --train")


def _frozen(asked: Subject) -> tuple[str, ...]:
    """What backward spares; that of the first layer's input is counted, as checkpointing needs it."""
    return ("no gradients of frozen weights",) if asked.tuning is not None and asked.run.training else ()
