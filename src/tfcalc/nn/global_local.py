"""Attention within blocks of a sequence, and to and from a few tokens that all see (Pegasus-X)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import value_of
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import numbered
from tfcalc.nn.encoder_decoder import EncoderStack
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.module import Module
from tfcalc.nn.paired import PairLayer, PairStack
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, dropout, dropping, residual, scaled
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import cat, contiguous, expand, pad, part, permute, reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class GlobalLocalAttention(Module):
    """A token sees its ``block`` of tokens and those that are ``marked``; these see everything.

    Both kinds go through the same maps, and no library's kernel runs it. ``read`` says whether anything reads what the
    marked tokens make.

    Source: Phang et al. 2022 (arXiv 2208.04347), section 3.3; transformers' PegasusXGlobalLocalAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    inward: tuple[Linear, ...]
    output: Linear
    block: int
    dropout: bool = False

    def both(self, given: list[Tensor], ctx: Context, *, read: bool) -> list[Tensor]:
        """What tokens and marked tokens make of each other."""
        with given[0].trace.inside(self):
            return self._both(given, ctx, read=read)

    def _both(self, given: list[Tensor], ctx: Context, *, read: bool) -> list[Tensor]:
        x, marked = given
        given.clear()
        query, key, value = self.inward
        q, k, v = (self._headed(each) for each in (scaled(query(x)), key(x), value(x)))
        with unread(x, read=read):
            asking = self._headed(scaled(query(marked)))
        keys, values = (self._headed(each(marked)) for each in (key, value))
        with unread(x, read=read):
            answers = self._of_marked(asking, keys, values, k, v, ctx)
        made = self._of_blocks(q, k, v, keys, values, ctx)
        made = self.output(self._merged(made, x.shape[1]))
        with unread(x, read=read):
            return [made, self.output(self._merged(answers, marked.shape[1]))]

    def _headed(self, x: Tensor) -> Tensor:
        return contiguous(transpose(reshape(x, *x.shape[:2], self.heads, self.head_dim), 1, 2))

    def _merged(self, x: Tensor, length: Num) -> Tensor:
        """Of b × a × l × d, or of b × a × blocks × l × d; of b × l × a·d."""
        *outer, last = range(2, len(x.shape))
        x = contiguous(permute(x, (0, *outer, 1, last)))
        return reshape(x, x.shape[0], length, self.heads * self.head_dim)

    def _of_marked(self, q: Tensor, keys: Tensor, values: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
        """What marked tokens make of themselves and of all others."""

        def code(q: Tensor, *given: Tensor) -> Tensor:
            keys, values, k, v = given
            every, each = cat([keys, k], 2), cat([values, v], 2)
            p = self._weights(einsum("bhgf,bhxf->bhgx", q, every), (1, 1), ctx)
            return einsum("bhgx,bhxf->bhgf", p, each)

        return self._attended("attend_global", code, [q, keys, values, k, v], k.shape[2] + keys.shape[2], ctx)

    def _of_blocks(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, ctx: Context) -> Tensor:
        """What a token makes of its block and of those that are marked."""
        b, a, length, d = q.shape
        rows, blocks = keys.shape[2], ceil_div(length, self.block)

        def code(*given: Tensor) -> Tensor:
            q, k, v = (reshape(each, b, a, blocks, self.block, d) for each in given[:3])
            keys, values = given[3:]
            p = cat([einsum("bhnkf,bhgf->bhnkg", q, keys), einsum("bhnkf,bhnxf->bhnkx", q, k)])
            to_marked, to_block = split(self._weights(p, (1, blocks, 1), ctx), [rows, self.block])
            return add(einsum("bhnkg,bhgf->bhnkf", to_marked, values), einsum("bhnkx,bhnxf->bhnkf", to_block, v))

        return self._attended("attend_local", code, [q, k, v, keys, values], self.block + rows, ctx)

    def _weights(self, p: Tensor, axes: tuple[Num, ...], ctx: Context) -> Tensor:
        """What scores make of each other, of which those of tokens that were filled up are masked."""
        trace = p.trace
        p = softmax(add(p, trace.new((p.shape[0], *axes, p.width), trace.weights_format, "mask")))
        return dropout(p, "attend_dropout") if self.dropout and ctx.drops else p

    def _attended(self, name: str, code: Callable[..., Tensor], given: list[Tensor], seen: Num, ctx: Context) -> Tensor:
        """By this ``code``; each query sees so many keys."""
        (q, k, v, *_), trace = given, given[0].trace
        stream = ctx.stream._replace(length=q.shape[2])
        pairs = ctx.run.pairs(stream, stream._replace(cached=seen), causal=False)

        def run(*given: Tensor) -> Tensor:
            made = attend(given[0], k, v, pairs, lambda: code(*given), name=name)
            if self.dropout and ctx.drops:
                trace.count(dropping(made, self.heads * pairs.scores, f"{name}_dropout"))
            return made

        return trace.checkpoint(run, *given) if ctx.run.recompute == "selective" else run(*given)


def unread(x: Tensor, *, read: bool) -> AbstractContextManager[None]:
    """Where something reads what is made now, or nothing does."""
    return nullcontext() if read else x.trace.unread()


class GlobalLocalLayer(PairLayer):
    """Attention and a network of the tokens, and of those that are marked, each with a norm before it.

    ``staggered`` blocks begin and end half a block later: there is half a block more at both ends. Of the last of so
    many layers (``last_of``) nothing reads what it makes of marked tokens; but backward computes all of a layer that it
    computes again as a whole.
    """

    mixer: GlobalLocalAttention
    mixer_norm: Norm
    ffn: FeedForward
    ffn_norm: Norm
    marked_norm: Norm
    dropped: bool = False
    staggered: bool = False
    last_of: int = 0

    def both(self, given: list[Tensor], ctx: Context) -> list[Tensor]:
        """What tokens and marked tokens make of each other."""
        x, marked = given
        given.clear()
        read, length = self._is_read(ctx), x.shape[1]
        normed = [self.mixer_norm(x, ctx), self.marked_norm(marked, ctx)]
        if self.staggered and not ctx.run.decoding:
            normed[0] = pad(normed[0], 1, length + 2 * (self.mixer.block // 2))
        made, of_marked = self.mixer.both(normed, ctx, read=read)
        if self.staggered and not ctx.run.decoding:
            made = part(made, 1, length)
        x = self._added(x, made, self.mixer, ctx)
        with unread(x, read=read):
            marked = self._added(marked, of_marked, self.mixer, ctx)
        x = self._added(x, self.ffn(self.ffn_norm(x, ctx), ctx), self.ffn, ctx)
        with unread(x, read=read):
            marked = self._added(marked, self.ffn(self.ffn_norm(marked, ctx), ctx), self.ffn, ctx)
        return [x, marked]

    def _added(self, x: Tensor, made: Tensor, sub: Module, ctx: Context) -> Tensor:
        return residual(x, dropout(made, f"{sub.name}_dropout") if self.dropped and ctx.drops else made, sub.name)

    def _is_read(self, ctx: Context) -> bool:
        """Or gets a gradient of zeros."""
        every = ctx.every_whole or (0 if ctx.run.early_stop else ctx.run.every)
        return not self.last_of or not ctx.run.training or (every > 0 and (self.last_of - 1) % every == 0)


class MarkedStack(EncoderStack):
    """An encoder whose layers read so many ``marked`` vectors beside the stream, which is filled up to whole blocks."""

    marked: Embedding | None = None
    block: int = 1

    @property
    def parts(self) -> Iterator[Module]:
        """The table of marked vectors behind the others."""
        assert self.marked is not None
        parts = (self.table, *self.added, self.marked, self.layers, self.normed, self.norm)
        return (each for each in parts if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        assert self.marked is not None
        assert self.norm is not None
        assert isinstance(self.layers, PairStack)
        batch, length = x.shape
        whole, rows = ceil_div(length, self.block) * self.block, 0 if ctx.run.decoding else self.marked.rows
        words = self._words(x, ctx)
        given = [self._summed([words, *(each(x, ctx) for each in self.added)], ctx)]
        if not x.trace.lowers or value_of(whole) != value_of(length):
            given[0] = pad(given[0], 1, whole)
        places = expand(numbered(x, (1, rows)), batch, rows)
        given.append(self.marked(places, ctx))
        x.trace.forget("embedding")  # that is no table of words
        made, _ = self.layers.both(given, ctx._replace(stream=ctx.stream._replace(length=whole)))
        return self.norm(part(made, 1, length), ctx)
