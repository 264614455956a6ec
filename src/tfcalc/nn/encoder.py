"""Encoders: layers that look both ways, and a vector for the whole sequence."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.attention import attentions
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import RelativeBias
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import pointwise
from tfcalc.ops.shapes import first
from tfcalc.tape.tensor import Tensor


class Layers(Module):
    """Layers with the modules that run before them, and a norm behind the last.

    All may add the numbers of a ``relative`` table to their scores.
    """

    kind = "encoder"

    before: tuple[Module, ...]
    layers: Stack
    norm: Norm | None = None
    masks: tuple[Num | None, ...] = ()
    relative: RelativeBias | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for the embedding ``x``."""
        for part in self.before:
            x = part(x, ctx)
        if self.relative is not None:
            ctx = ctx._replace(bias=self.relative(x, ctx))
        x = through(self.layers, x, ctx, self.masks)
        return x if self.norm is None else self.norm(x, ctx)


def through(layers: Stack, x: Tensor, ctx: Context, masks: tuple[Num | None, ...] = ()) -> Tensor:
    """Return the output of these layers, with what a program makes once for them all."""
    return layers(x, ctx.backend.begin(ctx, x, list(attentions(layers)), masks))


class Encoder(Module):
    """Embeddings, maps to another width, layers, a norm; and what the first token's vector makes for the whole.

    That ``pooler`` is read by some classes, and of the bare model by whoever has it (``pools``); elsewhere its output
    is unused, so that it gets no gradient.
    """

    kind = "encoder"

    table: Module
    maps: tuple[Linear, ...]
    layers: Layers | Stack
    norm: Norm | None = None
    pooler: Linear | None = None
    pools: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each token; a program's loss reads nothing else."""
        # the pooler has a backward pass by itself, and none in a program, whose loss reads the tokens
        return self.encode(x, ctx, reads=self.pools and not x.trace.emits_kernels)[0]

    def pooled(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """A vector for each token, and one for each sequence: the first token's, where there is no pooler."""
        with x.trace.inside(self):
            made, whole = self.encode(x, ctx, reads=True)
        return made, first(made) if whole is None else whole

    def encode(self, x: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor | None]:
        """Run all but the head, and the pooler where something ``reads`` it."""
        x = self.table(x, ctx)
        for part in self.maps:
            x = part(x)
        x = self.layers(x, ctx) if isinstance(self.layers, Layers) else through(self.layers, x, ctx)
        if self.norm is not None:
            x = self.norm(x, ctx)
        if reads:
            return x, self._pooled(x)
        with x.trace.without_gradients():
            return x, self._pooled(x)

    def _pooled(self, x: Tensor) -> Tensor | None:
        return None if self.pooler is None else pointwise("tanh", self.pooler(first(x)))


class WithUnread(Encoder):
    """An encoder with further modules that none of its forward passes reads."""

    unread: tuple[Module, ...] = ()
