"""Attention over depth: what a layer reads is a mixture of the sums of the blocks of layers before it."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs
from tfcalc.nn.basic import Norm, Stored
from tfcalc.nn.clipped_lengths import ClippedAttention
from tfcalc.nn.context import Context
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.near import AddedConvolution
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import residual
from tfcalc.ops.shapes import cat, expand, reshape, split, stack, unsqueeze
from tfcalc.tape.tensor import Tensor


class DepthAttention(Module):
    """Trained ``queries`` of one head, for every token over its own few ``vectors``, normed: both keys and values.

    Source: transformers' Inkling2BlockAttentionResidual.
    """

    kind = "norm"

    query: Stored
    norm: Norm
    vectors: int
    queries: int = 1

    def read(self, x: Tensor, blocks: Tensor | None, ctx: Context) -> list[Tensor]:
        """A vector of each token for each query; of the ``blocks`` that are closed, and the stream."""
        trace, (*rows, h) = x.trace, x.shape
        with trace.inside(self):
            query = self.query.weight(trace)
            if not trace.lowers:
                seen = self.norm(stack([x], (*rows, self.vectors, h)), ctx)
                q = trace.view(query, (x.rows, 1, self.queries, h), None)
                pairs = Pairs((2, x.rows, self.queries, self.vectors), x.rows * self.queries * self.vectors)
                made = attend(q, seen, seen, pairs, lambda: q)
                return [trace.view(made, x.shape, None)] * self.queries
            seen = self.norm(trace.to(closed(blocks, x), "float32"), ctx)
            q = expand(reshape(trace.to(query, "float32"), 1, 1, self.queries, h), *rows, self.queries, h)
            made = ctx.backend.attend_all(q, seen, seen)
            return [reshape(each, *x.shape) for each in split(made, [1] * self.queries, 2)]


def closed(blocks: Tensor | None, x: Tensor) -> Tensor:
    """Blocks, and another one."""
    return cat([*([] if blocks is None else [blocks]), unsqueeze(x, 2)], 2)


class DepthLayer(Module):
    """Attention and a mixture, each of what is read of the blocks, and a convolution behind each of them.

    The first layer of a block closes the block before it (``closes``), which the stream is then left without. It is
    the ``block``-th, from 0. Queries, keys and values may each have what they read, and a norm of it (``norms``).
    """

    kind = "layer"

    before: DepthAttention | None
    norms: tuple[Norm, ...]
    attention: ClippedAttention
    behind_attention: AddedConvolution
    between: DepthAttention
    norm: Norm
    mixture: Module
    behind_mixture: AddedConvolution
    block: int
    closes: bool

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        trace, kind, carried = x.trace, x.dtype, ctx.carried
        assert carried is not None
        blocks = carried.get(named(self.block if self.closes else self.block + 1))
        read = [x] * len(self.norms) if self.before is None else self.before.read(x, blocks, ctx)
        normed = [trace.to(norm(each, ctx), kind) for norm, each in zip(self.norms, read, strict=True)]
        made = self.behind_attention(self.attention(normed[0], ctx, *normed[1:]), ctx)
        stream = trace.to(made, "float32")
        if not self.closes:
            stream = residual(trace.to(x, "float32"), stream, self.attention.name)
        elif trace.lowers:
            carried[named(self.block + 1)] = closed(blocks, x)
            blocks = closed(blocks, x)
        (made,) = self.between.read(stream, blocks, ctx)
        made = self.behind_mixture(self.mixture(trace.to(self.norm(made, ctx), kind), ctx), ctx)
        return trace.to(residual(stream, made, self.mixture.name), kind)


class DepthDecoder(Decoder):
    """A decoder of such layers; the last norm reads the blocks, too."""

    last: DepthAttention | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """With what reads the blocks at the end."""
        yield from super().parts
        if self.last is not None:
            yield self.last

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made = super().forward(x, ctx._replace(carried={}))
        return made.trace.to(made, made.trace.weights_format)

    def _behind(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.last is not None
        assert ctx.carried is not None
        blocks = ctx.carried.get(named(self.last.vectors - 1))
        return self.last.read(x, blocks, ctx)[0]


def named(blocks: Num) -> str:
    """So many blocks."""
    return f"{blocks} blocks"
