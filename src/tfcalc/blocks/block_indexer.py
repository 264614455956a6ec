"""An indexer that chooses blocks of keys: the best score in a block is the block's."""

from typing import NamedTuple

from tfcalc.blocks.keeping import INDEX, by_token, keeping
from tfcalc.core.component import Component
from tfcalc.core.gradient import without_gradient
from tfcalc.core.number import Num
from tfcalc.leaves import linear, norm
from tfcalc.leaves.score import score
from tfcalc.workload import Sequences, Workload

BEST_OF_BLOCK = 1


class BlockIndexer(NamedTuple):
    """``n_heads`` queries of ``head_dim`` and one key for all, each with a norm; a head chooses for a group of heads.

    A choice has no gradient, so backward runs nothing of it.

    Source: transformers' MiniMaxM3VLIndexer.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num

    def __call__(self, name: str, stream: Sequences, run: Workload, *, causal: bool = True) -> Component:
        """The block on these sequences; as transformers runs it, it scores all of their tokens."""
        h, a, d, t = self.d_model, self.n_heads, self.head_dim, stream.tokens
        chooser = Component(
            name,
            "indexer",
            parts=(
                linear("q_proj", h, a * d, t, bias=False, letter="IQ"),
                linear("k_proj", h, d, t, bias=False, letter="IK"),
                norm("q_norm", "rmsnorm", d, t * a),
                norm("k_norm", "rmsnorm", d, t),
                keeping(
                    score(
                        "score",
                        a,
                        d,
                        run.pairs(stream, stream, causal=causal),
                        weighted=False,
                        operations=BEST_OF_BLOCK,
                    ),
                    *by_token(stream, stream, 1, {INDEX: d}, causal=causal),
                ),
            ),
        )
        return without_gradient(chooser)
