"""Attention within windows of an image, with a trained bias for each relative position."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, floor_div
from tfcalc.leaves import attend, linear, parameter
from tfcalc.workload import Sequences, Workload

NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")


class WindowAttention(NamedTuple):
    """Patches see only those of their own window: ``window`` × ``window`` of them.

    A table of (2w − 1)² rows has a bias for each head and each way in which two patches of a window can lie to each
    other. ``bias`` is that of queries, keys and values; the output always has one.

    Source: Liu et al. 2021 (Swin, arXiv 2103.14030), section 3.2; transformers' SwinAttention.
    """

    d_model: Num
    n_heads: int
    window: Num
    bias: bool

    def __call__(self, name: str, windows: Sequences, run: Workload) -> Component:
        """The block on these ``windows``, each a sequence of its own."""
        h, t, side = self.d_model, windows.tokens, 2 * self.window - 1
        head_dim = floor_div(h, self.n_heads)
        return Component(
            name,
            "attention",
            parts=(
                *(linear(part, h, h, t, bias=self.bias, letter=part[0].upper()) for part in NAMES[:3]),
                parameter("relative_position_bias.relative_position_bias_table", side * side, self.n_heads),
                attend(
                    "attend",
                    self.n_heads,
                    head_dim,
                    head_dim,
                    run.pairs(windows, windows, causal=False),
                ),
                linear(NAMES[3], h, h, t, letter="O"),
            ),
        )
