"""How many bytes it takes to hold a model: its weights, and the buffers beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.conventions import DTYPES, Definitions
from tfcalc.core.measure import held_bytes, weight_bytes
from tfcalc.questions.common import subject
from tfcalc.questions.stated import for_programs, in_words
from tfcalc.report import Report, exact

if TYPE_CHECKING:
    from tfcalc.model import Model


def memory(model: Model, definitions: Definitions | None = None, *, depth: int | None = None) -> Report:
    """The bytes of ``model`` at rest: each weight at ``definitions.dtype``, a tied one once.

    Buffers are held alike, but never below 16 bits. Nothing runs, so there are no gradients, no activations and no
    cache. Raises InvalidModel.

    >>> from tfcalc.families.transformer import Transformer
    >>> memory(Transformer()).answer
    176562176
    """
    definitions = definitions or Definitions()
    asked = subject(model, None, definitions)
    bits = DTYPES[definitions.dtype]
    held = held_bytes(bits)
    root = asked.node.component
    entry = asked.entry(held, {"bytes": held}, depth)
    weights = exact(root.total(weight_bytes(bits)))
    return Report(
        command="memory",
        heading=asked.model.summary,
        title=f"bytes in {definitions.dtype}",
        unit="bytes",
        answer=entry.value,
        totals={
            "total_bytes": entry.value,
            "weights_bytes": weights,
            "gradients_bytes": 0,
            "optimizer_bytes": 0,
            "activations_bytes": 0,
            "kv_cache_bytes": 0,
            "buffers_bytes": entry.value - weights,
            "temporary_bytes": 0,
        },
        model=asked.model.described(),
        conventions=for_programs("memory", asked.run, definitions),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=tuple(in_words("memory", asked.run, definitions)),
    )
