"""Encoders of long sequences, which are filled up to whole blocks or windows first (Longformer, BigBird)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tfcalc.core.number import Num, ceil_div
from tfcalc.core.pairs import Pairs
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.encoder_decoder import EncoderStack
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.module import Module
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import add
from tfcalc.ops.shapes import merge_heads, narrow, reshape, transpose
from tfcalc.ops.windows import attend_marked, attend_nearby
from tfcalc.tape.tensor import Tensor


class Filling(Protocol):
    """How long a sequence is run."""

    def filled(self, length: Num) -> Num:
        """The length as it is run."""
        ...


class Blocks(Filling, Protocol):
    """Blocks that see few others."""

    def pairs(self, length: Num) -> Num:
        """Of a sequence of this length before it is filled up."""
        ...


class Windows(NamedTuple):
    """Whole windows of this width."""

    widest: int

    def filled(self, length: Num) -> Num:
        """So many of them as hold the sequence."""
        more: Num = ceil_div(length, self.widest) * self.widest
        return more


class FilledEncoder(Encoder):
    """An encoder that runs on longer sequences than it is given (``filling``), except where it decodes."""

    filling: Filling | None = None

    def _run(self, x: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor | None]:
        if self.filling is None or ctx.run.decoding:
            return super()._run(x, _longer(ctx, ctx.stream.length), reads=reads)
        batch, length = x.shape
        whole = self.filling.filled(length)
        ids = x.trace.given((batch, whole), "int64", "token ids")
        made, pooled = super()._run(ids, _longer(ctx, whole), reads=reads)
        return narrow(made, length), pooled


class FilledStack(EncoderStack):
    """The same of an encoder-decoder, whose decoder reads what it makes of the tokens that it was given."""

    filling: Filling | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        if self.filling is None or ctx.run.decoding:
            return super().forward(x, ctx)
        batch, length = x.shape
        whole = self.filling.filled(length)
        ids = x.trace.given((batch, whole), "int64", "source ids")
        return narrow(super().forward(ids, _longer(ctx, whole)), length)


def _longer(ctx: Context, length: Num) -> Context:
    return ctx._replace(stream=ctx.stream._replace(length=length), unfilled=ctx.stream.length)


class BlockAttention(Attention):
    """Attention of ``blocks`` of tokens to a few other blocks.

    What a program keeps of it is not described: it is taken to compare all pairs.

    Source: Zaheer et al. 2020 (BigBird, arXiv 2007.14062), section 2; transformers' BigBirdBlockSparseAttention.
    """

    blocks: Blocks | None = None

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        if self.blocks is None or ctx.run.decoding:
            return super()._attended(q, k, v, ctx, name)
        number = q.shape[0] * self.blocks.pairs(ctx.unfilled)
        pairs = Pairs((2, number), number, ctx.run.fused)
        return attend(q, k, v, pairs, lambda: ctx.backend.attend(q, k, v, self, ctx), name=name)


class SlidingAttention(Module):
    """A token sees half a ``window`` of tokens on each side, and ``marked`` tokens, which see everything.

    These have projections of their own, which are stored where there are none, too. Sequences are filled up to whole
    windows of the ``widest`` layer. What a program keeps of it is not described.

    Source: Beltagy et al. 2020 (Longformer, arXiv 2004.05150), section 3.1; transformers' LongformerSelfAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    inward: tuple[Linear, ...]
    of_marked: tuple[Linear, ...]
    output: Linear
    window: int
    widest: int
    marked: int = 0

    def runs(self, ctx: Context) -> bool:
        """Where there is a sequence: what an encoder has read is not read again."""
        return known(ctx.stream.length) != 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x`` make of each other."""
        (b, l, _), a, d = x.shape, self.heads, self.head_dim
        q, k, v = (transpose(reshape(each(x), b, l, a, d), 1, 2) for each in self.inward)
        pieces = ceil_div(ctx.unfilled, self.widest) * (2 * self.widest // self.window)
        made = attend_nearby(q, k, v, self.window, pieces, self.marked)
        if self.marked:
            query, *others = self.of_marked
            for each in others:
                each(x)
            asking = query(narrow(x, self.marked))
            made = attend_marked(made, asking)
        return self.output(merge_heads(made, a * d))


class AnswerNetwork(Module):
    """A feed-forward network with its norm, and then where the answer begins and ends (BigBird)."""

    kind = "head"

    ffn: FeedForward
    norm: Norm
    logits: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of all tokens' vectors."""
        return self.logits(self.norm(add(self.ffn(x, ctx), x), ctx))


class WithAnswers(Module):
    """A model, and the answers of its tokens."""

    kind = "model"

    base: Module
    head: AnswerNetwork

    @property
    def parts(self) -> Iterator[Module]:
        """Both."""
        return iter((self.base, self.head))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        return self.head(self.base(x, ctx), ctx)
