"""The matrix LSTM of xLSTM: linear attention with exponential gates."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.keeping import STATE, by_sequence, keeping
from tfcalc.blocks.recurrence import states
from tfcalc.core.component import Component
from tfcalc.core.cost import Cached
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, norm
from tfcalc.leaves.linear_attention import matrix_memory
from tfcalc.workload import Sequences


class MatrixLSTM(NamedTuple):
    """``n_heads`` states of ``key_dim`` × ``value_dim`` with a normaliser each; ``keys`` and ``values`` wide in all.

    A head's input and forget gates are numbers made of the token, always with a bias; a norm of each head's output is
    gated. ``fused``: one matrix for all wide projections, one for both gates. Sequences run by chunks of
    ``chunk`` tokens, and the rest of them one by one.

    Source: Beck et al. 2025 (xLSTM 7B, arXiv 2503.13427), section 3; transformers' xLSTMLayer.
    """

    d_model: Num
    n_heads: Num
    keys: Num
    values: Num
    key_dim: Num
    value_dim: Num
    chunk: Num
    bias: bool = False
    fused: bool = False

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        t, values, bias = stream.tokens, self.values, self.bias
        memory = states(stream, self.n_heads, self.key_dim, self.value_dim)
        return Component(
            name,
            "ssm",
            parts=(
                *self._projections(t),
                keeping(matrix_memory("mlstm_backend", memory, self.chunk), *self._kept(stream)),
                norm("multihead_norm", "layernorm" if bias else "layernorm-no-bias", values, t),
                activation("ogate", "sigmoid", t * values),
                linear("out_proj", values, self.d_model, t, bias=bias, letter="O"),
            ),
        )

    def _kept(self, stream: Sequences) -> tuple[Cached, ...]:
        """Of each head the matrix, the vector that normalises it, and the largest gate so far."""
        memory, normaliser = self.key_dim * self.value_dim, self.key_dim
        return by_sequence(stream, STATE, self.n_heads, memory + normaliser + 1)

    def _projections(self, tokens: Num) -> Iterator[Component]:
        h, heads, keys, values = self.d_model, self.n_heads, self.keys, self.values
        if self.fused:
            yield linear("qkv_opreact", h, 2 * keys + 2 * values, tokens, bias=self.bias, letter="QKVO")
            yield linear("ifgate_preact", h, 2 * heads, tokens)
            return
        for name, width in (("q", keys), ("k", keys), ("v", values), ("ogate_preact", values)):
            yield linear(name, h, width, tokens, bias=self.bias)
        for name in ("igate_preact", "fgate_preact"):
            yield linear(name, h, heads, tokens)
