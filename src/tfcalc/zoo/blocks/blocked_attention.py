"""Attention by blocks and windows in encoders of long sequences, filled up to whole ones (BigBird, Longformer)."""

from __future__ import annotations

from typing import Protocol

from tfcalc.core.number import Num, Pairs, ceil_div, floor_div, minimum
from tfcalc.core.traced import known, value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.encoder_decoder import EncoderStack
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.module import Context, Filled, Module
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import add
from tfcalc.ops.shapes import cat, narrow, permute, reshape, transpose
from tfcalc.ops.windows import attend_marked, attend_nearby
from tfcalc.tape.tensor import Tensor


def beyond(length: Num, most: int) -> Num:
    """1 where a sequence is longer than ``most``, else 0.

    >>> beyond(4, 4), beyond(5, 4), beyond(50, 4)
    (0, 1, 1)
    """
    longer: Num = minimum(1, floor_div(length, most + 1))
    return longer


class SparseBlocks(NamedTuple):
    """The first block and the last see everything and are seen by all; others see three neighbours and ``random`` more.

    The second block and the last but one have a global block among their neighbours. Where a sequence is no longer than
    what such a token may see, all pairs are compared.

    Source: Zaheer et al. 2020 (BigBird, arXiv 2007.14062), section 2; transformers' BigBirdBlockSparseAttention.
    """

    block: int
    random: int
    mask: str = "float32"

    @property
    def all_seen(self) -> int:
        """Length of the longest sequence in which all pairs are compared."""
        return (5 + 2 * self.random) * self.block

    def filled(self, length: Num) -> Num:
        """The length as it is run: of whole blocks, where they are used."""
        more: Num = ceil_div(length, self.block) * self.block - length
        return length + beyond(length, self.all_seen) * more

    def pairs(self, length: Num) -> Num:
        """Number of query-key pairs of a sequence of this length before padding.

        >>> SparseBlocks(2, 1).pairs(14), SparseBlocks(2, 1).pairs(20)
        (196, 264)
        """
        size, blocks = self.block * self.block, ceil_div(length, self.block)
        seen = 2 * blocks + 2 * (4 + self.random) + (blocks - 4) * (5 + self.random)
        number: Num = length * length + beyond(length, self.all_seen) * (size * seen - length * length)
        return number


