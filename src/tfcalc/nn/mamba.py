"""Mamba's mixer: a selective state-space model, each channel with a state of its own."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.module import Module
from tfcalc.ops import recurrences
from tfcalc.ops.elementwise import activation
from tfcalc.ops.keeping import FP32, STATE, by_sequence
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import split, transpose
from tfcalc.tape.tensor import Tensor


class Mamba(Module):
    """Channels after a short convolution, each a recurrence over ``states`` numbers; a second half gates.

    The time step comes through a vector of ``rank``; with it B and C are made of the input (``x_proj``). Each of the
    three may have a norm.

    Source: Gu and Dao 2023 (arXiv 2312.00752), section 3.4; transformers' MambaMixer.
    """

    kind = "ssm"
    loops = True

    in_proj: Linear
    conv1d: ShortConvolution
    activation: str
    x_proj: Linear
    norms: tuple[Norm, ...]
    dt_proj: Linear
    A_log: Stored
    D: Stored
    out_proj: Linear
    rank: Num
    states: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        channels = self.conv1d.channels
        inner, gate = (transpose(each, 1, 2) for each in split(self.in_proj(x), [channels] * 2))
        inner = self._convolved(inner, ctx)
        made = self.x_proj(inner)
        step, b, c = split(made, [self.rank, self.states, self.states])
        if self.norms:
            step, b, c = (norm(each, ctx) for norm, each in zip(self.norms, (step, b, c), strict=True))
        if not x.trace.lowers:
            return self.out_proj(self._counted(inner, self.dt_proj(step), ctx))
        return self.out_proj(ctx.backend.scan(self, ctx, inner, gate, step, b, c))

    def _convolved(self, x: Tensor, ctx: Context) -> Tensor:
        """Token by token again, and activated, in the format that it was given in."""
        trace = x.trace
        made = self.conv1d(trace.to(x, trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
        return transpose(trace.to(made, x.dtype), 1, 2)

    def _counted(self, x: Tensor, step: Tensor, ctx: Context) -> Tensor:
        """Δ's softplus, the recurrence, and the gate."""
        channels, states = self.conv1d.channels, self.states
        activation("softplus", step, lambda: step, name="time_step")
        cached = by_sequence(ctx.stream, STATE, channels, states, FP32)
        formula = recurrences.selective_scan("scan", x.rows, channels, states)
        made = recurrence(formula, x, x.shape, lambda: x, cached=cached)
        return activation("silu", made, lambda: made, name="gate")
