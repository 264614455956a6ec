"""Hyper-connections: a residual stream that is several vectors wide."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import linear, parameter
from tfcalc.leaves.mixing import mixing
from tfcalc.workload import Sequences


class HyperConnection(NamedTuple):
    """``streams`` residual vectors: how a sub-layer reads and writes each, and how they mix, depends on all of them.

    A linear map of all streams makes n weights to read, n to write and n·n to mix, each with an offset; three scales.
    Streams that do not mix (``mixes``) have no n·n and two scales. At the end of the model there is only reading: n
    weights and one scale (``head``).

    Source: Zhu et al. 2024 (arXiv 2409.19606); Xie et al. 2025 (arXiv 2512.24880); transformers'
    DeepseekV4HyperConnection and DeepseekV4HyperHead, HYV4HyperConnection.
    """

    d_model: Num
    streams: Num
    head: bool = False
    mixes: bool = True

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        n, prefix = self.streams, "hc_" if self.head else ""
        outputs, scales = (n, 1) if self.head else ((2 + n) * n, 3) if self.mixes else (2 * n, 2)
        return Component(
            name,
            "hyper_connection",
            parts=(
                linear(f"{prefix}fn", n * self.d_model, outputs, stream.tokens, bias=False, letter="hc"),
                parameter(f"{prefix}base", outputs, minor=True),
                parameter(f"{prefix}scale", scales, minor=True),
                *([mixing("mix", n, self.d_model, stream.tokens)] if self.mixes and not self.head else []),
            ),
        )
