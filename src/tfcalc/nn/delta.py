"""Gated delta networks: linear attention that corrects what its state holds, and forgets."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.number import Num, divide
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, mul
from tfcalc.ops.keeping import FP32, STATE, by_sequence
from tfcalc.ops.linear_attention import delta_rule
from tfcalc.ops.recurrences import States
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
    gate: Linear | None
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
        maps = [each(x) for each in self.mixed]
        q, k, v = self._heads(maps[0] if len(maps) == 1 else cat(maps), ctx)
        strength, decay = (each(x) for each in self.strengths)
        gate = self.gate
        assert gate is not None
        return self._normed(self._mixed(q, k, v, strength, decay, ctx), lambda: gate(x), ctx)

    def _heads(self, mixed: Tensor, ctx: Context) -> list[Tensor]:
        """Queries, keys and values, head by head, after the convolution."""
        keys, width = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        shapes = ((self.key_heads, self.key_dim),) * 2 + ((self.value_heads, self.value_dim),)
        wide = split(self._convolved(transpose(mixed, 1, 2), ctx), [keys, keys, width])
        return [reshape(each, *mixed.shape[:2], *shape) for each, shape in zip(wide, shapes, strict=True)]

    def _normed(self, made: Tensor, gate: Callable[[], Tensor], ctx: Context) -> Tensor:
        """Head by head, gated, and mapped back."""
        rows, heads, width = made.shape[:2], self.value_heads, self.value_dim
        made = self.norm(reshape(made, made.rows, width), ctx)
        return self.output(reshape(self._gated(made, gate, ctx), *rows, heads * width))

    def _convolved(self, x: Tensor, ctx: Context) -> Tensor:
        made = self.conv1d(x.trace.to(x, x.trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
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

    def _gated(self, made: Tensor, opens: Callable[[], Tensor], ctx: Context) -> Tensor:
        """In fp32, and then in the format of the norm."""
        trace, given = made.trace, made.dtype
        gate = trace.to(reshape(opens(), *made.shape), "float32")
        gate = ctx.activation("silu", gate, "gate")
        return trace.to(mul(made, gate), given)


class JointDeltaNet(GatedDeltaNet):
    """One map makes queries, keys, values and gates, another strengths and decays: key head by key head.

    Source: transformers' Qwen3NextGatedDeltaNet.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        keys, heads, rows = self.key_heads, self.value_heads, x.shape[:2]
        each = divide(heads, keys)
        wide, narrow = (made(x) for made in self.mixed)
        wide = reshape(wide, *rows, keys, 2 * self.key_dim + 2 * each * self.value_dim)
        q, k, v, gate = split(wide, [self.key_dim, self.key_dim, each * self.value_dim, each * self.value_dim])
        strength, decay = split(reshape(narrow, *rows, keys, 2 * each), [each, each])
        v, gate = (reshape(part, *rows, heads, self.value_dim) for part in (v, gate))
        strength, decay = (reshape(part, *rows, heads) for part in (strength, decay))
        q, k = (reshape(part, *rows, keys * self.key_dim) for part in (q, k))
        v = reshape(v, *rows, heads * self.value_dim)
        q, k, v = self._heads(cat([q, k, v]), ctx)
        return self._normed(self._mixed(q, k, v, strength, decay, ctx), lambda: gate, ctx)
