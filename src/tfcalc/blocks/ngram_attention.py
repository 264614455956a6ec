"""ProphetNet's self-attention: each token foresees several that follow it, each in a stream of its own."""

from typing import NamedTuple

from tfcalc.blocks.keeping import by_token, keeping
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs
from tfcalc.leaves import attend, linear
from tfcalc.workload import Sequences, Workload

NAMES = ("query_proj", "key_proj", "value_proj", "out_proj")


class NgramAttention(NamedTuple):
    """The main stream reads itself; each of ``ngram`` further streams reads the main one and itself.

    A map of each token gives its own bias for each of ``buckets`` distances, for each head.

    Source: Qi et al. 2020 (ProphetNet, arXiv 2001.04063), section 3.2; transformers' ProphetNetNgramSelfAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    ngram: Num
    buckets: Num

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block, where the main stream is ``stream``."""
        h, ahead, read = self.d_model, stream.tokens * self.ngram, stream.seen + stream.length
        tokens = stream.tokens + ahead
        return Component(
            name,
            "attention",
            parts=(
                *(linear(part, h, h, tokens, letter=part[0].upper()) for part in NAMES[:3]),
                linear("relative_pos_embeddings", h, self.buckets * self.n_heads, tokens, letter="rel"),
                keeping(
                    self._attend("attend", run.pairs(stream, stream, causal=True)),
                    *by_token(stream, stream, self.n_heads, {"K": self.head_dim, "V": self.head_dim}),
                ),
                self._attend("attend_ahead", Pairs((2, ahead, read), ahead * read, run.fused)),
                linear(NAMES[3], h, h, tokens, letter="O"),
            ),
        )

    def _attend(self, name: str, pairs: Pairs) -> Component:
        return attend(name, self.n_heads, self.head_dim, self.head_dim, pairs)
