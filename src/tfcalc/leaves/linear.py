"""A linear map of every token."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product, Tensor
from tfcalc.core.number import Num


def linear(
    name: str,
    fan_in: Num,
    fan_out: Num,
    tokens: Num,
    *,
    bias: bool = True,
    letter: str | None = None,
    tied_to: str | None = None,
    input_gradient: bool = True,
) -> Component:
    """``y = x W + b`` with W of shape fan_in × fan_out, on each of ``tokens`` rows.

    ====================  =======================================================================
    parameters            ``i·o + o`` (without bias ``i·o``; tied: only the bias)
    forward FLOPs         ``2·t·i·o``: t·o outputs, each i multiplications and i additions
    backward FLOPs        ``4·t·i·o``: one product for W's gradient, one for x's (none without ``input_gradient``)
    elementwise FLOPs     ``t·o`` for adding the bias, and as many to sum its gradient
    ====================  =======================================================================

    ``letter`` is the index that W and b carry in print; ``tied_to`` names the tensor whose storage W shares.

    >>> from tfcalc.core.measure import matmul_flops, params
    >>> from tfcalc.core.polynomial import symbols
    >>> i, o, t = symbols("i o t")
    >>> params(linear("w", i, o, t).own)
    i*o + o
    >>> matmul_flops(linear("w", i, o, t).own)
    2*i*o*t

    Source: torch.nn.Linear; torch.utils.flop_counter counts ``mm`` as 2·M·K·N.
    """
    index = letter or name
    weight, offset = f"W_{index}", f"b_{index}"
    return Component(
        name,
        "linear",
        Cost(
            weights=(
                Tensor(weight, (fan_in, fan_out), tied_to=tied_to),
                *([Tensor(offset, (fan_out,), minor=True, key="bias")] if bias else []),
            ),
            products=(Product(f"X {weight}", (2, tokens, fan_in, fan_out), backward=1 + input_gradient),),
            elementwise=(Elementwise(f"+ {offset}", tokens * fan_out, forward=1, backward=1),) if bias else (),
        ),
    )
