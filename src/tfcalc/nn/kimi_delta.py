"""Kimi Delta Attention: a gated delta network that forgets each channel of its keys at a rate of its own."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, mul, pointwise
from tfcalc.ops.keeping import FP32, STATE, by_sequence
from tfcalc.ops.linear_attention import delta_rule
from tfcalc.ops.recurrences import States
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import cat, reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class ForgetGate(Module):
    """``−exp(A)·softplus(f + dt)`` for each channel, with f through a vector of low rank where there are two ``maps``.

    Whose ``code`` it is decides on what is kept: one writes softplus out in fp32, another calls a kernel and goes back
    to its own format. It may use a sigmoid (``bounded``), so that nothing is forgotten faster than a bound.
    """

    kind = "gate"

    maps: tuple[Linear, ...]
    dt_bias: Stored
    A_log: Stored
    heads: Num
    head_dim: Num
    written_out: bool = True
    bounded: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × heads × width."""
        made = mapped(self.maps, x)
        made = activation("softplus", made, lambda: ctx.backend.scan(self, ctx, made), "softplus")
        return reshape(made, *x.shape[:2], self.heads, self.head_dim)


class KimiDelta(Module):
    """``heads`` states of ``head_dim`` × ``head_dim``; queries, keys and values pass a short convolution.

    A norm of each head's output is gated, by what one map makes, or two through a vector of low rank (``gates``).

    Source: Kimi Linear (arXiv 2510.26692), section 3; transformers' KimiLinearDeltaAttention.
    """

    kind = "ssm"
    loops = True

    mixed: tuple[Linear, ...]
    conv1d: ShortConvolution
    activation: str
    forget_gate: ForgetGate
    strength: Linear
    norm: Norm
    gates: tuple[Linear, ...]
    output: Linear
    heads: Num
    head_dim: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        trace, rows, width = x.trace, x.shape[:2], self.heads * self.head_dim
        mixed = self._convolved(transpose(cat([each(x) for each in self.mixed]), 1, 2), ctx)
        q, k, v = (reshape(each, *rows, self.heads, self.head_dim) for each in split(mixed, [width] * 3))
        decay, strength = self.forget_gate(x, ctx), self.strength(x)
        made = trace.to(self._mixed(q, k, v, strength, decay, ctx), "float32")
        gate = reshape(mapped(self.gates, x), *made.shape)
        made = self.norm(made, ctx)
        gate = trace.to(gate, "float32")
        gate = activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate")
        return self.output(reshape(trace.to(mul(made, gate), q.dtype), *rows, width))

    def _convolved(self, x: Tensor, ctx: Context) -> Tensor:
        made = self.conv1d(x.trace.to(x, x.trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
        return transpose(x.trace.to(made, x.dtype), 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, strength: Tensor, decay: Tensor, ctx: Context) -> Tensor:
        stream, a, d = ctx.stream, self.heads, self.head_dim
        states = States(stream.batch, stream.length, a, d, d, step=stream.cached is not None)
        cached = by_sequence(stream, STATE, a, d * d, FP32)
        formula = delta_rule("scan", states, by_channel=True)
        code = lambda: ctx.backend.scan(self, ctx, q, k, v, strength, decay)  # noqa: E731  # too long for one line
        return recurrence(formula, v, v.shape, code, cached=cached)


def mapped(maps: tuple[Linear, ...], x: Tensor) -> Tensor:
    """One map after another."""
    for each in maps:
        x = each(x)
    return x
