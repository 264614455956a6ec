"""Lookups in tables of tokens and positions."""

from __future__ import annotations

from tfcalc.core.cost import Elementwise
from tfcalc.core.number import Num
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Call, Tensor


def embedding(table: Tensor, places: Tensor) -> Tensor:
    """``x = E[token]`` with E of shape rows × width.

    ====================  =======================================================================
    parameters            ``V·h``
    FLOPs                 0: a lookup copies a row (never 2·V·h, which is the output head)
    lookups               ``t``, one row per token
    elementwise backward  ``t·h``: each token's gradient is added to its row
    saved for backward    the tokens; the gradient is as large as the table
    ====================  =======================================================================

    Source: torch.nn.Embedding.
    """
    width = table.shape[-1]
    work = (Elementwise("gradient of E", places.elements * width, forward=0, backward=1),)
    shape = (*places.shape, width)
    call = Call("embedding", (table,), shape, table.dtype, elementwise=work, lookups=places.elements, saves=(places,))
    return table.trace.call(call._replace(reads=_fetched(table, places)))


def _fetched(table: Tensor, places: Tensor) -> Num:
    """Bytes that a lookup reads: a row for each place, and the index."""
    return places.elements * (table.shape[-1] * WIDTHS[table.dtype] + WIDTHS[places.dtype])


def position(table: Tensor, places: Tensor, tokens: Num) -> Tensor:
    """``P[i]``, which is added to x: one lookup and h additions per token, and h for P's gradient.

    P has T trained rows. The result is as long as ``places``, which are saved for backward.

    Source: Gehring et al. 2017 (arXiv 1705.03122), section 3.1; BERT and GPT-2.
    """
    width = table.shape[-1]
    work = (Elementwise("+ P (trained)", tokens * width, forward=1, backward=1),)
    shape = (*places.shape, width)
    call = Call("embedding", (table,), shape, table.dtype, elementwise=work, lookups=tokens, saves=(places,))
    return table.trace.call(call._replace(reads=_fetched(table, places)))


def spread(table: Tensor, places: Tensor, added: Num) -> Tensor:
    """Look up rows that are each added to many vectors: ``added`` additions, and as many for the gradient.

    The indices are saved. Source: transformers' MllamaPrecomputedAspectRatioEmbedding.
    """
    work = (Elementwise("+ P (trained)", added, forward=1, backward=1),)
    shape = (*places.shape, table.shape[-1])
    call = Call("embedding", (table,), shape, table.dtype, elementwise=work, lookups=places.elements, saves=(places,))
    return table.trace.call(call._replace(reads=_fetched(table, places)))


def sines(places: Tensor, width: Num, tokens: Num, dtype: str) -> Tensor:
    """``P[i]`` of fixed sines and cosines, which is added to x: h additions per token.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.
    """
    work = (Elementwise("+ P (fixed)", tokens * width, forward=1, backward=0),)
    return places.trace.call(Call("index", (), (*places.shape, width), dtype, elementwise=work, lookups=tokens))


def looked_up(table: Tensor, places: Tensor) -> Tensor:
    """Look up so few rows that their work is not counted; the indices are saved."""
    shape = (*places.shape, table.shape[-1])
    return table.trace.call(Call("embedding", (table,), shape, table.dtype, saves=(places,)))
