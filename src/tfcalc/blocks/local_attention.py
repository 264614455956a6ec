"""Attention to what is near, and to summaries of what is not."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.leaves import attend, linear, norm
from tfcalc.leaves.pool import pool
from tfcalc.workload import Sequences, Workload


class LocalAttention(NamedTuple):
    """A token sees its block of ``block`` tokens, and the blocks before and after it.

    With ``summarised``, it also sees a normed sum of each so many tokens, whose keys and values the same maps make.

    Source: Guo et al. 2021 (arXiv 2112.07916), section 3.1; transformers' LongT5TransientGlobalAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    block: int
    names: tuple[str, str, str, str]
    summarised: int | None = None

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences, the last block of each filled up."""
        h, a, d, t = self.d_model, self.n_heads, self.head_dim, stream.tokens
        summaries = 0 if self.summarised is None else floor_div(stream.length, self.summarised)
        sources = t + stream.batch * summaries
        queries = Sequences(stream.batch, ceil_div(stream.length, self.block) * self.block)
        keys = Sequences(stream.batch, 3 * self.block + summaries)
        return Component(
            name,
            "attention",
            parts=(
                linear(self.names[0], h, a * d, t, bias=False, letter="Q"),
                *(linear(self.names[place], h, a * d, sources, bias=False, letter="QKV"[place]) for place in (1, 2)),
                *self._summarised(stream, summaries),
                attend(
                    "attend",
                    a,
                    d,
                    d,
                    run.pairs(queries, keys, causal=False),
                ),
                linear(self.names[3], a * d, h, t, bias=False, letter="O"),
            ),
        )

    def _summarised(self, stream: Sequences, summaries: Num) -> Iterator[Component]:
        if self.summarised is not None:
            yield pool("global_inputs", stream.batch, stream.length, summaries, self.d_model)
            yield norm("global_input_layer_norm", "rmsnorm", self.d_model, stream.batch * summaries)
