"""A tensor that stands by itself in a module, rather than in a linear map, a norm or a table."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Tensor
from tfcalc.core.number import Num


def parameter(name: str, *shape: Num, minor: bool = False, frozen: bool = False) -> Component:
    """A trained tensor such as a class token, an attention sink or a scale: the product of its ``shape`` parameters.

    ``frozen`` ones are parameters that no gradient trains. What is computed with it belongs to the operation that uses
    it. Source: torch.nn.Parameter.
    """
    return Component(name, "parameter", Cost(weights=(Tensor(name, shape, minor=minor, key="", frozen=frozen),)))


def buffer(name: str, *shape: Num) -> Component:
    """A tensor that is stored with the model, but not trained: no parameters, the product of its ``shape`` elements.

    Source: torch.nn.Module.register_buffer.
    """
    return Component(name, "buffer", Cost(buffers=(Tensor(name, shape, key=""),)))
