"""Attention to the tokens on both sides of one, and to a few that everything sees, as Longformer has it."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product
from tfcalc.core.number import Num
from tfcalc.leaves import linear
from tfcalc.leaves.attend import SCALE, SOFTMAX
from tfcalc.workload import Sequences


class SlidingAttention(NamedTuple):
    """A token sees half a ``window`` of tokens on each side, and ``n_global`` tokens, which see everything.

    The sequence is cut into ``pieces`` of half a window each. Scores are those of two neighbouring pieces with both, so
    that what stands between two such pairs is computed twice; the values of a piece are mixed from three, the rest of
    whose scores is zero. Global tokens have projections of their own, which are stored where there are none, too.
    ``names`` are those of the projections of all tokens; those of the global ones follow from them.

    Source: Beltagy et al. 2020 (Longformer, arXiv 2004.05150), section 3.1; transformers' LongformerSelfAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    window: int
    n_global: int
    names: tuple[str, str, str, str] = ("self.query", "self.key", "self.value", "output.dense")

    def __call__(self, name: str, stream: Sequences, pieces: Num) -> Component:
        """The block on these sequences, filled up to whole windows."""
        h, tokens = self.d_model, stream.tokens
        asking, seen = (stream.batch * self.n_global, tokens if self.n_global else 0)
        *made, output = self.names
        shared = ((name, tokens) for name in made)
        marked = zip((f"{name}_global" for name in made), (asking, seen, seen), strict=True)
        return Component(
            name,
            "attention",
            parts=(
                *(linear(part, h, h, vectors) for part, vectors in (*shared, *marked)),
                self._nearby(stream, pieces),
                *self._marked(stream),
                linear(output, h, h, tokens, letter="O"),
            ),
        )

    def _nearby(self, stream: Sequences, pieces: Num) -> Component:
        half, a, d = self.window // 2, self.n_heads, self.head_dim
        both = (2, stream.batch, pieces - 1, self.window, self.window)
        scores = a * stream.tokens * (self.window + 1 + self.n_global)
        return Component(
            "attend",
            "attend",
            Cost(
                products=(
                    Product("Q Kᵀ", (*both, a, d)),
                    Product("P V", (2, stream.batch, pieces, half, 3 * half, a, d)),
                ),
                elementwise=(Elementwise("scale", scores, *SCALE), Elementwise("softmax", scores, *SOFTMAX)),
            ),
        )

    def _marked(self, stream: Sequences) -> Iterator[Component]:
        """To the global tokens, and from them."""
        if self.n_global:
            factors = (2, stream.tokens, self.n_global, self.n_heads, self.head_dim)
            for name in ("attend_global", "attend_from_global"):
                yield Component(name, "attend", Cost(products=(Product("Q Kᵀ", factors), Product("P V", factors))))
