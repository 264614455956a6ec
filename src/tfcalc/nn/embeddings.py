"""Tables beside that of the words: where a token stands, and to which segment it belongs."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.module import Module
from tfcalc.ops.shapes import expand
from tfcalc.ops.tables import embedding, position, sines
from tfcalc.tape.tensor import Tensor

PLACES, TOKENS, BUFFER = "places", "tokens", "buffer"
"""What rows a program asks a table for: numbers that it makes for each place of a sequence, or for each token of each
sequence, or a buffer that is there anyway."""


def rows_asked(ids: Tensor, indices: str) -> Tensor:
    """The numbers of rows, for each place or each token."""
    shape = ids.shape if indices == TOKENS else (1, *ids.shape[1:])
    return ids.trace.given(shape, "int64", indices) if indices == BUFFER else ids.trace.new(shape, "int64", indices)


class Positions(Module):
    """A trained vector of this ``width`` for each position."""

    kind = "position"

    rows: Num
    width: Num
    indices: str = PLACES

    def held(self) -> Cost:
        """P."""
        return Cost(weights=(Weight("P", (self.rows, self.width)),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of the places of these tokens."""
        (table,) = (x.trace.weight(each) for each in self.held().weights)
        return position(table, rows_asked(x, self.indices), x.elements)


class Sines(Module):
    """Sines and cosines of each position, which are made anew in each process."""

    kind = "position"

    width: Num

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of the places of these tokens."""
        return sines(rows_asked(x, PLACES), self.width, x.elements, x.trace.weights_format)


class Segments(Module):
    """A vector of this ``width`` for each of so many kinds of tokens: the first sentence, the second."""

    kind = "embedding"

    rows: Num
    width: Num
    indices: str = PLACES

    def held(self) -> Cost:
        """E."""
        return Cost(weights=(Weight("E", (self.rows, self.width)),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of these tokens."""
        (table,) = (x.trace.weight(each) for each in self.held().weights)
        return embedding(table, expand(rows_asked(x, self.indices), *x.shape))
