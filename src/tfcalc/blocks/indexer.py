"""The lightning indexer: a small attention that chooses which keys the real one reads."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.gradient import without_gradient
from tfcalc.core.number import Num
from tfcalc.leaves import linear, norm
from tfcalc.ops.keeping import INDEX, by_token, keeping
from tfcalc.ops.scores import score
from tfcalc.workload import Sequences, Workload


class Indexer(NamedTuple):
    """``n_heads`` queries of ``head_dim`` from the query's latent vector, one key for all, a weight for each head.

    The key is normalised with a bias, unlike everything else in the model. A choice has no gradient, so backward runs
    nothing of it: what trains an indexer is a loss of its own. ``key_bits`` are those of a cached key's number, where
    they are not the model's.

    Source: DeepSeek-V3.2 (arXiv 2512.02556), section 2.1; transformers' DeepseekV32Indexer.
    """

    d_model: Num
    q_rank: Num
    n_heads: Num
    head_dim: Num
    key_bits: int | None = None

    def __call__(self, name: str, stream: Sequences, run: Workload, *, causal: bool = True) -> Component:
        """The block on these sequences; as transformers runs it, it scores all of their tokens."""
        t = stream.tokens
        chooser = Component(
            name,
            "indexer",
            parts=(
                linear("wq_b", self.q_rank, self.n_heads * self.head_dim, t, bias=False, letter="IQ"),
                linear("wk", self.d_model, self.head_dim, t, bias=False, letter="IK"),
                norm("k_norm", "layernorm", self.head_dim, t),
                linear("weights_proj", self.d_model, self.n_heads, t, bias=False, letter="Iw"),
                keeping(
                    score("score", self.n_heads, self.head_dim, run.pairs(stream, stream, causal=causal)),
                    *by_token(stream, stream, 1, {INDEX: self.head_dim}, causal=causal, bits=self.key_bits),
                ),
            ),
        )
        return without_gradient(chooser)
