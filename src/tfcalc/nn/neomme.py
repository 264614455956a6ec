"""Layers that mix the stream with the embedding, and attention that leaves out a token's own value (NeoMME)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Embedding, Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, mul, pointwise, residual
from tfcalc.ops.hashing import normalised
from tfcalc.ops.select import row_sums
from tfcalc.ops.shapes import copied, reshape, select, transpose
from tfcalc.tape.tensor import Tensor

WORDS, VALUES = "vectors of words", "values of words"


class ExclusiveAttention(Attention):
    """Attention that takes from its output what lies along each token's own value, as ``alpha`` says.

    Some layers add vectors of words to the values first (``adds_values``).
    """

    alpha: Stored | None = None
    adds_values: bool = False

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        if self.adds_values and VALUES in ctx.given:
            b, g, l, d = v.shape
            v = add(v, transpose(reshape(ctx.given[VALUES], b, l, g, d), 1, 2))
        made = super()._attended(q, k, v, ctx, name)
        return self._without_own(made, v) if made.trace.lowers else made

    def _without_own(self, made: Tensor, v: Tensor) -> Tensor:
        assert self.alpha is not None
        if v.shape[1] != made.shape[1]:
            v = copied(v, made.shape, "repeat_kv")
        trace = made.trace
        unit = trace.to(normalised(trace.to(v, "float32")), made.dtype)
        along = row_sums(mul(made, unit))
        scale = reshape(trace.to(pointwise("tanh", self.alpha.weight(trace)), made.dtype), 1, self.heads, 1, 1)
        return add(made, mul(mul(along, scale), unit))


class MixingLayer(PreNorm):
    """The stream and what the embeddings gave are mixed by two trained numbers, which attention reads."""

    lambdas: Stored | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        (before, mixer), (last, ffn) = self.running(ctx)
        read = x
        if self.lambdas is not None and x.trace.lowers:
            both = self.lambdas.weight(x.trace)
            read = add(mul(x, select(both, 0)), mul(ctx.given[WORDS], select(both, 0)))
        x = residual(x, self.dropping(mixer, mixer(before(read, ctx), ctx), ctx), mixer.name)
        return residual(x, self.dropping(ffn, ffn(last(x, ctx), ctx), ctx), ffn.name)


class NeoMME(Module):
    """Words, layers between two norms, and vectors of words for the values of some of them.

    ``patches`` are what makes vectors of an image's; a text has none.
    """

    kind = "encoder"

    table: Module
    patches: Module
    first: Norm
    layers: Stack
    values: Embedding
    norm: Norm

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made = self.first(self.table(x, ctx), ctx)
        if x.trace.lowers:
            ctx = ctx.backend.begin(ctx, made, list(attentions(self.layers)), ())
        ctx = ctx._replace(places=None, given={VALUES: self.values(x), WORDS: made})
        return self.norm(self.layers(made, ctx), ctx)


class PatchMaps(Module):
    """A norm and two maps of the patches of an image."""

    kind = "embeddings"

    norm: Norm
    up: Linear
    down: Linear


class Unembedded(WithHead):
    """A language model whose logits are made of narrow vectors, to which a map leads (``narrowed``)."""

    narrowed: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """In the order in which they run."""
        parts = (self.base, self.narrowed, self.head)
        return (part for part in parts if part is not None)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Those of the narrow vectors."""
        return super().logits(x if self.narrowed is None else self.narrowed(x), ctx)
