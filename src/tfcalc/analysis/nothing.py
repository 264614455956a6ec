"""Why a number is 0: that nothing of a part runs, or that it has nothing of the kind, is an answer too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.measure import elementwise_flops, params

if TYPE_CHECKING:
    from tfcalc.workload import Workload


def why_zero(part: Component, of: str, run: Workload) -> str:
    """The reason why ``part`` has 0 of a quantity on this workload, as a sentence."""
    if of == "trainable" and part.total(params):
        return "0: all of it is frozen"
    if of in ("params", "trainable", "memory"):
        return f"0: {_why_nothing_is_stored(part)}"
    parts = [node.component for node in part.walk()]
    if not any(each.own.products or each.kind == "linear" for each in parts):  # a map without products did not run
        rest = "; --count all counts its other work" if any(map(_works, parts)) else ""
        return f"0: there is no matrix product in it{rest}"
    if run.decoding:
        return "0: nothing of it runs when a token is decoded"
    return f"0: nothing of it runs on {run.batch_size:,} x {run.seq_len:,} tokens"


def _why_nothing_is_stored(part: Component) -> str:
    weights = [weight for node in part.walk() for weight in node.component.own.weights]
    if not weights:
        return "it has no weights"
    tied = [weight.tied_to for weight in weights if weight.tied_to is not None]
    return f"its weights are those of {tied[0]}, and stored there" if tied else "it has but biases or norms"


def _works(part: Component) -> bool:
    return bool(part.own.elementwise) and elementwise_flops(part.own) != 0
