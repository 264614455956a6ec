"""Layers: where the norms stand, and what is added to the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import dropout, residual, scaled
from tfcalc.tape.tensor import Tensor


class PreNorm(Module):
    """``x + f(norm(x))`` for each sub-layer f (Llama, GPT-2).

    What f makes is ``dropped`` in part (but not that of those that are ``undropped``), or multiplied by a number
    (``scales``), before the sum. ``holds``: transformers' code has it in a local variable until the layer returns. The
    stream is ``in_float32`` where a program has it so, whatever the format of the weights, which the norms read.
    """

    kind = "layer"

    sublayers: tuple[Module, ...]
    norms: tuple[Module | None, ...]
    dropped: bool = False
    scales: bool = False
    holds: bool = False
    undropped: tuple[str, ...] = ()
    in_float32: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for norm, sub in self.running(ctx):
            normed = [norm(x.trace.to(x, x.trace.weights_format) if self.in_float32 else x, ctx)]
            x = x.trace.to(x, "float32") if self.in_float32 else x
            x = residual(x, self.dropping(sub, sub.call_consuming(normed, ctx), ctx), sub.name)
        return x

    def running(self, ctx: Context) -> Iterator[tuple[Callable[..., Tensor], Module]]:
        """The sub-layers that run, each with its norm; without one, they read ``x`` itself."""
        pairs = zip(self.norms, self.sublayers, strict=True)
        return ((as_it_is if norm is None else norm, sub) for norm, sub in pairs if sub.runs(ctx))

    def dropping(self, sub: Module, made: Tensor, ctx: Context) -> Tensor:
        """Return a sub-layer's output after dropout and scaling, as far as the layer has them."""
        if self.dropped and ctx.drops and sub.name not in self.undropped:
            made = dropout(made, f"{sub.name}_dropout")
        if self.holds:
            made.trace.until_layer_ends(made)
        return scaled(made) if self.scales else made


class NormAfterSublayer(PreNorm):
    """``x + norm(f(x))`` (OLMo 2)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for norm, sub in self.running(ctx):
            x = residual(x, self.dropping(sub, norm(sub(x, ctx), ctx), ctx), sub.name)
        return x


class PostNorm(PreNorm):
    """``norm(x + f(x))`` (BERT).

    Where a program has the sum in the norm's own line (``in_line``), what is added is there until the norm has run.
    """

    in_line: bool = True

    @property
    def parts(self) -> Iterator[Module]:
        """The parts: each sub-layer with the norm behind it."""
        for sub, norm in zip(self.sublayers, self.norms, strict=True):
            yield sub
            if norm is not None:
                yield norm

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for norm, sub in self.running(ctx):
            x = self._normed_sum(norm, sub, x, ctx) if self.in_line else norm(self._sum(sub, x, ctx), ctx)
        return x

    def _sum(self, sub: Module, x: Tensor, ctx: Context) -> Tensor:
        return residual(x, self.dropping(sub, sub(x, ctx), ctx), sub.name)

    def _normed_sum(self, norm: Callable[..., Tensor], sub: Module, x: Tensor, ctx: Context) -> Tensor:
        made = self.dropping(sub, sub(x, ctx), ctx)
        return norm(residual(x, made, sub.name), ctx)


class Sandwich(PreNorm):
    """``x + norm(f(norm(x)))`` (Gemma 2)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        norms = [norm for norm in self.norms if norm is not None]
        for before, after, sub in zip(norms[::2], norms[1::2], self.sublayers, strict=True):
            x = residual(x, self.dropping(sub, after(sub(before(x, ctx), ctx), ctx), ctx), sub.name)
        return x


class Parallel(PreNorm):
    """``x + f(norm(x)) + g(norm(x))``, with a norm each, or one for both (GPT-J, Command R).

    The output of each is live until the end.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one beside the other."""
        made: list[Tensor] = []
        norms = [norm for norm in self.norms if norm is not None]
        for place, sub in enumerate(self.sublayers):
            if place < len(norms):
                normed = norms[place](x, ctx)
            made.append(self.dropping(sub, sub(normed, ctx), ctx))
        both = made[0]
        for sub, each in zip(self.sublayers[1:], made[1:], strict=True):
            both = residual(both, each, sub.name)
        return residual(x, both, self.sublayers[0].name)


class PreNormSharedNorm(PreNorm):
    """``x + f(norm(x))``, and then ``x + (g(norm(x)) + h(norm(x)))``: the last sub-layers read one norm (Granite).

    Their sum is multiplied, where sub-layers are.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another, and the last ones side by side."""
        *before, last = self.norms
        for norm, sub in zip(before, self.sublayers, strict=False):
            x = residual(x, self.dropping(sub, sub((norm or as_it_is)(x, ctx), ctx), ctx), sub.name)
        normed = (last or as_it_is)(x, ctx)
        first, *others = self.sublayers[len(before) :]
        made = first(normed, ctx)
        for sub in others:
            made = residual(made, sub(normed, ctx), sub.name)
        return residual(x, self.dropping(first, made, ctx), first.name)


def as_it_is(x: Tensor, *_: object) -> Tensor:
    """Return ``x`` unchanged, in place of a norm."""
    return x