class SlidingAttention(Module):
    """A token sees half a ``window`` of tokens on each side, and ``marked`` tokens, which see everything.

    These have projections of their own, which are stored where there are none, too. Sequences are filled up to whole
    windows of the ``widest`` layer. What a program keeps of marked tokens is not described.

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
    dropout: bool = False

    def runs(self, ctx: Context) -> bool:
        """Return whether there is a sequence: what an encoder has read is not read again."""
        return known(ctx.stream.length) != 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``; the program has time as the first axis."""
        (b, l, width), a, d = x.shape, self.heads, self.head_dim
        x = transpose(x, 0, 1)
        q, k, v = (permute(reshape(each(x), l, b, a, d), (1, 2, 0, 3)) for each in self.inward)
        made = self._nearby(q, k, v, ctx)
        if self.marked:
            query, *others = self.of_marked
            for each in others:
                each(x)
            asking = query(transpose(narrow(x, self.marked, 0), 0, 1))
            made = attend_marked(made, asking)
        return self.output(transpose(reshape(permute(made, (2, 0, 1, 3)), l, b, width), 0, 1))

    def _nearby(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
        pieces = ceil_div(ctx.unfilled, self.widest) * (2 * self.widest // self.window)

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            code = lambda: ctx.backend.scan(self, ctx, q, k, v)  # noqa: E731
            dropped = self.dropout and ctx.drops
            return attend_nearby(q, k, v, self.window, pieces, self.marked, code, dropped=dropped)

        return q.trace.checkpoint(run, q, k, v) if ctx.run.recompute == "selective" else run(q, k, v)


class Filling(Protocol):
    """Padding of sequences to the length at which they run."""

    @property
    def mask(self) -> str:
        """The format of what says which tokens are there."""
        ...

    def filled(self, length: Num) -> Num:
        """The length as it is run."""
        ...


class Blocks(Filling, Protocol):
    """Blocks of ``block`` tokens that see few other blocks, ``random`` of which are chosen at random."""

    @property
    def block(self) -> int:
        """Its tokens."""
        ...

    @property
    def random(self) -> int:
        """Number of blocks that are chosen at random."""
        ...

    @property
    def all_seen(self) -> int:
        """Length of the longest sequence in which all pairs are compared."""
        ...

    def pairs(self, length: Num) -> Num:
        """Number of query-key pairs of a sequence of this length before padding."""
        ...


class Windows(NamedTuple):
    """Whole windows of this width."""

    widest: int
    mask: str = "bool"

    def filled(self, length: Num) -> Num:
        """Length of as many whole windows as the sequence needs."""
        more: Num = ceil_div(length, self.widest) * self.widest
        return more


class PaddedEncoder(Encoder):
    """An encoder that runs on longer sequences than it is given (``filling``), except where it decodes."""

    filling: Filling | None = None

    def encode(self, x: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor | None]:
        """Encode padded sequences, and cut what comes out to their length."""
        if self.filling is None or ctx.run.decoding:
            return super().encode(x, _longer(x, ctx, ctx.stream.length, self.filling), reads=reads)
        batch, length = x.shape
        whole = self.filling.filled(length)
        as_given = x.trace.same_size(whole, length)
        ids = (x.trace.given if as_given else x.trace.new)((batch, whole), "int64", "token ids")
        made, pooled = super().encode(ids, _longer(x, ctx, whole, self.filling), reads=reads)
        return narrow(made, length), pooled


class PaddedStack(EncoderStack):
    """Encoder of an encoder-decoder that runs on longer sequences than it is given, except where it decodes.

    The decoder reads the encoder's output for the given tokens alone. ``front``: token ids are padded (by ``filling``);
    otherwise their embeddings are.
    """

    filling: Filling | None = None
    front: bool = True

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for token ids, cut to their length."""
        batch, length = x.shape
        whole = length if self.filling is None or ctx.run.decoding else self.filling.filled(length)
        if whole is length or x.trace.same_size(whole, length):
            return super().forward(x, _longer(x, ctx, whole, self.filling))
        ids = x.trace.given((batch, whole), "int64", "source ids") if self.front else x
        return narrow(super().forward(ids, _longer(x, ctx, whole, self.filling)), length)

    def embed_tokens(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the embeddings of the given tokens, followed by those of the padding."""
        if not self.front or ctx.stream.length is ctx.unfilled:
            return super().embed_tokens(x, ctx)
        given = x.trace.given((x.shape[0], ctx.unfilled), "int64", "source ids")
        return self._filled(super().embed_tokens(given, ctx), ctx)

    def sum_embeddings(self, tables: list[Tensor], ctx: Context) -> Tensor:
        """Add up the tables' vectors, then pad them."""
        made = super().sum_embeddings(tables, ctx)
        return made if self.front or ctx.stream.length is ctx.unfilled else self._filled(made, ctx)

    def _filled(self, x: Tensor, ctx: Context) -> Tensor:
        more = x.trace.new((x.shape[0], ctx.stream.length - ctx.unfilled), "int64", "padding")
        return cat([x, super().embed_tokens(more, ctx)], 1)


def _longer(x: Tensor, ctx: Context, length: Num, filling: Filling | None) -> Context:
    there = None
    if filling is not None:
        there = x.trace.new((x.shape[0], length), filling.mask, "tokens that are there")
        x.trace.belongs(there)  # to no layer, though one keeps it first
    before = ctx.stream.length
    if length is before or x.trace.same_size(length, before):
        return ctx._replace(filled=Filled(before, there))
    return ctx._replace(stream=ctx.stream._replace(length=length), filled=Filled(before, there))


class BlockAttention(Attention):
    """Attention of ``blocks`` of tokens to a few other blocks.

    Source: Zaheer et al. 2020 (BigBird, arXiv 2007.14062), section 2; transformers' BigBirdBlockSparseAttention.
    """

    blocks: Blocks | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend by blocks, where the sequence is long enough."""
        if self.blocks is None or ctx.run.decoding:
            return super().attend(q, k, v, ctx, name)
        number = q.shape[0] * self.blocks.pairs(ctx.unfilled)
        pairs = Pairs((2, number), number, ctx.run.fused)
        # transformers falls back to full attention on short sequences, whose length has to be a number
        if q.trace.emits_kernels and value_of(ctx.unfilled) <= self.blocks.all_seen:
            return super().attend(q, k, v, ctx, name)
        return attend(q, k, v, pairs, lambda: ctx.backend.scan(self, ctx, q, k, v), name=name)


class AnswerNetwork(Module):
    """A feed-forward network with its norm, and then where the answer begins and ends (BigBird)."""

    kind = "head"

    ffn: FeedForward
    norm: Norm
    logits: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of where the answer begins and ends, for all tokens' vectors."""
        return self.logits(self.norm(add(self.ffn(x, ctx), x), ctx))
