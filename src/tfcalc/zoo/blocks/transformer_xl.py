"""Transformer-XL's attention: a query is compared with each key, and with the distance to it (XLNet)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num
from tfcalc.nn.basic import Embedding, Linear, Parameter
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, dropout, dropping, scaled
from tfcalc.ops.products import linear
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import softmax
from tfcalc.ops.select import index_select
from tfcalc.ops.shapes import contiguous, narrow, reshape, transpose
from tfcalc.tape.tensor import Tensor


class HeadMap(Linear):
    """A map to all heads, or back from them (``back``), whose matrix has an axis for the heads.

    Tokens come first, and then sequences.
    """

    heads: Num = 1
    head_dim: Num = 1
    back: bool = False

    def own_params(self) -> Cost:
        """W."""
        width = self.fan_out if self.back else self.fan_in
        return Cost(weights=(Weight(f"W_{self.letter}", (width, self.heads, self.head_dim), turned=True),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the map of ``x``, of l × b × h, or of l × b × a × d."""
        (weight,) = self.weights(x.trace)
        if not x.trace.emits_kernels:  # one product; a program writes an einsum over heads
            rows = reshape(x, *x.shape[:2], self.fan_in)
            made = linear(rows, reshape(weight, self.fan_in, self.fan_out), letter=self.letter)
            return made if self.back else reshape(made, *x.shape[:2], self.heads, self.head_dim)
        equation = "ibnd,hnd->ibh" if self.back else "ibh,hnd->ibnd"
        return einsum(equation, x, weight)


class RelativeAttention(Module):
    """``(q + u)·k + (q + v)·r``: r is a map of the fixed vector of a distance, u and v are trained, one for each head.

    A third such vector goes with two that say whether query and key belong to the same segment; token ids alone ask for
    neither. No map has a bias.

    Source: Yang et al. 2019 (XLNet, arXiv 1906.08237), section 2.5; transformers' XLNetRelativeAttention.
    """

    kind = "attention"

    maps: tuple[HeadMap, HeadMap, HeadMap]
    distances: HeadMap
    biases: tuple[Parameter, Parameter, Parameter]
    segments: Parameter
    output: HeadMap
    causal: bool = False
    dropout: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of l × b × h."""
        assert ctx.places is not None
        trace, run = x.trace, ctx.run
        q, k, v = (each(x) for each in self.maps)
        r = self.distances(ctx.places)
        pairs = run.pairs(ctx.stream, ctx.stream, causal=self.causal)
        here, there, _ = (each.weight(trace) for each in self.biases)

        def mixed() -> Tensor:
            content, place = einsum("ibnd,jbnd->bnij", add(q, here), k), einsum("ibnd,jbnd->bnij", add(q, there), r)
            b, n, i, j = place.shape
            place = narrow(reshape(place, b, n, j, i), j - 1, axis=2)
            place = index_select(reshape(place, b, n, i, j - 1), 3, i)
            p = softmax(scaled(add(content, place)))
            p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
            return einsum("bnij,jbnd->ibnd", p, v)

        relative_scores("relative", q, r, pairs.scores)
        if trace.emits_kernels:  # heads are the first axis here, and products are counted with them second
            return self.output(mixed())
        q, k, v = (transpose(transpose(each, 0, 1), 1, 2) for each in (q, k, v))
        made = attend(q, k, v, pairs, mixed)
        if self.dropout and ctx.drops:
            trace.count(dropping(made, made.shape[1] * pairs.scores, "attend_dropout"))
        return self.output(transpose(transpose(made, 1, 2), 0, 1))


class XLNet(Module):
    """A table, layers that read fixed vectors of distances, and a vector for words that are to be guessed.

    Layers see tokens first, and then sequences. No table of positions is stored.
    """

    kind = "decoder"

    table: Embedding
    guessed: Parameter
    layers: Stack
    causal: bool = False
    dropped: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """Table, vector of guessed words, and layers, in this order."""
        return iter((self.table, self.guessed, self.layers))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids."""
        b, width = x.shape[0], self.table.width
        count = ctx.stream.length + 1 if self.causal else 2 * ctx.stream.length
        drops = self.dropped and ctx.drops
        made = self.table(contiguous(transpose(x, 0, 1)))
        made = dropout(made, "embedding_dropout") if drops else made
        places = x.trace.new((count, b, width), x.trace.weights_format, "vectors of distances")
        x.trace.belongs(places)
        made = self.layers(made, ctx._replace(places=places))
        made = dropout(made, "output_dropout") if drops else made
        return contiguous(transpose(made, 0, 1))
