"""What is added to attention's scores for the distance of two tokens."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.shapes import copied, expand, reshape, transpose
from tfcalc.ops.tables import looked_up
from tfcalc.tape.tensor import Tensor


class RelativeBias(Module):
    """A number for each head and each bucket of distances (T5). It is looked up once for all layers, and not counted.

    A program may copy them for each sequence (``by_sequence``).

    Source: Raffel et al. 2019 (arXiv 1910.10683), section 2.1.
    """

    kind = "position"

    rows: Num
    heads: Num
    by_sequence: bool = False

    def held(self) -> Cost:
        """The numbers."""
        return Cost(weights=(Weight(self.name, (self.rows, self.heads), key=""),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of 1 × a × l × l; it lies in memory by pairs, and is read by heads."""
        (table,) = self.weights(x.trace)
        length = ctx.stream.length
        buckets = x.trace.new((length, length), "int64", "buckets")
        made = transpose(reshape(looked_up(table, buckets), 1, length, length, self.heads), 1, 3)
        return copied(expand(made, ctx.stream.batch, *made.shape[1:])) if self.by_sequence else made
