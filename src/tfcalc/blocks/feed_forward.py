"""The feed-forward network: two linear maps with an activation between them, or three with a gate."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, dropout, linear
from tfcalc.workload import Sequences, Workload

PLAIN = ("up", "down")
GATED = ("gate_proj", "up_proj", "down_proj")
FUSED = ("gate_up_proj", "down_proj")


class FeedForward(NamedTuple):
    """``activation(x W_1 + b_1) W_2 + b_2``, on each token by itself.

    ``gated``: ``(activation(x W_g) · x W_1) W_2``. ``names`` are those of the maps in the order in which they run: two,
    or three where the gate has its own; a gated network with two names makes gate and input by one matrix. ``bias`` is
    that of all of them, unless ``down_bias`` says otherwise.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), eq. 2; Shazeer 2020 (arXiv 2002.05202), eq. 6.
    """

    d_model: Num
    d_ff: Num
    activation: str
    bias: bool = False
    dropout: bool = False
    names: tuple[str, ...] = PLAIN
    gated: bool = False
    down_bias: bool | None = None
    within: tuple[Component, ...] = ()

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        inner = stream.tokens * self.d_ff
        drops = self.dropout and run.drops
        down_bias = self.bias if self.down_bias is None else self.down_bias
        return Component(
            name,
            "ffn",
            parts=(
                *self._inward(stream.tokens),
                activation("activation", self.activation, inner),
                *([dropout("activation_dropout", inner)] if drops else []),
                *self.within,
                linear(self.names[-1], self.d_ff, self.d_model, stream.tokens, bias=down_bias, letter="2"),
            ),
        )

    def _inward(self, tokens: Num) -> Iterator[Component]:
        if self.gated and len(self.names) == 2:
            yield linear(self.names[0], self.d_model, 2 * self.d_ff, tokens, bias=self.bias, letter="1")
            return
        for name, letter in zip(self.names[:-1], ("g", "1") if self.gated else ("1",), strict=True):
            yield linear(name, self.d_model, self.d_ff, tokens, bias=self.bias, letter=letter)
