"""Attention of a query to the keys of its chunk and of the neighbouring ones, as Reformer has it."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs
from tfcalc.leaves import attend, linear
from tfcalc.workload import Sequences, Workload


class NeighbourAttention(NamedTuple):
    """Each query sees ``reach`` keys: those of its chunk and of its neighbours'. No map has a bias.

    ``names`` are those of queries, keys, values and output; with one name for queries and keys both are the same, and
    the chunks are made by hashing them, ``rounds`` times over (which is not counted), not by cutting. They are full:
    what a mask hides is computed all the same.

    Source: Kitaev et al. 2020 (Reformer, arXiv 2001.04451), section 2; transformers' LSHSelfAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    reach: Num
    names: tuple[str, ...]
    rounds: Num = 1

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences, which are longer than a chunk."""
        h, a, d, tokens = self.d_model, self.n_heads, self.head_dim, stream.tokens
        seen = self.rounds * self.reach
        return Component(
            name,
            "attention",
            parts=(
                *(linear(part, h, a * d, tokens, bias=False, letter=part) for part in self.names[:-1]),
                attend("attend", a, d, d, Pairs((2, tokens, seen), tokens * seen, run.fused)),
                linear(self.names[-1], a * d, h, tokens, bias=False, letter="O"),
            ),
        )
