"""Attention to a longer sequence than that of the queries, by content, by distance and by segment (Funnel)."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.module import Module
from tfcalc.nn.transformer_xl import HeadMap
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, dropout, dropping, mul, residual, scaled
from tfcalc.ops.pooling import masked, waves, where
from tfcalc.ops.products import linear
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import part, reshape, transpose, unsqueeze
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class Around(NamedTuple):
    """What a layer reads beside the queries: ``keys`` of other tokens (or their own), fixed vectors of distances.

    These are one table, or four: sines and cosines of queries' places, and of keys'. ``segments`` says which tokens
    belong to one, ``apart`` masks the first token, where that is one.
    """

    distances: tuple[Tensor, ...]
    segments: Tensor
    apart: Tensor | None = None
    keys: Tensor | None = None


class DistanceMap(HeadMap):
    """The map of distances to all heads, or of all heads' queries to the stream's width."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of r × h, or of b × i × a × d."""
        (weight,) = self.weights(x.trace)
        of_queries = len(x.shape) == 4
        if x.trace.lowers:
            return einsum("binh,dnh->bind" if of_queries else "td,dnh->tnh", x, weight)
        rows = reshape(x, *x.shape[:2], self.fan_out) if of_queries else x
        made = linear(rows, reshape(weight, self.fan_in, self.fan_out), letter=self.letter)
        return reshape(made, *x.shape[:3], self.fan_in) if of_queries else reshape(made, x.shape[0], 1, *self.split)

    @property
    def split(self) -> tuple[Num, Num]:
        """Heads, and the width of each."""
        return self.heads, self.head_dim


class FunnelAttention(Module):
    """``(q + u)·k + (q + v)·r + (q + w)·s``: r is a map of the vector of a distance, s one of two for the segment.

    Queries have no bias, as u, v and w are theirs. ``factorized``: r is a sum of products of sines and cosines of the
    two places, so that queries are mapped to the stream's width and compared with each key's sines and cosines.

    Source: Dai et al. 2020 (Funnel-Transformer, arXiv 2006.03236), appendix A.2; transformers'
    FunnelRelMultiheadAttention.
    """

    kind = "attention"

    heads: Num
    width: Num
    maps: tuple[Linear, Linear, Linear]
    distances: DistanceMap
    biases: tuple[Stored, Stored, Stored]
    segments: Stored
    output: Linear
    factorized: bool = False
    dropout: bool = False

    def forward(self, x: Tensor, ctx: Context, around: Around) -> Tensor:
        """Of b × i × h."""
        source = x if around.keys is None else around.keys
        q, k, v = (
            reshape(each(read), *read.shape[:2], self.heads, self.width)
            for each, read in zip(self.maps, (x, source, source), strict=True)
        )
        made = self._mixed(q, k, v, ctx, around) if x.trace.lowers else self._counted(q, k, v, ctx, around)
        return self.output(reshape(made, *x.shape[:2], self.heads * self.width))

    def _counted(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, around: Around) -> Tensor:
        keys: Sequences = ctx.stream._replace(length=k.shape[1])
        pairs = ctx.run.pairs(ctx.stream, keys, causal=False)
        if self.factorized:
            waves("relative", self.distances(q), around.distances[-1])
        else:
            relative_scores("relative", q, self.distances(around.distances[0]), pairs.scores)
        relative_scores("segments", q, self.segments.weight(q.trace), pairs.scores)
        q, k, v = (transpose(each, 1, 2) for each in (q, k, v))
        made = attend(q, k, v, pairs, lambda: q)
        if self.dropout and ctx.drops:
            q.trace.count(dropping(made, self.heads * pairs.scores, "attend_dropout"))
        return transpose(made, 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, around: Around) -> Tensor:
        trace, q = q.trace, scaled(q)
        here, there, same = (scaled(each.weight(trace)) for each in self.biases)
        content = einsum("bind,bjnd->bnij", add(q, here), k)
        place = self._places(q, there, k.shape[1], around)
        of_segment = einsum("bind,snd->bnis", add(q, same), self.segments.weight(trace))
        shape = (*of_segment.shape[:3], k.shape[1])
        segment = where(around.segments, of_segment, shape)
        if around.apart is not None:
            place, segment = masked(place, around.apart), masked(segment, around.apart)
        p = add(add(content, place), segment)
        p = softmax(trace.to(scaled(trace.to(p, "float32"), "sub"), p.dtype))
        p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
        return einsum("bnij,bjnd->bind", p, v)

    def _places(self, q: Tensor, bias: Tensor, keys: Num, around: Around) -> Tensor:
        """What the places of query and key add to each score."""
        q = add(q, bias)
        if self.factorized:
            mapped, (sines, cosines, of_sines, of_cosines) = self.distances(q), around.distances
            one = einsum("bind,jd->bnij", mul(mapped, unsqueeze(sines, 1)), of_sines)
            return add(one, einsum("bind,jd->bnij", mul(mapped, unsqueeze(cosines, 1)), of_cosines))
        made = einsum("binh,tnh->bnit", q, self.distances(around.distances[0]))
        b, n, i, t = made.shape
        shift = 1 if around.keys is None else 2
        made = part(reshape(made, b, n, t, i), 2, t - shift)
        return part(reshape(made, b, n, i, t - shift), 3, keys)


class FunnelLayer(Module):
    """``norm(x + f(x))`` of attention, and of the feed-forward network; what they make is ``dropped`` in part."""

    kind = "layer"

    attention: FunnelAttention
    ffn: FeedForward
    norms: tuple[Norm, Norm]
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context, around: Around) -> Tensor:
        """Of the queries."""
        before, behind = self.norms
        x = before(residual(x, self._dropped(self.attention(x, ctx, around), ctx, "attention"), "attention"), ctx)
        return behind(residual(x, self._dropped(self.ffn(x, ctx), ctx, "ffn"), "ffn"), ctx)

    def _dropped(self, x: Tensor, ctx: Context, name: str) -> Tensor:
        return dropout(x, f"{name}_dropout") if self.dropped and ctx.drops else x
