"""A table with a row per token of the vocabulary."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Tensor
from tfcalc.core.number import Num


def embedding(name: str, rows: Num, width: Num, tokens: Num, *, tied_to: str | None = None) -> Component:
    """``x = E[token]`` with E of shape rows × width.

    ====================  =======================================================================
    parameters            ``V·h``
    FLOPs                 0: a lookup copies a row (never 2·V·h, which is the output head)
    lookups               ``t``, one row per token
    elementwise backward  ``t·h``: each token's gradient is added to its row
    ====================  =======================================================================

    ``tied_to`` names the table whose storage this one shares.

    >>> from tfcalc.core.measure import matmul_flops, params
    >>> params(embedding("embedding", 50_257, 768, 1).own)
    38597376
    >>> matmul_flops(embedding("embedding", 50_257, 768, 1).own)
    0

    Source: torch.nn.Embedding.
    """
    return Component(
        name,
        "embedding",
        Cost(
            weights=(Tensor("E", (rows, width), tied_to=tied_to),),
            elementwise=(Elementwise("gradient of E", tokens * width, forward=0, backward=1),),
            lookups=tokens,
        ),
    )
