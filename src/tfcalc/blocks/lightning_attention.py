"""Lightning attention: linear attention whose heads forget at fixed rates, computed by blocks."""

from typing import NamedTuple

from tfcalc.blocks.keeping import STATE, by_sequence, keeping
from tfcalc.blocks.recurrence import states
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, buffer, linear, norm
from tfcalc.leaves.linear_attention import lightning
from tfcalc.workload import Sequences


class LightningAttention(NamedTuple):
    """``n_heads`` states of ``head_dim`` × ``head_dim``, each with a query, key and value of its own.

    One matrix and an ``activation`` make queries, keys and values; a norm of the whole output is gated by a sigmoid of
    the input. A head's decay is fixed by its own and the layer's place, and stored for each pair of places in a
    ``block``.

    Source: MiniMax-01 (arXiv 2501.08313), section 2.2; transformers' MiniMaxLightningAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    activation: str
    block: Num

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, a, t = self.d_model, self.n_heads, stream.tokens
        width = a * self.head_dim
        return Component(
            name,
            "ssm",
            parts=(
                linear("qkv_proj", h, 3 * width, t, bias=False, letter="QKV"),
                activation("activation", self.activation, t * 3 * width),
                *(buffer(key, *shape) for key, shape in self._decays().items()),
                keeping(
                    lightning("scan", states(stream, a, self.head_dim, self.head_dim), self.block),
                    *by_sequence(stream, STATE, a, self.head_dim * self.head_dim),
                ),
                norm("norm", "rmsnorm", width, t),
                linear("output_gate", h, width, t, bias=False, letter="gate"),
                activation("gate", "sigmoid", t * width),
                linear("out_proj", width, h, t, bias=False, letter="O"),
            ),
        )

    def _decays(self) -> dict[str, tuple[Num, ...]]:
        a, block = self.n_heads, self.block
        return {
            "slope_rate": (a,),
            "query_decay": (a, block),
            "key_decay": (a, block),
            "diagonal_decay": (a, block, block),
        }
