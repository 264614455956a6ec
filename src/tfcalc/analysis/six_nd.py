"""The rule of thumb 6ND, with N defined, and why it is not the exact count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.analysis.params import embedded
from tfcalc.core.component import Component, Measure, Node
from tfcalc.core.measure import (
    active_params,
    elementwise_again_flops,
    elementwise_backward_flops,
    elementwise_flops,
    matmul_again_flops,
    matmul_backward_flops,
    matmul_flops,
)
from tfcalc.report import exact

PASSES = 3
"""Of a training step: forward, and backward twice as much."""

MULTIPLY_ADD = 2
TABLES = ("embedding", "position")
MATMUL = (matmul_flops, matmul_backward_flops)
ELEMENTWISE = (elementwise_flops, elementwise_backward_flops, elementwise_again_flops)


class Counted(NamedTuple):
    """N: the active parameters, with the tables of embeddings and positions, and without them."""

    every: int
    without_embeddings: int


class Term(NamedTuple):
    """A part of the difference between the exact count and 6ND, in words."""

    what: str
    flops: int


def counted(root: Component) -> Counted:
    """N in its two definitions; of experts, those that are active.

    >>> from tfcalc.families.transformer import Transformer
    >>> from tfcalc.workload import Workload
    >>> counted(Transformer(kind="encoder", vocab_size=1000, positions="none").tree(Workload()))
    Counted(every=19939328, without_embeddings=19427328)
    """
    every = exact(root.total(active_params))
    return Counted(every, every - exact(embedded(root)))


def six_nd(params: int, tokens: int) -> int:
    """``6ND``: a multiply-add forward and two backward, for each parameter and token."""
    return MULTIPLY_ADD * PASSES * params * tokens


def difference(root: Node, tokens: int, params: int, everything: bool) -> list[Term]:
    """What the exact count of a training step has beyond ``6·params·tokens``, by what it is spent on.

    The terms add up to the difference. What 6ND counts and nothing multiplies is negative: a row that is looked up, a
    bias, a norm. ``everything`` says whether work that is no matrix product is in the count.
    """
    sums: dict[str, int] = {}
    left_out = counted(root.component).every - params
    for node in root.walk():
        for what, flops in _terms(node, tokens, everything):
            sums[what] = sums.get(what, 0) + flops
    if left_out:
        sums[LOOKED_UP] = sums.get(LOOKED_UP, 0) + six_nd(left_out, tokens)
    return [Term(what, sums[what]) for what in ORDER if sums.get(what)]


ATTENTION = "attention scores and values"
OTHER = "other products"
TIED = "tied head"
LOOKED_UP = "embedding lookups"
SMALL = "biases and norms"
UNLIKE = "not run once per token"
AGAIN = "recomputed"
REST = "elementwise work"
ORDER = (ATTENTION, OTHER, TIED, LOOKED_UP, SMALL, UNLIKE, AGAIN, REST)


def _terms(node: Node, tokens: int, everything: bool) -> Iterator[tuple[str, int]]:
    """The FLOPs of one operation, less those that 6ND gives its parameters."""
    own, kind = node.component.own, node.component.kind
    products, stored = _run(node, *MATMUL), exact(node.times[active_params.counts] * active_params(own))
    minor = exact(node.times.active * sum(exact(w.size) for w in own.weights if w.minor and w.tied_to is None))
    yield AGAIN, _run(node, matmul_again_flops)
    if everything:
        yield REST, _run(node, *ELEMENTWISE)
    if kind in TABLES:
        yield LOOKED_UP, products - six_nd(stored, tokens)
        return
    yield SMALL, -six_nd(minor, tokens)
    if stored > minor:
        yield UNLIKE, products - six_nd(stored - minor, tokens)
    elif any(weight.tied_to for weight in own.weights):
        yield TIED, products
    else:
        yield (ATTENTION if kind == "attend" else OTHER), products


def _run(node: Node, *measures: Measure) -> int:
    return sum(exact(node.times[measure.counts] * measure(node.component.own)) for measure in measures)
