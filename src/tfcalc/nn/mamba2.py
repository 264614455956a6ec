"""Mamba-2's mixer: a state-space model with heads, as linear attention has them."""

from __future__ import annotations

from tfcalc.core.number import Num, divide
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, mul
from tfcalc.ops.keeping import FP32, STATE, by_sequence
from tfcalc.ops.recurrences import States, state_space
from tfcalc.ops.rows import norm
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class GroupedNorm(Norm):
    """A norm of each of so many ``groups`` of a row by itself, with a weight for the whole row."""

    groups: Num = 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each row."""
        (weight,) = self.weights(x.trace)

        def code() -> Tensor:
            groups = reshape(x, *x.shape[:-1], self.groups, divide(self.width, self.groups))
            return mul(reshape(ctx.backend.norm(self, groups, None, None), *x.shape), weight)

        return norm(self.form, x, weight, None, code)


class Mamba2(Module):
    """``heads`` states of ``states`` × ``head_dim``, each decayed by one number; the heads of a group share B and C.

    One matrix makes gate, input, B, C and time step; a short convolution mixes input, B and C. A ``norm`` of the output
    together with its gate may follow, of each group by itself, or before the gate (``gate_last``). States are carried
    over ``chunk`` tokens at a time.

    Source: Dao and Gu 2024 (arXiv 2405.21060), section 7; transformers' Mamba2Mixer.
    """

    kind = "ssm"
    loops = True

    in_proj: Linear
    conv1d: ShortConvolution
    activation: str
    dt_bias: Stored
    A_log: Stored
    D: Stored
    norm: tuple[Norm, ...]
    out_proj: Linear
    heads: Num
    head_dim: Num
    states: Num
    groups: Num
    chunk: Num
    gate_last: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        trace, channels, shared = x.trace, self.out_proj.fan_in, self.groups * self.states
        gate, mixed, step = split(self._projected(x), [channels, self.conv1d.channels, self.heads])
        made = self.conv1d(trace.to(transpose(mixed, 1, 2), trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
        inner, b, c = split(transpose(trace.to(made, mixed.dtype), 1, 2), [channels, shared, shared])
        made = reshape(self._scanned(inner, b, c, step, ctx), *x.shape[:2], channels)
        return self.out_proj(trace.to(self._gated(made, gate, ctx), x.dtype))

    def _projected(self, x: Tensor) -> Tensor:
        return self.in_proj(x)

    def _scanned(self, x: Tensor, b: Tensor, c: Tensor, step: Tensor, ctx: Context) -> Tensor:
        """The recurrence; in the tree with the softplus of the time step."""
        stream, heads, rows = ctx.stream, self.heads, x.shape[:2]
        if not x.trace.lowers:
            activation("softplus", step, lambda: step, "time_step")
        states = States(stream.batch, stream.length, heads, self.states, self.head_dim, step=stream.cached is not None)
        x = reshape(x, *rows, heads, self.head_dim)
        b, c = (reshape(each, *rows, self.groups, self.states) for each in (b, c))
        cached = by_sequence(stream, STATE, heads, self.states * self.head_dim, FP32)
        formula = state_space("scan", states, self.chunk)
        return recurrence(formula, x, x.shape, lambda: ctx.backend.scan(self, ctx, x, b, c, step), cached=cached)

    def _gated(self, x: Tensor, gate: Tensor, ctx: Context) -> Tensor:
        """``norm(x · silu(gate))`` in fp32, or without a norm in the format that they have."""
        trace = x.trace
        if self.norm:
            x, gate = trace.to(x, "float32"), trace.to(gate, "float32")
        gate = ctx.activation("silu", gate, "gate")
        x = x if self.gate_last else mul(x, gate)
        for each in self.norm:
            x = each(x, ctx)
        return mul(x, gate) if self.gate_last else x
