"""Mamba-2's mixer: a state-space model with heads, as linear attention has them."""

from typing import NamedTuple

from tfcalc.blocks.recurrence import convolved, states
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.ops.keeping import FP32, STATE, by_sequence, keeping
from tfcalc.ops.recurrences import state_space
from tfcalc.workload import Sequences


class Mamba2(NamedTuple):
    """``n_heads`` states of ``d_state`` × ``head_dim``, each decayed by one number; the heads of a group share B and C.

    One matrix makes gate, input, B, C and time step; a short convolution mixes input, B and C. ``gated_norm``: a norm
    of the output together with its gate. The state is carried over ``chunk`` tokens at a
    time. ``bias`` is that of both matrices, unless ``output_bias`` says otherwise.

    Source: Dao and Gu 2024 (arXiv 2405.21060), section 7; transformers' Mamba2Mixer.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    d_inner: Num
    d_state: Num
    n_groups: Num
    kernel: Num
    activation: str
    chunk: Num
    bias: bool = False
    conv_bias: bool = True
    gated_norm: bool = True
    output_bias: bool | None = None

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, heads, inner, t = self.d_model, self.n_heads, self.d_inner, stream.tokens
        mixed = inner + 2 * self.n_groups * self.d_state
        output_bias = self.bias if self.output_bias is None else self.output_bias
        return Component(
            name,
            "ssm",
            parts=(
                linear("in_proj", h, inner + mixed + heads, t, bias=self.bias, letter="in"),
                convolved("conv1d", mixed, self.kernel, stream, bias=self.conv_bias),
                activation("activation", self.activation, t * mixed),
                parameter("dt_bias", heads, minor=True),
                activation("time_step", "softplus", t * heads),
                parameter("A_log", heads, minor=True),
                keeping(
                    state_space("scan", states(stream, heads, self.d_state, self.head_dim), self.chunk),
                    *by_sequence(stream, STATE, heads, self.d_state * self.head_dim, FP32),
                ),
                parameter("D", heads, minor=True),
                activation("gate", "silu", t * inner),
                *([norm("norm", "rmsnorm", inner, t)] if self.gated_norm else []),
                linear("out_proj", inner, h, t, bias=output_bias, letter="out"),
            ),
        )
