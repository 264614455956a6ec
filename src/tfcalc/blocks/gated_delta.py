"""Gated delta networks: linear attention that corrects what its state holds, and forgets."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.keeping import FP32, STATE, by_sequence, keeping
from tfcalc.blocks.recurrence import convolved, states
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.leaves.linear_attention import delta_rule
from tfcalc.workload import Sequences

FUSED = ("in_proj_qkvz", "in_proj_ba")
SPLIT = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")


class GatedDeltaNet(NamedTuple):
    """``value_heads`` states of ``key_dim`` × ``value_dim``; the ``key_heads`` are shared evenly among them.

    Queries, keys and values pass a short convolution. A head writes with strength β and decays by
    exp(−exp(A)·softplus(a + dt)); a norm of each head's output is gated by z. ``names`` are those of two matrices (one
    for all wide projections, one for β and a), or of four; ``after`` are those of the norm and of the output.

    Source: Yang et al. 2024 (arXiv 2412.06464), section 3; transformers' Qwen3NextGatedDeltaNet, Qwen3_5GatedDeltaNet.
    """

    d_model: Num
    key_heads: Num
    value_heads: Num
    key_dim: Num
    value_dim: Num
    kernel: Num
    activation: str
    names: tuple[str, ...] = FUSED
    after: tuple[str, str] = ("norm", "out_proj")

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        heads, t = self.value_heads, stream.tokens
        values = heads * self.value_dim
        keys = self.key_heads * self.key_dim
        mixed = 2 * keys + values
        return Component(
            name,
            "ssm",
            parts=(
                *self._projections(keys, values, t),
                convolved("conv1d", mixed, self.kernel, stream, bias=False),
                activation("activation", self.activation, t * mixed),
                parameter("dt_bias", heads, minor=True),
                activation("time_step", "softplus", t * heads),
                parameter("A_log", heads, minor=True),
                keeping(
                    delta_rule("scan", states(stream, heads, self.key_dim, self.value_dim)),
                    *by_sequence(stream, STATE, heads, self.key_dim * self.value_dim, FP32),
                ),
                norm(self.after[0], "rmsnorm", self.value_dim, t * heads),
                activation("gate", "silu", t * values),
                linear(self.after[1], values, self.d_model, t, bias=False, letter="O"),
            ),
        )

    def _projections(self, keys: Num, values: Num, tokens: Num) -> Iterator[Component]:
        heads = self.value_heads
        widths: dict[int, tuple[Num, ...]] = {
            2: (2 * keys + 2 * values, 2 * heads),
            4: (2 * keys + values, values, heads, heads),
        }
        for name, width in zip(self.names, widths[len(self.names)], strict=True):
            yield linear(name, self.d_model, width, tokens, bias=False)
