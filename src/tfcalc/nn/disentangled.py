"""Attention that compares content with content, content with position, and position with content (DeBERTa)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num, minimum
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import add, divided, dropout, dropping, filled
from tfcalc.ops.products import matmul
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import softmax
from tfcalc.ops.select import gathered
from tfcalc.ops.shapes import contiguous, copied, expand, merge_heads, part, permute, reshape, split, transpose
from tfcalc.tape.tensor import Tensor

C2P, P2C = "c2p", "p2c"


class Disentangled(Module):
    """``q·k + q·P_k + P_q·k``: P_k (``c2p``) and P_q (``p2c``) are maps of the vectors of distances.

    One map of ``inward`` makes queries, keys and values; then queries and values have ``biases`` of their own; or three
    do. ``positions`` are the maps to P_k and P_q by what they are for, which may be those of keys and queries.
    ``talking`` heads are mixed before and after the softmax. Tokens are told to be no further apart than ``far``. The
    vectors are dropped in part in each layer (``drops_vectors``).

    Source: He et al. 2020 (DeBERTa, arXiv 2006.03654), section 3.1; transformers' DisentangledSelfAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    inward: tuple[Linear, ...]
    biases: tuple[Stored, ...]
    positions: tuple[tuple[str, Linear], ...]
    talking: tuple[Linear, ...]
    output: Linear
    far: Num | None = None
    dropout: bool = False
    drops_vectors: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """Maps of words, of distances, and of heads."""
        own = [each for _, each in self.positions if each not in self.inward]
        return iter((*self.inward, *self.biases, *own, *self.talking, self.output))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x`` make of each other."""
        q, k, v = self._projected(x)
        vectors = dict(self._vectors(ctx))
        pairs = ctx.run.pairs(ctx.stream, ctx.stream, causal=False)
        for kind, each in vectors.items():
            relative_scores(kind, transpose(q, 1, 2), transpose(each, 0, 2), pairs.scores)
        if not x.trace.lowers:
            for mixing in self.talking:
                mixing(x.trace.data((q.shape[0], q.shape[2], q.shape[2], self.heads), "scores"))
        made = attend(q, k, v, pairs, lambda: self._mixed(q, k, v, vectors, ctx))
        if self.dropout and ctx.drops:
            x.trace.count(dropping(made, self.heads * pairs.scores, "attend_dropout"))
        return self.output(merge_heads(made, self.heads * self.head_dim))

    @property
    def _fused(self) -> bool:
        return len(self.inward) == 1

    def _projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, of b × a × l × d."""
        (b, l, _), a, d = x.shape, self.heads, self.head_dim
        if not self._fused:
            q, k, v = (contiguous(transpose(reshape(each(x), b, l, a, d), 1, 2)) for each in self.inward)
            return q, k, v
        q, k, v = split(transpose(reshape(self.inward[0](x), b, l, a, 3 * d), 1, 2), [d] * 3)
        of_q, of_v = (reshape(each.weight(x.trace), 1, a, 1, d) for each in self.biases)
        return add(q, of_q), k, add(v, of_v)

    def _vectors(self, ctx: Context) -> Iterator[tuple[str, Tensor]]:
        """Those of distances, of 1 × a × r × d, by what they are compared with."""
        given = ctx.places
        if given is None or not self.positions:
            return
        if self.drops_vectors and ctx.drops:
            given = dropout(given, "vectors_dropout") if given.trace.lowers else given
        if self.far is not None:
            given = part(given, 0, 2 * minimum(ctx.stream.length, self.far))
        for kind, each in self.positions:
            made = each(given)
            yield kind, transpose(reshape(made, 1, made.shape[0], self.heads, self.head_dim), 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, vectors: dict[str, Tensor], ctx: Context) -> Tensor:
        """Scores of three kinds; what is padding is put to the smallest number."""
        if self._fused:
            q = divided(q)
            p = matmul(q, transpose(k, 2, 3))
        else:
            p = matmul(q, transpose(divided(k), 2, 3))
        for kind, each in vectors.items():
            p = add(p, self._by_distance(k if kind == P2C else q, each, kind))
        p = self._talked(p, 0)
        p = filled(p, p.trace.new((p.shape[0], 1, *p.shape[2:]), "bool", "padding"))
        p = softmax(p)
        p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
        return matmul(self._talked(p, 1), v)

    def _by_distance(self, content: Tensor, vectors: Tensor, kind: str) -> Tensor:
        """Scores of each token and each distance, of which those of its pairs are picked: their places are kept.

        torch.matmul copies the vectors for each sequence, if there are several; or the code does.
        """
        b, length = content.shape[0], content.shape[2]
        if self._fused:
            vectors = divided(vectors, in_place=True) if kind == P2C else vectors
            vectors = expand(vectors, b, *vectors.shape[1:])
        else:
            vectors = copied(contiguous(vectors), (b, *vectors.shape[1:]), "repeat")
        made = gathered(matmul(content, transpose(vectors, 2, 3)), length, (length, length))
        return made if self._fused else divided(made)

    def _talked(self, p: Tensor, place: int) -> Tensor:
        """Where heads talk to each other, a map mixes all their numbers of a pair, which it reads as a copy."""
        if not self.talking:
            return p
        return permute(self.talking[place](permute(p, (0, 2, 3, 1))), (0, 3, 1, 2))
