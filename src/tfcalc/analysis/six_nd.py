"""The rule of thumb 6ND, with N defined, and why it is not the exact count."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.analysis.folds import OF_TABLES
from tfcalc.core.component import ACTIVE, TABLES, Component, Measure, Node
from tfcalc.core.measure import (
    active_params,
    elementwise_again_flops,
    elementwise_backward_flops,
    elementwise_flops,
    frozen_params,
    matmul_again_flops,
    matmul_backward_flops,
    matmul_flops,
)
from tfcalc.named_tuple import NamedTuple
from tfcalc.report import exact

active_frozen = Measure(frozen_params.of, ACTIVE)
"""Parameters that a token goes through and that are not trained."""

PASSES = 3
"""Of a training step: forward, and backward twice as much."""

MULTIPLY_ADD = 2
MATMUL = (matmul_flops, matmul_backward_flops)
ELEMENTWISE = (elementwise_flops, elementwise_backward_flops, elementwise_again_flops)


class Counted(NamedTuple):
    """N: the active parameters, with the tables of embeddings and positions, and without them."""

    every: int
    without_embeddings: int


class Size(NamedTuple):
    """N of a rule: ``params``, and how many of them are ``frozen``, so that backward has one product less for each."""

    params: int
    frozen: int = 0

    def flops(self, tokens: int) -> int:
        """``6ND``, and ``4ND`` of what is frozen.

        >>> Size(7).flops(10), Size(7, frozen=7).flops(10)
        (420, 280)
        """
        return MULTIPLY_ADD * (PASSES * self.params - self.frozen) * tokens


class Difference6ND(NamedTuple):
    """A part of the difference between the exact count and 6ND, in words."""

    what: str
    flops: int


def six_nd(params: int, tokens: int) -> int:
    """``6ND``: a multiply-add forward and two backward, for each parameter and token."""
    return Size(params).flops(tokens)


def counted(root: Component, of: Measure = active_params) -> Counted:
    """N in its two definitions; of experts, those that are active.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> from tfcalc.workload import Workload
    >>> counted(Transformer(kind="encoder", vocab_size=1000, positions="none").tree(Workload()))
    Counted(every=19939328, without_embeddings=19427328)
    """
    every = exact(root.total(of))
    return Counted(every, every - exact(OF_TABLES.of(root).total(of)))


def sized(root: Component, *, tuned: bool) -> tuple[Size, Size]:
    """Return N in both definitions as the rule of thumb takes it; where a part is ``tuned``, the rest is frozen."""
    frozen = counted(root, active_frozen) if tuned else Counted(0, 0)
    every, without = map(Size, counted(root), frozen)
    return every, without


def difference(root: Node, tokens: int, n: Size, everything: bool, *, tuned: bool = False) -> list[Difference6ND]:
    """Split the excess of a training step's exact count over the rule of thumb for ``n`` by what it is spent on.

    The terms add up to the difference. What 6ND counts and nothing multiplies is negative: a row that is looked up, a
    bias, a norm. ``everything`` says whether work that is no matrix product is in the count.
    """
    sums: dict[str, int] = {}
    every, _ = sized(root.component, tuned=tuned)
    left_out = every.flops(tokens) - n.flops(tokens)
    for node in root.walk():
        frozen = tuned and all(weight.frozen for weight in node.component.own.weights)
        for what, flops in _terms(node, tokens, everything, frozen):
            sums[what] = sums.get(what, 0) + flops
    if left_out:
        sums[LOOKED_UP] = sums.get(LOOKED_UP, 0) + left_out
    return [Difference6ND(what, sums[what]) for what in ORDER if sums.get(what)]


ATTENTION = "attention scores and values"
OTHER = "other products"
TIED = "tied head"
LOOKED_UP = "embedding lookups"
SMALL = "biases and norms"
UNLIKE = "not run once per token"
AGAIN = "recomputed"
REST = "elementwise work"
ORDER = (ATTENTION, OTHER, TIED, LOOKED_UP, SMALL, UNLIKE, AGAIN, REST)


def _terms(node: Node, tokens: int, everything: bool, frozen: bool) -> Iterator[tuple[str, int]]:
    """The FLOPs of one operation, less those that the rule gives its parameters."""

    def rule(params: int) -> int:
        return Size(params, params if frozen else 0).flops(tokens)

    own, kind = node.component.own, node.component.kind
    products, stored = _run(node, *MATMUL), exact(node.times[active_params.counts] * active_params(own))
    minor = exact(node.times.active * sum(exact(w.size) for w in own.weights if w.minor and w.tied_to is None))
    yield AGAIN, _run(node, matmul_again_flops)
    if everything:
        yield REST, _run(node, *ELEMENTWISE)
    if kind in TABLES:
        yield LOOKED_UP, products - rule(stored)
        return
    yield SMALL, -rule(minor)
    if stored > minor:
        yield UNLIKE, products - rule(stored - minor)
    elif any(weight.tied_to for weight in own.weights):
        yield TIED, products
    else:
        yield (ATTENTION if kind == "attend" else OTHER), products


def _run(node: Node, *measures: Measure) -> int:
    return sum(exact(node.times[measure.counts] * measure(node.component.own)) for measure in measures)
