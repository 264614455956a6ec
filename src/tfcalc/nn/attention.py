"""Multi-head attention: projections, norms and positions of queries and keys, what they mix, and the way back.

Sinks are a trained score for each head; cross-attention reads what an encoder has made of another sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.core.component import CORE_ATTENTION, Cached
from tfcalc.core.number import Num, Pairs, minimum
from tfcalc.nn.basic import Linear, Norm, Parameter
from tfcalc.nn.module import Context, Frozen, Module
from tfcalc.ops.attention import attend, rotary
from tfcalc.ops.elementwise import activation, add, clipped_in_place, dropping, mul, pointwise, scaled
from tfcalc.ops.shapes import called, contiguous, merge_heads, reshape, split, transpose
from tfcalc.ops.work import by_token
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences

if TYPE_CHECKING:
    from tfcalc.nn.positions import Alibi, RelativeBias, Rope


class EagerCode(Frozen):
    """Eager-attention variant of a program: how it computes scores, masks and softmax; it does not affect the counts.

    ``scores`` are products in the stream's format, or of copies in ``float32``, perhaps even under autocast
    (``exact``). Their ``softmax`` is in ``float32``, in their ``own`` format (perhaps ``less highest``: of scores less
    each row's highest), or in that of the ``weights``. A ``mask`` is ``added``, and scores are perhaps clamped from
    below at the smallest number (``limited``); or it says where they are ``filled`` in. Each layer may make a mask of
    its ``own``, of the tokens that are not padding and of those that are seen.
    """

    scores: str = ""
    softmax: str = "float32"
    mask: str = "added"


OWN_SOFTMAX = EagerCode(softmax="own")


class Attention(Module):
    """Queries from one sequence, keys and values from the same (self-attention) or another (cross-attention).

    ``heads`` query heads share ``kv_heads`` key and value heads: as many (multi-head), fewer (grouped-query), or one
    (multi-query). The ``inward`` maps make queries, keys and values: one each, two where the second makes keys and
    values, or one that makes all. ``norms`` are those of queries and keys, of each head or of the ``whole`` map.
    ``rope`` turns queries and keys by their positions, before their norms if these are ``normed_last`` (then one may be
    for both). Causal attention may be masked to a ``window`` (a query's own key and those before it, ``window`` keys in
    all) or to a ``chunk``. ``sinks`` are a trained score for each head, beside those of keys; ``sub_norm`` norms what
    the heads made together (arXiv 2210.06423). What the heads made may be multiplied by the sigmoid of a ``gate``, with
    a bias for each head (arXiv 2505.06708). ``alibi`` is a bias of the scores by distance, without FLOPs.

    Where a stack has a mask, its attention is ``masked``. A window may be only that: then a cache ``keeps_all`` keys,
    and a token that is decoded reads them all.

    A ``table`` of its own may add a number to each score for the distance of two tokens.

    The following fields do not affect the counts, only what is saved for backward: queries, keys and values are
    ``clipped`` in place, queries have a factor for each place (``tempered``: of that format, or their ``own``), and
    scores are ``capped`` by a tanh. ``eager`` is how a program writes out what kernels do. A kernel may be given a mask
    that tells it nothing new (``always_masked``), and a causal stack a mask of ones (``given_ones``), which hides no
    key. Queries may be multiplied before they are split into heads, and then all heads copied, so that the rows of each
    lie together (``copied``).

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.2; Ainslie et al. 2023 (arXiv 2305.13245).
    """

    kind = "attention"

    heads: Num
    kv_heads: Num
    key_dim: Num
    value_dim: Num
    inward: tuple[Linear, ...]
    norms: tuple[Norm, ...]
    output: Linear
    whole: bool = False
    rope: Rope | None = None
    window: Num | None = None
    chunk: int | None = None
    causal: bool = True
    dropout: bool = False
    tempered: str = ""
    clipped: bool = False
    capped: bool = False
    normed_last: bool = False
    sinks: Sinks | None = None
    sub_norm: Norm | None = None
    gate: Linear | None = None
    gate_bias: Parameter | None = None
    masked: bool = True
    keeps_all: bool = False
    eager: EagerCode = EagerCode()
    always_masked: bool = False
    alibi: Alibi | None = None
    given_ones: bool = False
    table: RelativeBias | None = None
    copied: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        return ctx.backend.multi_head(self, x, ctx)

    def by_maps(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output with queries, keys and values from separate projections."""
        ctx = self.with_bias(x, ctx)
        made = self.mixed(list(self.project(x, self.source(x, ctx), ctx)), ctx, x)
        return called(self.output(made if self.sub_norm is None else self.sub_norm(made, ctx)), "output")

    def mixed(self, given: list[Tensor], ctx: Context, x: Tensor | None = None) -> Tensor:
        """Return the output of all heads, side by side, for the ``given`` queries, keys and values; a gate reads ``x``.

        The list is emptied, so that nothing but the variables here holds what it had.
        """
        q, k, v = given
        given.clear()
        gate = None if self.gate is None or x is None else self.gate(x)
        if self.rope is not None:
            behind = 0 if ctx.run.decoding else self.rope.behind
            q, k = rotary(q, k, self.rope.width, lambda: ctx.backend.rotate(q, k, self, ctx), behind)
        if self.normed_last:
            q, k = (norm(each, ctx) for norm, each in zip(self.norms[:1] + self.norms[-1:], (q, k), strict=True))
        if self.tempered:  # arXiv 2501.19399
            kind = q.dtype if self.tempered == "own" else self.tempered
            q = q.trace.to(mul(q, q.trace.new((q.shape[2], 1), kind, "temperatures")), q.dtype)
        k, v = self.update_cache(k, v, ctx)
        k, v = self.expand(k, v, ctx)
        made = merge_heads(self.attend(q, k, v, ctx), self.heads * self.value_dim)
        return made if gate is None else mul(made, self._opened(gate))

    def _opened(self, gate: Tensor) -> Tensor:
        if self.gate_bias is not None:
            with gate.trace.inside(self.gate_bias):
                bias = reshape(gate.trace.weight(self.gate_bias.tensor), self.heads, 1)
            gate = reshape(add(_headed(gate, self.heads, self.value_dim), bias), *gate.shape)
        return activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate")

    def source(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the input of the key and value projections."""
        return x

    def sees(self, ctx: Context) -> Sequences:
        """The sequences whose keys are seen."""
        return ctx.stream

    def seen(self, ctx: Context) -> Sequences:
        """Return the sequences whose keys are seen, with all further keys that are seen beside theirs."""
        return self.sees(ctx)

    def with_bias(self, x: Tensor, ctx: Context) -> Context:
        """Return the context with the bias of this block's own table, if it has one."""
        return ctx if self.table is None else ctx._replace(bias=self.table(x, ctx))

    def bias(self, ctx: Context) -> Tensor | None:
        """Return the bias that is added to the scores for the distance of two tokens, if any."""
        return ctx.bias

    @property
    def mask(self) -> Num | None:
        """The window of the mask that it is given; a chunk is one."""
        return None if self.keeps_all else self.window if self.chunk is None else self.chunk

    @property
    def looks_at_mask(self) -> bool:
        """True if the block reads a mask: it is ``masked`` and does not see everything."""
        return self.masked and (self.causal or self.mask is not None)

    @property
    def value_heads(self) -> Num:
        """Number of heads with values of their own: as many as key heads."""
        return self.kv_heads

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, head by head."""
        a, g, d, d_v = self.heads, self.kv_heads, self.key_dim, self.value_dim
        if len(self.inward) == 1:
            q, k, v = split(self.inward[0](x), [a * d, g * d, g * d_v])
        elif len(self.inward) == 2:
            q, (k, v) = self.inward[0](x), split(self.inward[1](source), [g * d, g * d_v])
        else:
            q, k, v = (each(read) for each, read in zip(self.inward, (x, source, source), strict=True))
        if self.clipped:
            q, k, v = (clipped_in_place(each) for each in (q, k, v))
        if self.copied:
            q = scaled(q)
        q, k, v = called(q, "Q"), called(k, "K"), called(v, "V")
        q, k = self.norm_heads(q, 0, a, ctx), self.norm_heads(k, 1, g, ctx)
        v = called(_headed(v, self.value_heads, d_v), "V split into heads")
        q, k, v = called(transpose(q, 1, 2), "Q of each head"), transpose(k, 1, 2), transpose(v, 1, 2)
        k, v = called(k, "K of each head"), called(v, "V of each head")
        return (contiguous(q), contiguous(k), contiguous(v)) if self.copied else (q, k, v)

    def norm_heads(self, x: Tensor, place: int, heads: Num, ctx: Context) -> Tensor:
        """Queries or keys of each head, after their norm if they have one."""
        whole = self.norms[place](x, ctx) if self.norms and self.whole and not self.normed_last else x
        split_ = called(_headed(whole, heads, self.key_dim), f"{'QK'[place]} split into heads")
        apart = self.norms and not self.whole and not self.normed_last
        return self.norms[place](split_, ctx) if apart else split_

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Return the heads' output for these queries, keys and values.

        What is read again, by another ``name``, is cached only once.
        """
        pairs = self.pairs(ctx)

        def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cached = self.cached(ctx) if name == "attend" else ()
            masked = self.causal and not ctx.run.decoding
            made = attend(q, k, v, pairs, lambda: self.kernel(q, k, v, ctx), cached=cached, name=name, masked=masked)
            if self.dropout and ctx.drops:
                q.trace.count(dropping(made, self.heads * pairs.scores, "attend_dropout"))
            return made

        if CORE_ATTENTION in ctx.run.modules_again:
            return q.trace.checkpoint(attended, q, k, v)
        return attended(q, k, v)

    def update_cache(self, k: Tensor, v: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Append what is cached of new tokens (:meth:`cached`); return that of all tokens which attention reads.

        Without a cache, where operations are only counted, it is as long: what :meth:`expand` does counts for them all.
        """
        if ctx.cache is not None:
            return ctx.cache.update(k, v)
        if not ctx.run.decoding or not self.cached(ctx):
            return k, v
        seen = self.sees(ctx).seen if self.mask is None else minimum(self.sees(ctx).seen, self.mask)
        k, v = (x.trace.view(x, (*x.shape[:2], seen, x.width), None) for x in (k, v))
        return k, v

    def expand(self, k: Tensor, v: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Make the keys and values of all tokens of what is cached of them; most cache keys and values themselves."""
        return k, v

    def pairs(self, ctx: Context) -> Pairs:
        """Return the pairs of queries and the keys that they see."""
        masks = ctx.run.tells_masks if not self.causal else not (self.keeps_all and ctx.run.decoding)
        window = self.window if masks else None
        return ctx.run.pairs(ctx.stream, self.seen(ctx), causal=self.causal, window=window, chunk=self.chunk)

    def kernel(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
        """Return the heads' output where kernels run."""
        return ctx.backend.attend(q, k, v, self, ctx)

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        """Cache entries: keys and values of each token that later steps read."""
        made = {"K": self.key_dim, "V": self.value_dim}
        window, keys = self.mask if self.chunk is None else None, self.sees(ctx)
        return by_token(ctx.stream, keys, self.kv_heads, made, causal=self.causal, window=window, chunk=self.chunk)


def attentions(module: Module) -> Iterator[Attention]:
    """The attention blocks in it."""
    for part in module.parts:
        if isinstance(part, Attention):
            yield part
        else:
            yield from attentions(part)


def _headed(x: Tensor, heads: Num, width: Num) -> Tensor:
    """``b × l × a·d`` as ``b × l × a × d``."""
    return reshape(x, *x.shape[:2], heads, width)


class Sinks(Parameter):
    """Attention sinks: they take a share of each row's softmax, and have no value.

    How a library does that does not affect the counts: a sink is a ``scale`` of what a head made; it is put ``beside``
    the scores in their softmax; or that is of all of them less the ``highest``.

    Source: Xiao et al. 2023 (arXiv 2309.17453), section 3.3; gpt-oss (arXiv 2508.10925).
    """

    code: str = "scale"


class CrossAttention(Attention):
    """Queries of the stream, keys and values of the context's ``memory``, all of which each query sees.

    Some classes hold it and never give it a memory to read (``reads``). A program may add zeros to its scores, which it
    makes anew, where other attention adds a bias (``adds_zeros``).

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.3.
    """

    causal: bool = False
    masked: bool = False
    reads: bool = True
    adds_zeros: bool = False

    def runs(self, ctx: Context) -> bool:
        """Return True if it reads a memory and there is one."""
        return self.reads and ctx.memory is not None

    def source(self, x: Tensor, ctx: Context) -> Tensor:
        """The memory."""
        assert ctx.memory is not None
        return ctx.memory.vectors

    def sees(self, ctx: Context) -> Sequences:
        """Return the sequences that the encoder read."""
        assert ctx.memory is not None
        return ctx.memory.of

    def with_bias(self, x: Tensor, ctx: Context) -> Context:
        """Return the context with zeros in place of a bias, if the block adds some."""
        if not self.adds_zeros or ctx.memory is None:
            return ctx
        shape = (1, self.heads, ctx.stream.length, ctx.memory.of.length)
        return ctx._replace(memory=ctx.memory._replace(bias=x.trace.new(shape, x.trace.compute, "zeros")))

    def bias(self, ctx: Context) -> Tensor | None:
        """Return the bias that is added to the scores of the encoder's keys, if any."""
        return None if ctx.memory is None else ctx.memory.bias
