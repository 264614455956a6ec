"""Language models that read images: what a tower sees is projected, and stands among the words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.core.number import Num, floor_div
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import mul
from tfcalc.ops.shapes import copied, reshape, split
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    pass


class Projector(Module):
    """What makes vectors of the text's width of those that a tower has seen: its parts one after another.

    An ``activation`` stands before the last.
    """

    kind = "projector"

    steps: tuple[Module, ...]
    activation: str = ""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of rows."""
        for place, each in enumerate(self.steps):
            x = each(x, ctx)
            if self.activation and place == len(self.steps) - 2:
                x = self._activated(x, ctx)
        return x

    def _activated(self, x: Tensor, ctx: Context) -> Tensor:
        return ctx.activation(self.activation, x, "act")


class GatedProjector(Projector):
    """The same with a gate: half of what the map before the last makes, times the activation of the other half."""

    def _activated(self, x: Tensor, ctx: Context) -> Tensor:
        half = self.steps[-1]
        assert isinstance(half, Linear)
        one, gate = split(x, [half.fan_in] * 2)
        return mul(one, super()._activated(gate, ctx))


class PatchMerger(Linear):
    """A linear map of squares of patches: so many (``merged``) of each image."""

    merged: Num = 1

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Of all patches, one by one."""
        ctx = given[0]
        assert isinstance(ctx, Context)
        return super().forward(reshape(x, ctx.run.beside(self.merged).tokens, self.fan_in))


class ImageReader(Module):
    """A tower, what is ``between`` it and the text, and the text model.

    Of each image ``vectors`` are taken, of this ``width``; so many that lie ``together`` become one. Where images are
    of any size, they are as many as a source is long (None). An image may be cut into ``tiles``, each an image of its
    own to the tower.

    The text's sequences are as long as they are, whatever stands for the words in them; in a program that trains, they
    have no images. Where the word that an image stands for has no row in the table, it makes a copy of the words
    without it (``copies_ids``).
    """

    kind = "multimodal"

    tower: Module
    between: tuple[Module, ...]
    text: Module
    vectors: Num | None
    width: Num
    together: Num = 1
    tiles: Num = 1
    copies_ids: bool = False

    @property
    def beside_text(self) -> Iterator[Module]:
        """The tower and what is between it and the text."""
        return iter((self.tower, *self.between))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        if not x.trace.lowers:
            self._see(x, ctx)
        return self.text(copied(x) if self.copies_ids else x, ctx)

    def _see(self, x: Tensor, ctx: Context) -> None:
        """What takes the place of some of the words' vectors (masked_scatter), which is not counted."""
        run = ctx.run.replaced(batch_size=ctx.run.batch_size * self.tiles)
        images = run.source if self.vectors is None else run.beside(self.vectors)
        rows = images.batch * floor_div(images.length, self.together)
        ctx = ctx._replace(run=run)
        made, ctx = reshape(self.tower(x, ctx), rows, self.width), ctx._replace(stream=images)
        for each in self.between:
            if not isinstance(each, Stored):
                made = each(made, ctx)


class PatchReader(ImageReader):
    """A model that has no tower but a single map of each patch's pixels."""

    kind = "decoder"

    @property
    def parts(self) -> Iterator[Module]:
        """The text first."""
        return iter((self.text, self.tower))


class PixelMap(Linear):
    """A linear map of the pixels of each of so many ``patches``."""

    patches: Num = 1

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Of images that are given beside ``x``, which is not read."""
        ctx = given[0]
        assert isinstance(ctx, Context)
        stream = ctx.run.beside(self.patches)
        return super().forward(x.trace.given((stream.batch, stream.length, self.fan_in), "float32", "pixels"))


class Multimodal(Module):
    """A text model, and what reads images or sounds for it: parts one after another for each of them (``chains``).

    A program may look up words by a copy of their ids (``copies_ids``). In one that trains, there are words alone.
    """

    kind = "multimodal"

    text: Module
    chains: tuple[tuple[Module, ...], ...]
    copies_ids: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The text, and the parts of each chain."""
        return iter((self.text, *self.beside_text))

    @property
    def beside_text(self) -> Iterator[Module]:
        """The parts of each chain."""
        return (each for chain in self.chains for each in chain)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        for chain in () if x.trace.lowers else self.chains:
            made = x
            for each in chain:
                made = each(made, ctx)
        return self.text(copied(x) if self.copies_ids else x, ctx)
