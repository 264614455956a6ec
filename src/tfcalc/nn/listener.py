"""Language models that hear: an encoder of sound, a projector of its frames, and the decoder that reads these."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from tfcalc.core.number import divide
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.frames import SoundEncoder
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add
from tfcalc.ops.frames import mean
from tfcalc.ops.shapes import copied, reshape
from tfcalc.tape.tensor import Tensor


class SoundProjector(Module):
    """Maps, one after another with an activation or a norm ``between`` them, of as many frames as the first is wide."""

    kind = "projector"

    maps: tuple[Linear, ...]
    activation: str = ""
    norm: Norm | None = None
    between: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × h. Raises InvalidModel where the first map cannot read all of it."""
        fan_in = self.maps[0].fan_in
        numbers, reads = known(x.elements), known(fan_in)
        if numbers is not None and reads is not None and numbers % reads:
            fact = f"{numbers:,} numbers of sound, in frames of {x.width}, are read {reads:,} at once"
            raise InvalidModel(fact, "give a number that divides them")
        x = reshape(x, divide(x.elements, fan_in), fan_in)
        x = self.maps[0](x)
        for each in self.maps[1:]:
            x = each(ctx.activation(self.activation, x, "act") if self.between is None else self.between(x, ctx))
        return x if self.norm is None else self.norm(x, ctx)


class Listener(Module):
    """A language model that reads vectors of sound in the places of some of its words.

    Where it is counted, a clip goes with each sequence. What is trained on a tape is text alone, of which the encoder
    and the projector make nothing. Where the word that sound stands for has no row in the table, a program makes a copy
    of the words without it (``copies_ids``).
    """

    kind = "listener"

    ears: Module
    projector: Module
    language: Module
    copies_ids: bool = False

    @property
    def beside_text(self) -> Iterator[Module]:
        """The encoder and the projector."""
        return iter((self.ears, self.projector))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        if not x.trace.lowers:
            self.projector(self.ears(x, ctx), ctx)
        return self.language(copied(x) if self.copies_ids else x, ctx)


class Summing(Module):
    """Projectors of what several encoders have made, and the sum of what they make; their maps stand in it itself."""

    kind = "projector"

    projectors: tuple[SoundProjector, ...]

    @property
    def parts(self) -> Iterator[Module]:
        """Those of all projectors."""
        return (part for each in self.projectors for part in each.parts)

    def forward(self, x: Tensor, ctx: Context, *others: Tensor) -> Tensor:
        """Of what each encoder has made."""
        made = [each.forward(one, ctx) for each, one in zip(self.projectors, (x, *others), strict=True)]
        return reduce(add, made)


class TwoEars(Module):
    """A language model that hears with several encoders, which are not trained; see :class:`Listener`."""

    kind = "listener"

    ears: tuple[Module, ...]
    projector: Summing
    language: Module

    @property
    def beside_text(self) -> Iterator[Module]:
        """The encoders and the projector."""
        return iter((*self.ears, self.projector))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        if not x.trace.lowers:
            with x.trace.without_gradients():
                first, *others = (each(x, ctx) for each in self.ears)
            self.projector(first, ctx, *others)
        return self.language(x, ctx)


class ClipClassifier(Module):
    """An encoder, a map of its frames, and a map of their mean that makes classes; a ``mix`` of layers may be trained.

    Source: Yang et al. 2021 (SUPERB, arXiv 2105.01051).
    """

    kind = "model"

    encoder: SoundEncoder
    mix: Stored | None
    projector: Linear
    classifier: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence."""
        return self.classifier(mean(self.projector(self.encoder(x, ctx))))
