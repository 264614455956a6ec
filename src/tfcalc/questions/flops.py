"""How many floating-point operations: one forward pass, or a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.conventions import Definitions
from tfcalc.core.component import Measure
from tfcalc.core.measure import (
    elementwise_backward_flops,
    elementwise_flops,
    flops_of,
    matmul_backward_flops,
    matmul_flops,
)
from tfcalc.questions.common import subject
from tfcalc.questions.stated import for_programs, in_words
from tfcalc.report import Report, exact
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model


def flops(
    model: Model, run: Workload | None = None, definitions: Definitions | None = None, *, depth: int | None = None
) -> Report:
    """The FLOPs of ``model`` on ``run``: a forward pass, or a training step (``Workload(phase="train")``).

    A multiply-add is 2 FLOPs; a matrix product of M×K and K×N is 2·M·K·N forward and 4·M·K·N backward.
    Raises InvalidModel where the model, or the model on this workload, makes no sense.

    >>> from tfcalc.families.transformer import Transformer
    >>> flops(Transformer(), Workload(batch_size=32, seq_len=20, source_len=10)).answer
    42553835520
    """
    definitions = definitions or Definitions()
    asked = subject(model, run, definitions)
    run = asked.run
    root, everything = asked.node.component, definitions.count == "all"

    def amount(measure: Measure) -> int:
        return exact(root.total(measure))

    forward, backward = amount(matmul_flops), amount(matmul_backward_flops) if run.training else 0
    small, small_backward = amount(elementwise_flops), amount(elementwise_backward_flops) if run.training else 0
    matmul, elementwise = forward + backward, small + small_backward
    if everything:
        forward, backward = forward + small, backward + small_backward
    entry = asked.entry(flops_of(run.training, everything), {}, depth)
    tokens = exact(run.target.tokens)
    per_token, rest = divmod(entry.value, tokens)
    return Report(
        command="flops",
        heading=asked.model.summary,
        title="FLOPs of a training step" if run.training else "FLOPs of a forward pass",
        unit="flops",
        answer=entry.value,
        totals={
            "forward_flops": forward,
            "backward_flops": backward,
            "recompute_flops": 0,
            "total_flops": entry.value,
            "matmul_flops": matmul,
            "elementwise_flops": elementwise,
            "tokens": tokens,
            "flops_per_token": entry.value / tokens if rest else per_token,
        },
        model=asked.model.described(),
        conventions=for_programs("flops", run, definitions),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=tuple(in_words("flops", run, definitions)),
    )
