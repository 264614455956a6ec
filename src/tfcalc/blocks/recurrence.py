"""What mixers with a state have in common: the states of a stream's sequences, and the convolution before them."""

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves.convolution import short_convolution
from tfcalc.leaves.scan import States
from tfcalc.workload import Sequences


def states(stream: Sequences, heads: Num, key_dim: Num, value_dim: Num) -> States:
    """Those of this stream; where earlier tokens are cached, it takes one step."""
    return States(stream.batch, stream.length, heads, key_dim, value_dim, step=_steps(stream))


def convolved(
    name: str, channels: Num, kernel: Num, stream: Sequences, *, bias: bool, summed: bool = False
) -> Component:
    """A short depthwise convolution over each sequence, or over what is cached of it and one token."""
    return short_convolution(
        name, channels, kernel, stream.batch, stream.length, step=_steps(stream), bias=bias, summed=summed
    )


def _steps(stream: Sequences) -> bool:
    return stream.cached is not None
