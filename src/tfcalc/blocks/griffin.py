"""Griffin's recurrent block: a gated linear recurrence of each channel."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.keeping import FP32, STATE, by_sequence, keeping
from tfcalc.blocks.recurrence import convolved
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, parameter
from tfcalc.leaves.scan import gated_sum
from tfcalc.workload import Sequences


class RecurrentBlock(NamedTuple):
    """Two branches of ``width``: one through a convolution and the RG-LRU, one through an activation that gates it.

    The RG-LRU's two gates are block-diagonal: ``n_blocks`` matrices of ``block_width`` × ``block_width`` each.

    Source: De et al. 2024 (Griffin, arXiv 2402.19427), sections 2.3, 2.4; transformers' RecurrentGemmaRecurrentBlock.
    """

    d_model: Num
    width: Num
    n_blocks: Num
    block_width: Num
    kernel: Num
    activation: str

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, w, t = self.d_model, self.width, stream.tokens
        return Component(
            name,
            "ssm",
            parts=(
                linear("linear_y", h, w, t, letter="y"),
                activation("activation", self.activation, t * w),
                linear("linear_x", h, w, t, letter="x"),
                convolved("conv_1d", w, self.kernel, stream, bias=True, summed=True),
                Component("rg_lru", "scan", parts=tuple(self._recurrence(stream))),
                linear("linear_out", w, h, t, letter="out"),
            ),
        )

    def _recurrence(self, stream: Sequences) -> Iterator[Component]:
        tokens = stream.tokens
        yield parameter("recurrent_param", self.width, minor=True)
        for gate in ("input_gate", "recurrent_gate"):
            yield linear(gate, self.block_width, self.block_width, tokens)._replace(copies=self.n_blocks)
            yield activation(f"{gate}_sigmoid", "sigmoid", tokens * self.width)
        # a = exp(-8·softplus(Λ)·r), then a·h + √(1 - a²)·(i·x)
        summed = gated_sum("recurrence", "a·h + √(1−a²)·i·x", tokens * self.width)
        yield keeping(summed, *by_sequence(stream, STATE, self.width, 1, FP32))
