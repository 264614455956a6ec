"""What is made of a tower's vectors: classes of the image, or its hidden patches."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.convolution import convolution
from tfcalc.ops.rows import mean_of_rows
from tfcalc.ops.shapes import beside, first, part, transpose
from tfcalc.tape.tensor import Tensor

FIRST, MEAN, OTHERS, BOTH = "first", "mean", "others", "both"
"""What of an image's vectors is read: the first, their mean, that of all others, or both side by side."""


class ImageClassifier(Module):
    """A tower, and maps that make classes of what is read of its vectors, side by side."""

    kind = "model"

    base: Module
    maps: tuple[Linear, ...]
    reads: str = FIRST

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of an image for each sequence."""
        made = self.base(x, ctx)
        if not self.maps:
            return made
        read = self._read(made)
        classes = [each(read) for each in self.maps]
        return classes[0]

    def _read(self, made: Tensor) -> Tensor:
        if self.reads == FIRST:
            return first(made)
        if self.reads == MEAN:
            return mean_of_rows(made)
        others = mean_of_rows(part(made, 1, made.shape[1] - 1))
        if self.reads == OTHERS:
            return others
        return beside((first(made), others), (made.shape[0], 2 * made.width))


class Pixels(Module):
    """The convolution: of all vectors but those before so many ``patches``."""

    kind = "convolution"

    width: Num
    made: Num
    patches: Num

    def held(self) -> Cost:
        """W and b."""
        return Cost(
            weights=(Weight("w", (self.made, self.width, 1, 1)), Weight("b", (self.made,), minor=True, key="bias"))
        )

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × vectors × h."""
        weight, bias = self.weights(x.trace)
        places = ctx.run.beside(self.patches).length
        return convolution(transpose(part(x, 1, places), 1, 2), weight, bias, places)
