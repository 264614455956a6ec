"""Attention in chunks of a long sequence, with trained keys for relative positions."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div
from tfcalc.core.pairs import Pairs
from tfcalc.nn.basic import Buffer, Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import activation, add, filled, mul, pointwise, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import contiguous, copied, expand, narrow, pad, part, permute, reshape
from tfcalc.tape.tensor import Tensor


class ChunkedAttention(Module):
    """Each chunk of so many tokens (``chunk``) sees itself, and so many ``before`` and ``behind`` it.

    A score has a part for the key and a part for its distance, whose keys a matrix makes of fixed sines. A trained
    scale stands at each of a head's dimensions. All is in fp32, and scores are kept under a cap by a tanh. It may hold
    ``limits`` of its maps.

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3; transformers' Gemma4AudioAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    maps: tuple[Linear, Linear, Linear]
    scale: Stored
    distances: Linear
    output: Linear
    chunk: int
    before: int
    behind: int
    limits: tuple[Buffer, ...] = ()

    @property
    def context(self) -> int:
        """How many tokens a chunk sees."""
        return self.chunk + self.before + self.behind

    def sines(self, x: Tensor, ctx: Context) -> Tensor:
        """Those of each distance, for all layers; none where what is heard has been heard."""
        distances = 0 if ctx.run.decoding else self.context // 2 + 1
        made = x.trace.new((1, distances, self.distances.fan_in), x.dtype, "sines")
        x.trace.belongs(made)
        return made

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × h; the last chunk of each sequence is filled up."""
        trace, (b, l, _) = x.trace, x.shape
        a, d = self.heads, self.head_dim
        q, k, v = (reshape(trace.to(each(x), "float32"), b, l, a, d) for each in self.maps)
        per_dim = self.scale.weight(trace)
        per_dim = activation("softplus", per_dim, lambda: pointwise("softplus", per_dim), "scale")
        q, k = mul(scaled(q), per_dim), scaled(k)
        assert ctx.places is not None
        r = self.distances(ctx.places)
        count = ceil_div(l, self.chunk)
        queries = b * count * self.chunk
        if not trace.lowers:
            whole = (b, a, count * self.chunk, d)
            flat = trace.view(q, (queries, 1, a, d), None)
            relative_scores("relative", flat, reshape(r, r.shape[1], 1, a, d), queries * self.context)
            q, k, v = (trace.view(each, whole, None) for each in (q, k, v))
            pairs = Pairs((2, queries, self.context), queries * self.context, ctx.run.fused)
            made = attend(q, k, v, pairs, lambda: q)
            return self.output(trace.view(made, (b, l, a * d), None))
        made = self._attended([q, k, v], reshape(trace.to(r, "float32"), r.shape[1], a, d), ctx)
        made = reshape(permute(made, (0, 2, 3, 1, 4)), b, count * self.chunk, a * d)
        return self.output(trace.to(contiguous(part(made, 1, l)), x.dtype))

    def _attended(self, given: list[Tensor], r: Tensor, ctx: Context) -> Tensor:
        """Chunk by chunk: b × a × chunks × tokens × width."""
        q, k, v = given
        given.clear()
        trace, (b, l, a, d) = q.trace, q.shape
        count = ceil_div(l, self.chunk)
        q = permute(reshape(pad(q, 1, count * self.chunk), b, count, self.chunk, a, d), (0, 3, 1, 2, 4))
        k, v = self._seen(k, count), self._seen(v, count)
        shape = (b, a, count, self.chunk, self.context)
        p = matmul(q, permute(k, (0, 3, 1, 4, 2)))
        flat = reshape(q, b, a, count * self.chunk, d)
        place = matmul(flat, expand(permute(r, (1, 2, 0)), b, a, d, r.shape[0]))
        place = reshape(place, *shape[:-1], r.shape[0])
        place = pad(place, 4, self.context + 1)
        p = add(p, narrow(place, self.context, 4))
        p = scaled(pointwise("tanh", scaled(p)))
        p = filled(p, trace.new((b, 1, *shape[2:]), "bool", "not seen"))
        return matmul(softmax(p, "float32"), permute(v, (0, 3, 1, 2, 4)))

    def _seen(self, x: Tensor, count: Num) -> Tensor:
        """A copy of what each chunk sees: b × chunks × tokens × a × d."""
        b, l, a, d = x.shape
        filled_up = pad(x, 1, l + self.before + self.behind + self.chunk - 1)
        return copied(filled_up, (b, count, self.context, a, d))
