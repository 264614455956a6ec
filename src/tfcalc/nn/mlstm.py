"""The matrix LSTM of xLSTM: linear attention with exponential gates."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, add, mul, pointwise, scaled
from tfcalc.ops.keeping import STATE, by_sequence
from tfcalc.ops.linear_attention import matrix_memory
from tfcalc.ops.recurrences import States
from tfcalc.ops.rows import norm
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class HeadNorm(Norm):
    """A norm of each head by itself, with weights for all of them side by side."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × heads × d; of b × l × heads·d."""
        weight, bias, *_ = *self.weights(x.trace), None
        joined = *x.shape[:2], self.width

        def code() -> Tensor:
            made = mul(reshape(ctx.backend.norm(self, x, None, None), *joined), weight)
            return made if bias is None else add(made, bias)

        return norm(self.form, x if x.trace.lowers else reshape(x, *joined), weight, bias, code)


class MatrixLSTM(Module):
    """``heads`` states of ``key_dim`` × ``value_dim`` with a normaliser each.

    The ``wide`` maps make queries, keys, values and what gates the output; ``gates`` an input and a forget gate of each
    head. Each is as many maps, or one that makes all. The gates are kept under a cap by a tanh (``capped``). Sequences
    run by chunks of ``chunk`` tokens, and the rest of them one by one.

    Source: Beck et al. 2025 (xLSTM 7B, arXiv 2503.13427), section 3; transformers' xLSTMLayer.
    """

    kind = "ssm"
    loops = True

    wide: tuple[Linear, ...]
    gates: tuple[Linear, ...]
    norm: HeadNorm
    output: Linear
    heads: Num
    key_dim: Num
    value_dim: Num
    chunk: Num
    capped: bool = True

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        stream, a, k, v = ctx.stream, self.heads, self.key_dim, self.value_dim
        query, key, value, opens = _apart([each(x) for each in self.wide], [a * k, a * k, a * v, a * v])
        gates = _apart([self._capped(each(x)) for each in self.gates], [a, a])
        wide = [
            transpose(reshape(each, *x.shape[:2], a, width), 1, 2)
            for each, width in zip((query, key, value), (k, k, v), strict=True)
        ]
        let_in, stays = (transpose(each, 1, 2) for each in gates)
        memory = States(stream.batch, stream.length, a, k, v, step=stream.cached is not None)
        made = recurrence(
            matrix_memory("mlstm_backend", memory, self.chunk),
            wide[2],
            wide[2].shape,
            lambda: ctx.backend.scan(self, ctx, *wide, let_in, stays),
            cached=by_sequence(stream, STATE, a, k * v + k + 1),  # with the normaliser, and the largest gate so far
        )
        made = self.norm(transpose(made, 1, 2), ctx)
        return self.output(mul(activation("sigmoid", opens, lambda: pointwise("sigmoid", opens), "ogate"), made))

    def _capped(self, x: Tensor) -> Tensor:
        return scaled(pointwise("tanh", scaled(x, "div"))) if self.capped else x


def _apart(made: list[Tensor], widths: list[Num]) -> list[Tensor]:
    """What as many maps have made, or one."""
    return split(made[0], widths) if len(made) == 1 else made
