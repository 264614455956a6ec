"""A linear map of every token that mixes only the channels of a group."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product, Tensor
from tfcalc.core.number import Num, divide


def grouped_linear(name: str, fan_in: Num, fan_out: Num, groups: Num, tokens: Num) -> Component:
    """``y_g = x_g W_g``: each of ``groups`` parts of a token by a matrix of its own, as one batch of products.

    ====================  =======================================================================
    parameters            ``o·(i/groups)``
    forward FLOPs         ``2·t·o·(i/groups)``
    backward FLOPs        twice that
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_flops
    >>> matmul_flops(grouped_linear("o_a_proj", 32, 12, 4, 5).own)
    960

    Source: transformers' DeepseekV4GroupedLinear (torch.bmm).
    """
    wide = divide(fan_in, groups)
    return Component(
        name,
        "linear",
        Cost(weights=(Tensor("w", (fan_out, wide)),), products=(Product("x_g W_g", (2, tokens, fan_out, wide)),)),
    )
