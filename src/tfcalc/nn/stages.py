"""Stages of a tower, which see an image more and more coarsely, in wider and wider vectors."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import through
from tfcalc.nn.images import ImageEmbeddings
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.nn.tower import Tower
from tfcalc.ops.elementwise import add, dropout
from tfcalc.ops.shapes import copied
from tfcalc.tape.tensor import Tensor


class NormedPatches(ImageEmbeddings):
    """Patches' vectors with a norm, before positions are added."""

    norm: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of pixels."""
        made = self.patches(x, ctx)
        made = made if self.norm is None else self.norm(made, ctx)
        made = made if self.positions is None else add(made, self.positions(made, ctx))
        return dropout(made, "embedding_dropout") if self.dropped and ctx.drops else made


class Merging(Module):
    """Four neighbours, side by side, become one vector of twice their width: so many of each image (``count``).

    Source: Liu et al. 2021 (Swin, arXiv 2103.14030), section 3.1.
    """

    kind = "merging"

    norm: Norm
    reduction: Linear
    count: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × patches × h."""
        shape = (x.shape[0], ctx.run.beside(self.count).length, self.norm.width)
        return self.reduction(self.norm(copied(x, shape, "cat"), ctx))


class Stage(Module):
    """Layers that see an image as so many vectors (``count``), and what makes fewer of them."""

    kind = "stage"

    layers: Stack
    merging: Merging | None
    count: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of all vectors of an image."""
        x = through(self.layers, x, ctx._replace(stream=ctx.run.beside(self.count)))
        return x if self.merging is None else self.merging(x, ctx)


class Stages(Module):
    """One after another."""

    kind = "encoder"

    stages: tuple[Stage, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the embeddings."""
        for stage in self.stages:
            x = stage(x, ctx)
        return x


class Staged(Tower):
    """A tower of stages; the mean of the last vectors stands for the image."""

    stages: Stages | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Embeddings, stages, and the norm."""
        return iter(each for each in (self.table, self.stages, self.norm) if each is not None)

    def through(self, x: Tensor, ctx: Context) -> Tensor:
        """What the stages make."""
        assert self.stages is not None
        return self.stages(x, ctx)
