"""Attention over depth: what a layer reads is a mixture of the sums of the blocks of layers before it."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs
from tfcalc.leaves import attend, norm, parameter
from tfcalc.workload import Sequences


class ResidualAttention(NamedTuple):
    """Trained ``queries`` of one head, for every token over its own few vectors, normed, which are keys and values.

    Source: transformers' Inkling2BlockAttentionResidual.
    """

    d_model: Num

    def __call__(self, name: str, vectors: int, stream: Sequences, *, queries: int = 1) -> Component:
        """The block on these sequences."""
        h, t = self.d_model, stream.tokens
        pairs = Pairs((2, t, queries, vectors), t * queries * vectors)
        parts = (
            parameter("query", queries, h),
            norm("norm", "rmsnorm-plain", h, t * vectors),
            attend("attend", 1, h, h, pairs),
        )
        return Component(name, "norm", parts=parts)
