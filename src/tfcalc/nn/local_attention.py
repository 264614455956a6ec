"""Attention to what is near, and to summaries of what is not (LongT5)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.core.pairs import Pairs
from tfcalc.core.traced import value_of
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.encoder_decoder import EncoderStack
from tfcalc.nn.module import Module
from tfcalc.nn.relative import RelativeBias
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, added_in_place, dropout, dropping
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import beside, cat, contiguous, copied, pad, part, permute, reshape, transpose, unsqueeze
from tfcalc.ops.tables import looked_up
from tfcalc.tape.call import Call, Leaf, MatMul
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class LocalAttention(Attention):
    """A token sees its block of ``block`` tokens, and the blocks before and after it; the last one is filled up.

    With ``summarised``, it also sees a normed sum of each so many tokens, whose keys and values the same maps make.
    Whatever kernel is asked for, the products are the program's own.

    Source: Guo et al. 2021 (arXiv 2112.07916), section 3.1; transformers' LongT5TransientGlobalAttention.
    """

    causal: bool = False
    block: int = 1
    summarised: int | None = None
    summary_norm: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        summaries = self._summaries(x, ctx)
        if not x.trace.lowers:
            return self._counted(x, summaries, ctx)
        q, k, v = (self._by_head(each(x)) for each in self.inward)
        side = [] if summaries is None else [self._by_head(each(summaries)) for each in self.inward[1:]]

        def mixed(*given: Tensor) -> Tensor:
            return self._mixed(given, ctx)

        again = ctx.run.recompute == "selective"
        made = x.trace.checkpoint(mixed, q, k, v, *side) if again else mixed(q, k, v, *side)
        return self.output(part(made, 1, x.shape[1]))

    def pairs(self, ctx: Context) -> Pairs:
        """Those of blocks, and of summaries."""
        length = ctx.stream.length
        queries = Sequences(ctx.stream.batch, ceil_div(length, self.block) * self.block)
        keys = Sequences(ctx.stream.batch, 3 * self.block + self.count(ctx))
        return ctx.run.pairs(queries, keys, causal=False)

    def count(self, ctx: Context) -> Num:
        """How many summaries there are."""
        return 0 if self.summarised is None else floor_div(ctx.stream.length, self.summarised)

    def _summaries(self, x: Tensor, ctx: Context) -> Tensor | None:
        """``P X`` with a fixed P that says which vectors of a sequence each sum is made of: ``2·b·m·l·h`` FLOPs."""
        if self.summary_norm is None:
            return None
        trace, (b, l, h), count = x.trace, x.shape, self.count(ctx)
        product = MatMul("P X", (2, b, count, l, h), (x,))
        call = Call("einsum", (x,), (b, count, h), x.dtype, products=(product,), leaf=Leaf("global_inputs", "pool"))

        def code() -> Tensor:
            return einsum("bnd,bng->bgd", x, trace.new((b, l, count), x.dtype, "which sum"))

        return self.summary_norm(trace.compose(call, code), ctx)

    def _counted(self, x: Tensor, summaries: Tensor | None, ctx: Context) -> Tensor:
        b, l, h = x.shape
        read = x if summaries is None else beside([x, summaries], (b, l + self.count(ctx), h))
        made = (each(one) for each, one in zip(self.inward, (x, read, read), strict=True))
        q, k, v = (transpose(self._by_head(each), 1, 2) for each in made)
        pairs = self.pairs(ctx)
        mixed = attend(q, k, v, pairs, lambda: q)
        if self.dropout and ctx.drops:
            x.trace.count(dropping(mixed, self.heads * pairs.scores, "attend_dropout"))
        return self.output(reshape(transpose(mixed, 1, 2), b, l, self.heads * self.value_dim))

    def _by_head(self, x: Tensor) -> Tensor:
        return reshape(x, *x.shape[:2], self.heads, self.key_dim)

    def _mixed(self, given: tuple[Tensor, ...], ctx: Context) -> Tensor:
        """Of b × l × a × d; as long as the blocks."""
        assert ctx.bias is not None
        q, k, v, *side = given
        trace, blocks = q.trace, ceil_div(q.shape[1], self.block)
        q, k, v = (in_blocks(each, 1, blocks, self.block) for each in (q, k, v))
        k, v = _neighbours(k), _neighbours(v)
        if side:
            k, v = (cat([each, _tiled(one, blocks)], 2) for each, one in zip((k, v), side, strict=True))
        scores = added_in_place(einsum("bnqhd,bnkhd->bnhqk", q, k), ctx.bias)
        p = trace.to(softmax(trace.to(scores, "float32")), scores.dtype)
        p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
        made = contiguous(einsum("bnhqk,bnkhd->bnqhd", trace.to(p, v.dtype), v))
        return reshape(made, made.shape[0], blocks * self.block, self.heads * self.value_dim)


def in_blocks(x: Tensor, axis: int, blocks: Num, size: int) -> Tensor:
    """An axis cut into so many blocks, the last one filled up."""
    whole = blocks * size
    x = x if value_of(whole) == value_of(x.shape[axis]) else pad(x, axis, whole)
    return reshape(x, *x.shape[:axis], blocks, size, *x.shape[axis + 1 :])


def _neighbours(x: Tensor) -> Tensor:
    """Each block beside the ones before and after it, of b × n × block × a × d."""
    blocks = x.shape[1]
    wider = pad(x, 1, blocks + 2)
    return cat([part(wider, 1, blocks) for _ in range(3)], 2)


def _tiled(x: Tensor, blocks: Num) -> Tensor:
    """The same for each block: a copy."""
    return copied(x, (x.shape[0], blocks, *x.shape[1:]), "repeat")


class LocalStack(EncoderStack):
    """An encoder whose layers share the biases of near distances, and those of how far summaries are, where it has any.

    Masks are numbers that are added to them, in fp32.
    """

    near: RelativeBias | None = None
    far: RelativeBias | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The tables of biases behind that of words."""
        table, *others = super().parts
        return iter(each for each in (table, self.near, self.far, *others) if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        if x.trace.lowers:
            mixer = next(each for each in attentions(self.layers) if isinstance(each, LocalAttention))

            def biases(ids: Tensor) -> Tensor:
                return self._biases(ids, mixer, ctx)

            ctx = ctx._replace(bias=x.trace.checkpoint(biases, x) if ctx.run.every else biases(x))
        return super().forward(x, ctx)

    def _biases(self, ids: Tensor, mixer: LocalAttention, ctx: Context) -> Tensor:
        """Of b × n × a × block × keys."""
        trace, (b, l) = ids.trace, ids.shape
        size, blocks = mixer.block, ceil_div(l, mixer.block)
        assert self.near is not None
        made = _rows(self.near, trace.new((size, 3 * size), "int64", "buckets"))
        made = unsqueeze(unsqueeze(permute(made, (2, 0, 1)), 0), 0)
        made = add(made, trace.new((b, blocks, 1, size, 3 * size), "float32", "mask"))
        if self.far is None:
            return made
        count = mixer.count(ctx)
        far = permute(_rows(self.far, trace.new((b, l, count), "int64", "buckets")), (0, 3, 1, 2))
        far = in_blocks(add(trace.new((b, 1, l, count), "float32", "mask"), far), 2, blocks, size)
        far = trace.to(transpose(far, 1, 2), trace.compute)
        return cat([trace.to(made, trace.compute), far], -1)


def _rows(table: RelativeBias, places: Tensor) -> Tensor:
    with places.trace.inside(table):
        (weight,) = table.held().weights
        return looked_up(places.trace.weight(weight), places)
