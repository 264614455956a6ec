"""Hyper-connections: a residual stream that is several vectors wide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Parameter, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, mul, pointwise, quotient, residual, scaled, shifted
from tfcalc.ops.products import linear
from tfcalc.ops.rows import inverse_rms, softmax
from tfcalc.ops.shapes import contiguous, expand, reshape, select, split, unsqueeze
from tfcalc.ops.streams import collapsed, mixed, sums
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import Kind

if TYPE_CHECKING:
    from tfcalc.tape.tensor import Trace


class FloatLinear(Linear):
    """A linear map by a copy of its matrix in fp32."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the product of each row with the matrix in fp32."""
        (weight,) = self.weights(x.trace)
        return x.trace.adapted(self, x, linear(x, x.trace.to(weight, "float32"), letter=self.letter))


class HyperHead(Module):
    """``streams`` residual vectors become one: their sum, weighted by what a map of all of them makes.

    A linear map of all streams makes n weights, each with an offset (``base``), times a trained number (``scale``).
    The streams are first divided by their root mean square. A program may do that to what the map has made, and
    without autocast (``behind``).

    Source: Zhu et al. 2024 (arXiv 2409.19606); transformers' DeepseekV4HyperHead, HYV4HyperHead.
    """

    kind = "hyper_connection"

    fn: FloatLinear
    base: Parameter
    scale: Parameter
    streams: Num
    behind: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the weighted sum of the n streams of ``x``, of b × l × n × h."""
        trace = x.trace
        base, scale = (trace.to(each.weight(trace), "float32") for each in (self.base, self.scale))
        with self._as_written(trace):
            pre = shifted(pointwise("sigmoid", add(mul(self._made(x), scale), base)), "+ ε")
            return trace.to(self._read(x, pre), x.dtype)

    def _as_written(self, trace: Trace) -> AbstractContextManager[None]:
        return trace.no_autocast() if self.behind else nullcontext()

    def _made(self, x: Tensor) -> Tensor:
        """Return the map's output for all streams together."""
        flat = x.trace.to(reshape(x, *x.shape[:2], self.fn.fan_in), "float32")
        if self.behind:
            made = self.fn(flat)
            return mul(made, inverse_rms(flat))
        return self.fn(mul(flat, inverse_rms(flat)))

    def _read(self, x: Tensor, weights: Tensor) -> Tensor:
        return collapsed(mul(unsqueeze(weights, -1), x))


