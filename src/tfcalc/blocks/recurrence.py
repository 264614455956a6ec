"""What mixers with a state have in common: the states of a stream's sequences, and the convolution before them."""

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves.convolution import short_convolution
from tfcalc.ops.keeping import CONVOLUTION, by_sequence, keeping
from tfcalc.ops.recurrences import States
from tfcalc.workload import Sequences


def states(stream: Sequences, heads: Num, key_dim: Num, value_dim: Num) -> States:
    """Those of this stream; where earlier tokens are cached, it takes one step."""
    return States(stream.batch, stream.length, heads, key_dim, value_dim, step=_steps(stream))


def convolved(
    name: str,
    channels: Num,
    kernel: Num,
    stream: Sequences,
    *,
    bias: bool,
    summed: bool = False,
    bits: int | None = None,
) -> Component:
    """A short depthwise convolution over each sequence, or over what is cached of it and one token.

    It caches the last ``kernel`` inputs, or those before the new one where it is ``summed``, of so many ``bits`` each
    where they are not the model's.
    """
    made = short_convolution(
        name, channels, kernel, stream.batch, stream.length, step=_steps(stream), bias=bias, summed=summed
    )
    return keeping(made, *by_sequence(stream, CONVOLUTION, channels, kernel - 1 if summed else kernel, bits))


def _steps(stream: Sequences) -> bool:
    return stream.cached is not None
