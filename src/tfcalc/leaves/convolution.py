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
    backward FLOPs        twice that: one product for w's gradient, one for x's (none without ``input_gradient``);
                          PyTorch's counter forgets the groups of w's, and has it ``groups`` times
    ====================  =======================================================================

    ``groups == channels_in`` is the depthwise convolution of state-space models: k weights a channel.

    >>> from tfcalc.core.measure import params
    >>> params(convolution("patches", 3, 768, (16, 16), 196).own)
    590592

    Source: torch.nn.Conv1d and Conv2d; torch.utils.flop_counter.conv_flop_count.
    """
    fan_in = divide(channels_in, groups)
    return _convolution(name, fan_in, channels_out, kernel, positions, groups, bias, input_gradient)


def _convolution(
    name: str,
    fan_in: Num,
    channels_out: Num,
    kernel: tuple[Num, ...],
    positions: Num,
    groups: Num,
    bias: bool,
    input_gradient: bool,
) -> Component:
    """The same by what each output channel reads."""
    return Component(
        name,
        "convolution",
        Cost(
            weights=(
                Tensor("w", (channels_out, fan_in, *kernel)),
                *([Tensor("b", (channels_out,), minor=True, key="bias")] if bias else []),
            ),
            products=(
                Product(
                    "w ∗ x",
                    (2, positions, channels_out, fan_in, product(kernel)),
                    backward=1 + input_gradient,
                    overcounted=groups - 1,
                ),
            ),
            elementwise=(Elementwise("+ b", positions * channels_out, forward=1, backward=1),) if bias else (),
        ),
    )


def grouped_convolution(
    name: str, fan_in: Num, channels_out: Num, kernel: Num, positions: Num, groups: Num, *, bias: bool = True
) -> Component:
    """A convolution over time whose ``groups`` read ``fan_in`` channels each."""
    return _convolution(name, fan_in, channels_out, (kernel,), positions, groups, bias, input_gradient=True)


def depthwise(name: str, channels: Num, kernel: Num, positions: Num, *, bias: bool = True) -> Component:
    """A convolution over time of each channel by itself: ``c·k + c`` parameters (without bias ``c·k``)."""
    return _convolution(name, 1, channels, (kernel,), positions, channels, bias, input_gradient=True)


def short_convolution(
    name: str,
    channels: Num,
    kernel: Num,
    batch: Num,
    length: Num,
    *,
    step: bool,
    bias: bool = True,
    summed: bool = False,
) -> Component:
    """A depthwise convolution that looks ``kernel`` − 1 tokens back; ``step``: over a cache, for one token.

    ====================  =======================================================================
    parameters            ``c·k + c`` (without bias ``c·k``)
    forward FLOPs         ``2·b·(l + k − 1)·c·k``: the sequence is padded on both sides, and what is too much cut off
    of a step             ``2·b·2·c·k``: the cache holds k tokens, and the new one makes that two places for the kernel;
                          none where the step is ``summed``, products and sums for the one place that is new
    backward FLOPs        twice that, and c − 1 times more by PyTorch's counter (see :func:`convolution`)
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_flops
    >>> from tfcalc.core.polynomial import symbols
    >>> b, l, c = symbols("b l c")
    >>> matmul_flops(short_convolution("conv", c, 4, b, l, step=False).own)
    8*b*c*l + 24*b*c

    Source: Gu and Dao 2023 (Mamba, arXiv 2312.00752), section 3.4; transformers' causal_conv1d_fn and
    causal_conv1d_update (``F.conv1d`` with ``padding=kernel - 1``, and with none on the cache and the token);
    RecurrentGemma sums.
    """
    if not step or not summed:
        return depthwise(name, channels, kernel, batch * (2 if step else length + kernel - 1), bias=bias)
    made = depthwise(name, channels, kernel, batch, bias=bias)
    work = Elementwise("Σ w·x", batch * channels * kernel, forward=2, backward=4)
    return made._replace(own=made.own._replace(products=(), elementwise=(work, *made.own.elementwise)))
