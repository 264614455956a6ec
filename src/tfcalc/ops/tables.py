"""Tables with a row for each of something."""

from __future__ import annotations

from tfcalc.core.cost import Elementwise
from tfcalc.tape.call import Call
from tfcalc.tape.ledger import WIDTHS
from tfcalc.tape.tensor import Tensor


def embedding(table: Tensor, places: Tensor) -> Tensor:
    """``x = E[token]`` with E of shape rows × width.

    ====================  =======================================================================
    parameters            ``V·h``
    FLOPs                 0: a lookup copies a row (never 2·V·h, which is the output head)
    lookups               ``t``, one row per token
    elementwise backward  ``t·h``: each token's gradient is added to its row
    kept for backward     the tokens; the gradient is as large as the table
    ====================  =======================================================================

    Source: torch.nn.Embedding.
    """
    width = table.shape[-1]
    work = (Elementwise("gradient of E", places.elements * width, forward=0, backward=1),)
    shape = (*places.shape, width)
    call = Call("embedding", (table,), shape, table.dtype, elementwise=work, lookups=places.elements, saves=(places,))
    reads = places.elements * (width * WIDTHS[table.dtype] + WIDTHS[places.dtype])
    return table.trace.call(call._replace(reads=reads))
