"""Attention of a query to the keys of its chunk and of the neighbouring ones, as Reformer has it."""

from typing import NamedTuple

from tfcalc.blocks.sparse_blocks import beyond
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs
from tfcalc.leaves import attend, linear
from tfcalc.workload import Sequences, Workload


class NeighbourAttention(NamedTuple):
    """Each query sees the keys of ``around`` chunks: its own and its neighbours'. No map has a bias.

    ``names`` are those of queries, keys, values and output; with one name for queries and keys both are the same, and
    the chunks are made by hashing them, ``rounds`` times over, not by cutting: by products with ``rotation`` vectors
    for each head, without a gradient. Chunks are full: what a mask hides is computed all the same. All pairs are
    compared in a sequence that is no longer than a ``chunk``.

    Source: Kitaev et al. 2020 (Reformer, arXiv 2001.04451), section 2; transformers' LSHSelfAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    chunk: int
    around: int
    names: tuple[str, ...]
    rounds: Num = 1
    rotation: int = 0

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        h, a, d, tokens = self.d_model, self.n_heads, self.head_dim, stream.tokens
        chunked = beyond(stream.length, self.chunk)
        seen = stream.length + chunked * (self.rounds * self.around * self.chunk - stream.length)
        rotated = Product("Q R", (2, tokens, self.rounds, self.rotation, a, d, chunked), backward=0)
        return Component(
            name,
            "attention",
            parts=(
                *(linear(part, h, a * d, tokens, bias=False, letter=part) for part in self.names[:-1]),
                *([Component("hash", "attend", Cost(products=(rotated,)))] if self.rotation else []),
                attend("attend", a, d, d, Pairs((2, tokens, seen), tokens * seen, run.fused)),
                linear(self.names[-1], a * d, h, tokens, bias=False, letter="O"),
            ),
        )
