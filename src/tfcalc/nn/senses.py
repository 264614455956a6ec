"""What a language model sees and hears with, where that stands beside its table of words (Phi-4-multimodal)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor


class Sense(Module):
    """What reads an image or a clip, and two maps of its vectors to those of words, a GELU between them.

    Others of the same maps are held for clips that come with an image (``unread``).
    """

    kind = "embeddings"

    reads: Module
    up: Linear
    down: Linear
    unread: tuple[Linear, ...] = ()

    @property
    def beside_text(self) -> Iterator[Module]:
        """Itself."""
        return iter((self,))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of what goes with each sequence; ``x`` are its words."""
        made = self.up(self.rows(self.reads(x, self.beside(ctx)), ctx))
        return self.down(ctx.activation("gelu", made, "act"))

    def beside(self, ctx: Context) -> Context:
        """The run of what is read."""
        return ctx

    def rows(self, made: Tensor, ctx: Context) -> Tensor:
        """The vectors that are mapped: as many frames as the first map is wide are one."""
        return reshape(made, ctx.run.source.tokens, self.up.fan_in)


class Crops(Sense):
    """The same of an image that is cut into ``crops``, each of which a tower reads as an image.

    Of what it makes there are so many ``vectors``: those of neighbours become one, and trained ones (``ends``) stand at
    the ends of rows and between crops.
    """

    ends: tuple[Stored, ...] = ()
    crops: int = 1
    vectors: Num = 1

    @property
    def parts(self) -> Iterator[Module]:
        """What is trained first."""
        return iter((*self.ends, self.reads, self.up, self.down))

    def beside(self, ctx: Context) -> Context:
        """A run with all crops."""
        return ctx._replace(run=ctx.run.replaced(batch_size=ctx.run.batch_size * self.crops))

    def rows(self, made: Tensor, ctx: Context) -> Tensor:
        """Of all images one after another."""
        return reshape(made, ctx.run.beside(self.vectors).tokens, self.up.fan_in)


class Senses(Module):
    """All that is read beside words."""

    kind = "embeddings"

    senses: tuple[Sense, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What takes the place of some of the words' vectors, which is not counted."""
        for each in self.senses:
            each(x, ctx)
        return x


class WithSenses(Module):
    """A decoder whose parts stand beside what else is read; in a program that trains, there are words alone."""

    kind = "decoder"

    base: Decoder
    senses: Senses

    @property
    def parts(self) -> Iterator[Module]:
        """The table of words first."""
        table, *others = self.base.parts
        return iter((table, self.senses, *others))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        if not x.trace.lowers:
            self.senses(x, ctx)
        return self.base.forward(x, ctx)
