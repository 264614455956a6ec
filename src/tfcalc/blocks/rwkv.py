"""RWKV-4: attention as a recurrence over decaying sums, and a feed-forward network with a gate."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.keeping import FP32, STATE, TOKEN_BEFORE, by_sequence, keeping
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, parameter
from tfcalc.leaves.scan import gated_sum
from tfcalc.workload import Sequences


class TimeMixing(NamedTuple):
    """``W_o (σ(r) · wkv)``: wkv is a mean of all values so far, weighted by their keys and by their age.

    Keys, values and receptances are made of a trained mixture of a token and the one before it.

    Source: Peng et al. 2023 (arXiv 2305.13048), section 3.1; transformers' RwkvSelfAttention.
    """

    d_model: Num
    width: Num

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, w, t = self.d_model, self.width, stream.tokens
        return Component(
            name,
            "ssm",
            parts=(
                *shifted(h, stream, "key", "value", "receptance"),
                *(linear(each, h, w, t, bias=False) for each in ("key", "value", "receptance")),
                parameter("time_decay", w, minor=True),
                parameter("time_first", w, minor=True),
                # two maxima, four exponentials of differences, two sums of two products, and their quotient
                keeping(gated_sum("wkv", "wkv", t * w), *by_sequence(stream, STATE, w, 3, FP32)),
                activation("gate", "sigmoid", t * w),
                linear("output", w, h, t, bias=False, letter="O"),
            ),
        )


class ChannelMixing(NamedTuple):
    """``σ(x W_r) · (relu(x W_k)² W_v)``, of a trained mixture of a token and the one before it.

    Source: Peng et al. 2023 (arXiv 2305.13048), section 3.1; transformers' RwkvFeedForward.
    """

    d_model: Num
    d_ff: Num

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, inner, t = self.d_model, self.d_ff, stream.tokens
        return Component(
            name,
            "ffn",
            parts=(
                *shifted(h, stream, "key", "receptance"),
                linear("key", h, inner, t, bias=False, letter="1"),
                activation("activation", "relu2", t * inner),
                linear("receptance", h, h, t, bias=False),
                activation("gate", "sigmoid", t * h),
                linear("value", inner, h, t, bias=False, letter="2"),
            ),
        )


def shifted(width: Num, stream: Sequences, *names: str) -> Iterator[Component]:
    """``μ·x + (1 − μ)·x of the token before``, with a trained μ for each of these; they keep the same token."""
    before = by_sequence(stream, TOKEN_BEFORE, width, 1)
    for place, name in enumerate(names):
        yield parameter(f"time_mix_{name}", width, minor=True)
        summed = gated_sum(f"{name}_shift", "μ·x + (1−μ)·x₋₁", stream.tokens * width)
        yield summed if place else keeping(summed, *before)
