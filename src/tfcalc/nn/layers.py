"""Layers: where the norms stand, and what is added to the stream."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import dropout, residual, scaled
from tfcalc.tape.tensor import Tensor


class PreNorm(Module):
    """``x + f(norm(x))`` for each sub-layer f (Llama, GPT-2).

    What f makes is ``dropped`` in part (but not that of those that are ``undropped``), or multiplied by a number
    (``scales``), before the sum. In some programs a variable ``holds`` it until the layer ends. That is ``in_float32``
    where a program has it so, whatever format the weights are in, which the norms read.
    """

    kind = "layer"

    subs: tuple[Module, ...]
    norms: tuple[Norm, ...]
    dropped: bool = False
    scales: bool = False
    holds: bool = False
    undropped: tuple[str, ...] = ()
    in_float32: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for norm, sub in self.running(ctx):
            normed = norm(x.trace.to(x, x.trace.weights_format) if self.in_float32 else x, ctx)
            x = x.trace.to(x, "float32") if self.in_float32 else x
            x = residual(x, self.dropping(sub, sub(normed, ctx), ctx), sub.name)
        return x

    def running(self, ctx: Context) -> Iterator[tuple[Norm, Module]]:
        """The sub-layers that run, each with its norm."""
        return ((norm, sub) for norm, sub in zip(self.norms, self.subs, strict=True) if sub.runs(ctx))

    def dropping(self, sub: Module, made: Tensor, ctx: Context) -> Tensor:
        """What a sub-layer made, with some of it dropped, and multiplied."""
        if self.dropped and ctx.drops and sub.name not in self.undropped:
            made = dropout(made, f"{sub.name}_dropout")
        if self.holds:
            made.trace.until_layer_ends(made)
        return scaled(made) if self.scales else made


class Behind(PreNorm):
    """``x + norm(f(x))`` (OLMo 2)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for norm, sub in self.running(ctx):
            x = residual(x, self.dropping(sub, norm(sub(x, ctx), ctx), ctx), sub.name)
        return x


class PostNorm(PreNorm):
    """``norm(x + f(x))`` (BERT)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for norm, sub in self.running(ctx):
            x = self._normed_sum(norm, sub, x, ctx)
        return x

    def _normed_sum(self, norm: Norm, sub: Module, x: Tensor, ctx: Context) -> Tensor:
        """What is added is there until the norm has run, in the line of which the sum is."""
        made = self.dropping(sub, sub(x, ctx), ctx)
        return norm(residual(x, made, sub.name), ctx)


class Sandwich(PreNorm):
    """``x + norm(f(norm(x)))`` (Gemma 2)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for before, after, sub in zip(self.norms[::2], self.norms[1::2], self.subs, strict=True):
            x = residual(x, self.dropping(sub, after(sub(before(x, ctx), ctx), ctx), ctx), sub.name)
        return x


class Parallel(PreNorm):
    """``x + f(norm(x)) + g(norm(x))``, with a norm each, or one for both (GPT-J, Command R).

    What each makes is held until the end.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One beside the other."""
        made: list[Tensor] = []
        for place, sub in enumerate(self.subs):
            if place < len(self.norms):
                normed = self.norms[place](x, ctx)
            made.append(self.dropping(sub, sub(normed, ctx), ctx))
        both = made[0]
        for sub, each in zip(self.subs[1:], made[1:], strict=True):
            both = residual(both, each, sub.name)
        return residual(x, both, self.subs[0].name)
