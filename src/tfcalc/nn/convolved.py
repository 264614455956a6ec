"""Convolutions of vectors of patches, as they lie in an image."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, divide
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.nn.reader import Projector
from tfcalc.nn.tower import OpenTower
from tfcalc.ops.convolution import convolution
from tfcalc.ops.shapes import transpose
from tfcalc.tape.tensor import Tensor


class Convolved(Module):
    """A convolution without a bias that makes so many vectors (``count``) of each image."""

    kind = "convolution"

    fan_in: Num
    made: Num
    taps: tuple[Num, ...]
    count: Num

    def held(self) -> Cost:
        """W."""
        return Cost(weights=(Weight("w", (self.made, self.fan_in, *self.taps)),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × patches × channels."""
        (weight,) = self.weights(x.trace)
        return transpose(convolution(transpose(x, 1, 2), weight, None, ctx.run.beside(self.count).length), 1, 2)


class Neck(Module):
    """Two convolutions to fewer channels, with a norm behind each."""

    kind = "neck"

    steps: tuple[Convolved | Norm, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for each in self.steps:
            x = each(x, ctx)
        return x


class WithNeck(OpenTower):
    """A tower with a neck (SAM, arXiv 2304.02643)."""

    neck: Neck | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Vectors with fewer channels."""
        made = super().forward(x, ctx)
        assert self.neck is not None
        return self.neck(made, ctx)


class ConvolvedProjector(Projector):
    """A projector whose steps look at neighbours, and so read image by image."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the rows of all images."""
        images = ctx.run.beside(1).batch
        return super().forward(x.trace.view(x, (images, divide(x.shape[0], images), x.width), None), ctx)
