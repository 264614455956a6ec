"""Language models that hear: an encoder of sound, a projector of its frames, and the decoder that reads these."""

from __future__ import annotations

from tfcalc.core.number import divide
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.frames import SoundEncoder
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation
from tfcalc.ops.frames import mean
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor


class Projector(Module):
    """Maps, one after another with an activation between them, of as many frames at once as the first is wide."""

    kind = "projector"

    maps: tuple[Linear, ...]
    activation: str = ""
    norm: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × h."""
        fan_in = self.maps[0].fan_in
        x = reshape(x, divide(x.elements, fan_in), fan_in)
        x = self.maps[0](x)
        for each in self.maps[1:]:
            x = each(self._activated(x, ctx))
        return x if self.norm is None else self.norm(x, ctx)

    def _activated(self, x: Tensor, ctx: Context) -> Tensor:
        return activation(self.activation, x, lambda: ctx.backend.activation(self.activation, x), "act")


class Listener(Module):
    """A language model that reads vectors of sound in the places of some of its words.

    Where it is counted, a clip goes with each sequence. What is trained on a tape is text alone, of which the encoder
    and the projector make nothing.
    """

    kind = "listener"

    ears: Module
    projector: Module
    language: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        if not x.trace.lowers:
            self.projector(self.ears(x, ctx), ctx)
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
