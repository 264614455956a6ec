"""Gated delta networks: linear attention that corrects what its state holds, and forgets."""

from __future__ import annotations

from tfcalc.blocks.keeping import FP32, STATE, by_sequence
from tfcalc.core.number import Num
from tfcalc.leaves.linear_attention import delta_rule
from tfcalc.leaves.scan import States
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, mul
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import cat, reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class GatedDeltaNet(Module):
    """``value_heads`` states of ``key_dim`` × ``value_dim``; the ``key_heads`` are shared evenly among them.

    Queries, keys and values, ``mixed`` by one map or by three, pass a short convolution. A head writes with strength β
    and decays by exp(−exp(A)·softplus(a + dt)), of which ``strengths`` are the maps; a norm of each head's output is
    gated.

    Source: Yang et al. 2024 (arXiv 2412.06464), section 3; transformers' Qwen3_5GatedDeltaNet, OlmoHybridGatedDeltaNet.
    """

    kind = "ssm"
    loops = True

    mixed: tuple[Linear, ...]
    gate: Linear
    strengths: tuple[Linear, ...]
    conv1d: ShortConvolution
    activation: str
    dt_bias: Stored
    A_log: Stored
    norm: Norm
    output: Linear
    key_heads: Num
    value_heads: Num
    key_dim: Num
    value_dim: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        keys, heads, width = self.key_heads, self.value_heads, self.value_dim
        rows = x.shape[:2]
        maps = [each(x) for each in self.mixed]
        mixed = self._convolved(transpose(maps[0] if len(maps) == 1 else cat(maps), 1, 2), ctx)
        wide = split(mixed, [keys * self.key_dim, keys * self.key_dim, heads * width])
        shapes = ((keys, self.key_dim), (keys, self.key_dim), (heads, width))
        q, k, v = (reshape(each, *rows, *shape) for each, shape in zip(wide, shapes, strict=True))
        strength, decay = (each(x) for each in self.strengths)
        made = self._mixed(q, k, v, strength, decay, ctx)
        made = self.norm(reshape(made, x.rows * heads, width), ctx)
        return self.output(reshape(self._gated(made, x, ctx), *rows, heads * width))

    def _convolved(self, x: Tensor, ctx: Context) -> Tensor:
        made = self.conv1d(x.trace.to(x, x.trace.weights_format), ctx)
        made = activation(self.activation, made, lambda: ctx.backend.activation(self.activation, made))
        return transpose(x.trace.to(made, x.dtype), 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, strength: Tensor, decay: Tensor, ctx: Context) -> Tensor:
        """The delta rule; in the tree with the softplus of the decay."""
        stream, heads = ctx.stream, self.value_heads
        if not q.trace.lowers:
            activation("softplus", decay, lambda: decay, "time_step")
        step = stream.cached is not None
        states = States(stream.batch, stream.length, heads, self.key_dim, self.value_dim, step=step)
        cached = by_sequence(stream, STATE, heads, self.key_dim * self.value_dim, FP32)
        code = lambda: ctx.backend.scan(self, ctx, q, k, v, strength, decay)  # noqa: E731  # too long for one line
        return recurrence(delta_rule("scan", states), v, v.shape, code, cached=cached)

    def _gated(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """In fp32, and then in the format of the norm."""
        trace, given = x.trace, x.dtype
        gate = trace.to(reshape(self.gate(x), *made.shape), "float32")
        gate = activation("silu", gate, lambda: ctx.backend.activation("silu", gate), "gate")
        return trace.to(mul(made, gate), given)
