"""Attention within blocks of a sequence, and to and from a few global tokens."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.gradient import reached
from tfcalc.core.number import Num
from tfcalc.core.sharing import without_weights
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

    def __call__(self, name: str, length: Num, run: Workload, *, read: bool = True) -> Component:
        """The block on sequences of ``length``, whole blocks each.

        What the global tokens become may not be ``read``; then they serve as keys and values only, and no gradient
        reaches the rest of them.
        """
        tokens, marked = run.beside(length), run.beside(self.n_global)
        near, everything = run.beside(self.block + self.n_global), run.beside(length + self.n_global)
        query, key, value, output = self.names
        return Component(
            name,
            "attention",
            parts=(
                self._map(query, "Q", tokens),
                reached(without_weights(self._map(f"{query}[global]", "Q", marked)), int(read)),
                self._map(key, "K", everything),
                self._map(value, "V", everything),
                self._attend("attend_local", tokens, near, run),
                reached(self._attend("attend_global", marked, everything, run), int(read)),
                self._map(output, "O", tokens),
                reached(without_weights(self._map(f"{output}[global]", "O", marked)), int(read)),
            ),
        )

    def _map(self, name: str, letter: str, stream: Sequences) -> Component:
        inner = self.n_heads * self.head_dim
        ends = (inner, self.d_model) if letter == "O" else (self.d_model, inner)
        return linear(name, *ends, stream.tokens, bias=False, letter=letter)

    def _attend(self, name: str, queries: Sequences, keys: Sequences, run: Workload) -> Component:
        return attend(name, self.n_heads, self.head_dim, self.head_dim, run.pairs(queries, keys, causal=False))
