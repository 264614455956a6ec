"""Attention within blocks of a sequence, and to and from a few global tokens."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import attend, linear
from tfcalc.workload import Sequences, Workload


class GlobalLocalAttention(NamedTuple):
    """A token sees its block of ``block`` tokens and ``n_global`` global ones; these see everything.

    Both kinds go through the same projections, without biases.

    Source: Phang et al. 2022 (arXiv 2208.04347), section 3.3; transformers' PegasusXGlobalLocalAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    block: Num
    n_global: Num
    names: tuple[str, str, str, str]

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences, whole blocks each."""
        marked = Sequences(stream.batch, self.n_global)
        near = Sequences(stream.batch, self.block + self.n_global)
        everything = Sequences(stream.batch, stream.length + self.n_global)
        projections = [
            linear(part, self.d_model, self.n_heads * self.head_dim, everything.tokens, bias=False, letter=letter)
            for part, letter in zip(self.names, "QKV", strict=False)
        ]
        return Component(
            name,
            "attention",
            parts=(
                *projections,
                self._attend("attend_local", stream, near, run),
                self._attend("attend_global", marked, everything, run),
                linear(
                    self.names[3], self.n_heads * self.head_dim, self.d_model, everything.tokens, bias=False, letter="O"
                ),
            ),
        )

    def _attend(self, name: str, queries: Sequences, keys: Sequences, run: Workload) -> Component:
        return attend(
            name,
            self.n_heads,
            self.head_dim,
            self.head_dim,
            run.pairs(queries, keys, causal=False),
        )
