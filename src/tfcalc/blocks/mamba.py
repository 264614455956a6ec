"""Mamba's mixer: a selective state-space model, each channel with a state of its own."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.recurrence import convolved
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.ops.keeping import FP32, STATE, by_sequence, keeping
from tfcalc.ops.recurrences import selective_scan
from tfcalc.workload import Sequences


class Mamba(NamedTuple):
    """``d_inner`` channels after a short convolution, each a recurrence over ``d_state`` numbers; a second half gates.

    The time step comes through a vector of ``rank``; with it B and C are made of the input (``x_proj``). ``norms``
    is the kind of norm of each of the three. With ``heads`` these matrices are block-diagonal.

    Source: Gu and Dao 2023 (arXiv 2312.00752), section 3.4; transformers' MambaMixer,
    JambaMambaMixer, ZambaMambaMixer.
    """

    d_model: Num
    d_inner: Num
    d_state: Num
    rank: Num
    kernel: Num
    activation: str
    bias: bool = False
    conv_bias: bool = True
    norms: str = ""
    heads: Num | None = None

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, inner, states, t = self.d_model, self.d_inner, self.d_state, stream.tokens
        return Component(
            name,
            "ssm",
            parts=(
                linear("in_proj", h, 2 * inner, t, bias=self.bias, letter="in"),
                convolved("conv1d", inner, self.kernel, stream, bias=self.conv_bias),
                activation("activation", self.activation, t * inner),
                *self._selection(t),
                activation("time_step", "softplus", t * inner),
                parameter("A_log", inner, states),
                keeping(selective_scan("scan", t, inner, states), *by_sequence(stream, STATE, inner, states, FP32)),
                parameter("D", inner, minor=True),
                activation("gate", "silu", t * inner),
                linear("out_proj", inner, h, t, bias=self.bias, letter="out"),
            ),
        )

    def _selection(self, tokens: Num) -> Iterator[Component]:
        heads = 1 if self.heads is None else self.heads
        width = self.d_inner if self.heads is None else divide(self.d_inner, heads)
        yield linear("x_proj", width, self.rank + 2 * self.d_state, tokens, bias=False, letter="x")._replace(
            copies=heads
        )
        yield from self._norms(tokens)
        yield linear("dt_proj", self.rank, width, tokens, letter="Δ")._replace(copies=heads)

    def _norms(self, tokens: Num) -> Iterator[Component]:
        if self.norms:
            yield norm("dt_layernorm", self.norms, self.rank, tokens)
            yield norm("b_layernorm", self.norms, self.d_state, tokens)
            yield norm("c_layernorm", self.norms, self.d_state, tokens)
