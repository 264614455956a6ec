"""A convolution over one or more axes."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product, Tensor
from tfcalc.core.number import Num, divide, product


def convolution(
    name: str,
    channels_in: Num,
    channels_out: Num,
    kernel: tuple[Num, ...],
    positions: Num,
    *,
    groups: Num = 1,
    bias: bool = True,
    input_gradient: bool = True,
) -> Component:
    """``y = w ∗ x + b``: each of ``positions`` outputs is a linear map of the inputs under the kernel.

    ====================  =======================================================================
    parameters            ``o·(i/groups)·k + o`` (without bias ``o·(i/groups)·k``), k all taps of the kernel
    forward FLOPs         ``2·positions·o·(i/groups)·k``
    backward FLOPs        twice that: one product for w's gradient, one for x's (none without ``input_gradient``)
    ====================  =======================================================================

    ``groups == channels_in`` is the depthwise convolution of state-space models: k weights a channel.

    >>> from tfcalc.core.measure import params
    >>> params(convolution("patches", 3, 768, (16, 16), 196).own)
    590592

    Source: torch.nn.Conv1d and Conv2d; torch.utils.flop_counter.conv_flop_count.
    """
    fan_in = divide(channels_in, groups)
    return Component(
        name,
        "convolution",
        Cost(
            weights=(
                Tensor("w", (channels_out, fan_in, *kernel)),
                *([Tensor("b", (channels_out,), minor=True, key="bias")] if bias else []),
            ),
            products=(
                Product("w ∗ x", (2, positions, channels_out, fan_in, product(kernel)), backward=1 + input_gradient),
            ),
            elementwise=(Elementwise("+ b", positions * channels_out, forward=1, backward=1),) if bias else (),
        ),
    )


def depthwise(name: str, channels: Num, kernel: Num, positions: Num, *, bias: bool = True) -> Component:
    """A convolution over time of each channel by itself: ``c·k + c`` parameters (without bias ``c·k``)."""
    return convolution(name, 1, channels, (kernel,), positions, bias=bias)
