"""Mamba's mixer with heads: each makes time step, B and C of its own channels alone."""

from __future__ import annotations

from tfcalc.core.number import Num, divide
from tfcalc.nn.basic import BlockDiagonal
from tfcalc.nn.context import Context
from tfcalc.nn.mamba import Mamba
from tfcalc.ops.products import linear, matmul
from tfcalc.ops.shapes import contiguous, expand, narrow, reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class MapOfHeads(BlockDiagonal):
    """A map of each head's channels by a matrix of its own; a bias, if there is one, is added by whoever asks."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of heads × b × i × l; where operations are counted, of one head's b × l × i, and with the bias."""
        weight, *bias = self.held().weights
        if not x.trace.lowers:
            return linear(x, x.trace.weight(weight), *(x.trace.weight(each) for each in bias), letter=self.letter)
        stored = reshape(x.trace.weight(weight, self.blocks), self.blocks, 1, self.fan_out, self.fan_in)
        return matmul(expand(x.trace.lower(stored), self.blocks, x.shape[1], *stored.shape[2:]), x)


class MambaOfHeads(Mamba):
    """Channels are split among so many ``heads``.

    Source: Glorioso et al. 2024 (Zamba, arXiv 2405.16712); transformers' ZambaMambaMixer.
    """

    heads: Num = 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        channels, (b, l, _) = self.conv1d.channels, x.shape
        width = divide(channels, self.heads)
        if not x.trace.lowers:
            inner, _ = split(self.in_proj(x), [channels] * 2)
            inner = self._convolved(transpose(inner, 1, 2), ctx)
            made = self.x_proj(narrow(inner, width, 2))
            self.dt_proj(split(made, [self.rank, self.states, self.states])[0])
            return self.out_proj(self._counted(inner, inner, ctx))
        inner, gate = self._halves(transpose(self.in_proj(x), 1, 2))
        inner = transpose(self._convolved(contiguous(inner), ctx), 1, 2)
        inner, gate = (transpose(reshape(each, b, self.heads, width, l), 0, 1) for each in (inner, gate))
        made = transpose(self.x_proj(inner), 2, 3)
        step, *shared = split(made, [self.rank, self.states, self.states])
        step = self.dt_proj(transpose(step, 2, 3))
        return self.out_proj(ctx.backend.scan(self, ctx, inner, gate, step, *shared))

    def _halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Channel by channel, of b × 2c × l."""
        b, _, l = x.shape
        channels = self.conv1d.channels
        inner, gate = split(reshape(x, b, channels, 2, l), [1, 1], 2)
        return _squeezed(inner), _squeezed(gate)


def _squeezed(x: Tensor) -> Tensor:
    b, channels, _, l = x.shape
    strides = None if x.strides is None else (*x.strides[:2], x.strides[3])
    return x.trace.view(x, (b, channels, l), strides)