class HyperConnection(HyperHead):
    """Connection by which a sub-layer reads all streams and adds to each: n weights more, and another scale.

    Source: transformers' HYV4HyperConnection.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the sub-layer's input alone."""
        return self.read(x)[0]

    def read(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the sub-layer's input, and the weights with which it writes."""
        with x.trace.inside(self), self._as_written(x.trace):
            return self.weigh(x)

    def weigh(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Weigh streams for the sub-layer, and its output for each stream."""
        n = self.streams
        pre, post = split(self._made(x), [n, n])
        (pre_base, post_base), (pre_scale, post_scale) = self._terms(x, [n, n])
        pre = shifted(pointwise("sigmoid", add(mul(pre, pre_scale), pre_base)), "+ ε")
        post = scaled(pointwise("sigmoid", add(mul(post, post_scale), post_base)))
        post = shifted(post, "+ ε")
        return x.trace.to(self._read(x, pre), x.dtype), (post,)

    def _terms(self, x: Tensor, widths: list[Num]) -> tuple[list[Tensor], list[Tensor]]:
        """The offset and the scale of each part of what the map makes."""
        base, scale = self.base.weight(x.trace), self.scale.weight(x.trace)
        return split(base, widths), [select(scale, 0) for _ in widths]

    def written(self, x: Tensor, made: Tensor, weights: tuple[Tensor, ...], name: str) -> Tensor:
        """Return all streams with the sub-layer's output ``made`` added in fp32."""
        (post,), trace = weights, x.trace
        made = mul(unsqueeze(trace.to(post, "float32"), -1), unsqueeze(trace.to(made, "float32"), -2))
        return trace.to(residual(trace.to(x, "float32"), made, name), x.dtype)


class MixingConnection(HyperConnection):
    """The streams are mixed, too, by n · n weights, whose rows and columns add up to 1 after ``turns`` iterations.

    Source: Xie et al. 2025 (mHC, arXiv 2512.24880); transformers' DeepseekV4HyperConnection.
    """

    turns: int = 1

    def weigh(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Weigh streams, and balance the matrix that mixes them."""
        n, (b, l, *_) = self.streams, x.shape
        widths = [n, n, n * n]
        pre, post, comb = split(self._made(x), widths)
        (pre_base, post_base, comb_base), (pre_scale, post_scale, comb_scale) = self._terms(x, widths)
        pre = shifted(pointwise("sigmoid", add(mul(pre, pre_scale), pre_base)), "+ ε")
        post = scaled(pointwise("sigmoid", add(mul(post, post_scale), post_base)))
        logits = add(mul(reshape(comb, b, l, n, n), comb_scale), reshape(comb_base, n, n))
        return x.trace.to(self._read(x, pre), x.dtype), (post, self._balanced(logits))

    def _balanced(self, logits: Tensor) -> Tensor:
        """Sinkhorn and Knopp's iteration: columns and rows by their sums, one after the other."""
        comb = shifted(softmax(logits), "+ ε")
        for turn in range(2 * self.turns - 1):
            comb = quotient(comb, shifted(sums(comb, -1 if turn % 2 else -2), "+ ε"))
        return comb

    def written(self, x: Tensor, made: Tensor, weights: tuple[Tensor, ...], name: str) -> Tensor:
        """The streams mixed, with what the sub-layer ``made``."""
        (post, comb), trace = weights, x.trace
        made = mul(unsqueeze(trace.to(post, x.dtype), -1), unsqueeze(made, -2))
        with trace.inside(self):
            x = mixed(trace.to(comb, x.dtype), x)
        return residual(x, made, name)


class HyperLayer(PreNorm):
    """A layer whose sub-layers read and write several residual streams, each through a connection of its own."""

    connections: tuple[HyperConnection, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for connection, norm, sub in zip(self.connections, self.norms, self.sublayers, strict=True):
            assert norm is not None
            read, weights = connection.read(x)
            x = connection.written(x, sub(norm(read, ctx), ctx), weights, sub.name)
        return x


class HyperDecoder(Decoder):
    """A decoder of as many residual streams as its ``head`` reads, which are all the words' vectors at first."""

    head: HyperHead | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The decoder's, and the head."""
        yield from super().parts
        assert self.head is not None
        yield self.head

    def sum_embeddings(self, tables: list[Tensor], ctx: Context) -> Tensor:
        """Expand the embeddings to all streams."""
        assert self.head is not None
        x = super().sum_embeddings(tables, ctx)
        return contiguous(expand(unsqueeze(x, 2), *x.shape[:2], self.head.streams, x.width))

    def after_layers(self, x: Tensor, ctx: Context) -> Tensor:
        """Read one vector from all streams."""
        assert self.head is not None
        return self.head(x, ctx)


NAMES = ("attn_hc", "ffn_hc")
Head = TypeVar("Head", bound=HyperHead)


def connection(c: Config, name: str, *, of: type[HyperConnection], **code: Any) -> HyperConnection:
    """Connection by which a sub-layer reads and writes ``hc_mult`` streams, and mixes them if ``of`` is such a type."""
    n = c.size("hc_mult")
    mixes = issubclass(of, MixingConnection)
    return _made(c, name, "", of, (2 + n) * n if mixes else 2 * n, 3 if mixes else 2, **code)


def _made(c: Config, name: str, prefix: str, of: type[Head], outputs: Num, scales: int, **code: Any) -> Head:
    n = c.size("hc_mult")
    fn = FloatLinear(f"{prefix}fn", n * c.size("hidden_size"), outputs, "hc")
    base, scale = (
        parameter(f"{prefix}{each}", width, minor=True) for each, width in (("base", outputs), ("scale", scales))
    )
    return of(name, fn, base, scale, n, **code)


def decoder(
    c: Config, layers: Callable[[Kind], Module], kinds: Sequence[Kind], *, behind: bool = False, norm: str = ""
) -> HyperDecoder:
    """A decoder with layers by their ``kinds``, and a head that makes one stream of all."""
    head = _made(c, "hc_head", "hc_", HyperHead, c.size("hc_mult"), 1, behind=behind)
    return decoders.decoder(c, layers, kinds, code=norm).as_type(HyperDecoder, head=head)
