"""What DeBERTa has around its attention: embeddings without padding, vectors of distances, a convolution."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, divide
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.encoder import Layers
from tfcalc.nn.module import Module
from tfcalc.ops.convolution import time_convolution
from tfcalc.ops.elementwise import add, dropout, filled, mul
from tfcalc.tape.tensor import Tensor


class MaskedEmbeddings(Embeddings):
    """Vectors that a map may widen, and that are multiplied by 0 behind their norm where there is padding."""

    widened: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The norm last."""
        parts = (*self.tables, self.widened, self.norm)
        return (each for each in parts if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made = self._summed(x, ctx)
        made = made if self.widened is None else self.widened(made)
        assert self.norm is not None
        made = self.norm(made, ctx)
        if x.trace.lowers:
            made = mul(made, x.trace.new((*x.shape, 1), x.trace.weights_format, "padding"))
        return dropout(made, "embedding_dropout") if self.dropped and ctx.drops else made


class TokenConvolution(Module):
    """A convolution over time in so many ``groups``, as long as what it reads."""

    kind = "convolution"

    width: Num
    kernel: Num
    groups: Num = 1

    def held(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, divide(self.width, self.groups), self.kernel))
        return Cost(weights=(weight, Weight("b", (self.width,), minor=True, key="bias")))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of b × l × h."""
        weight, bias = self.weights(x.trace)
        return time_convolution(x, weight, bias, self.groups)


class ByDistance(Layers):
    """Layers that share the vectors of distances (``vectors``), or what a norm makes of them.

    A convolution of what the first layer reads may be added to what it made, and normed. That it runs here behind the
    last layer does not change what it costs and keeps.
    """

    vectors: Embedding | None = None
    vectors_norm: Norm | None = None
    convolution: TokenConvolution | None = None
    convolution_norm: Norm | None = None
    activation: str = ""
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the embedding."""
        trace = x.trace
        if self.vectors is not None:
            with trace.inside(self.vectors):
                (given,) = self.vectors.weights(trace)
            given = given if self.vectors_norm is None else self.vectors_norm(given, ctx)
            ctx = ctx._replace(places=given)
        made = super().forward(x, ctx)
        return made if self.convolution is None else self._convolved(self.convolution, x, made, ctx)

    def _convolved(self, convolution: TokenConvolution, x: Tensor, made: Tensor, ctx: Context) -> Tensor:
        trace, beside = x.trace, convolution(x)
        assert self.convolution_norm is not None
        if trace.lowers:
            beside = filled(beside, trace.new((*x.shape[:-1], 1), "bool", "padding"))
            beside = dropout(beside, "convolution_dropout") if self.dropped and ctx.drops else beside
        kind, read = self.activation, beside
        beside = ctx.activation(kind, read, "conv.activation")
        made = self.convolution_norm(add(made, beside), ctx)
        if trace.lowers:  # the same numbers as behind the embedding, if they have its format
            shape, form = (*x.shape[:-1], 1), trace.weights_format
            made = mul(made, (trace.given if form == "float32" else trace.new)(shape, form, "padding"))
        return made
