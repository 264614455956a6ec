"""How far what tfcalc says is kept was from what PyTorch kept, family by family, on random small models.

The figures of measured.csv are written by ``python -m tests.verify.compare_memory --write``: eager attention in fp32,
and PyTorch's own choice of a kernel in bf16; of several random configs the worst.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from tfcalc.errors import InvalidModel

TABLE = Path(__file__).with_name("measured.csv")
MOST = 0.25
"""Beyond it an estimate is of no use, as is one of a family whose layers kept unequal bytes (an infinite error)."""


@cache
def errors() -> dict[str, float]:
    """Relative errors of the bytes that are kept for backward, by ``model_type``; what could not be run is missing."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {model_type: float(error) for model_type, error in csv.reader(file)}


@cache
def trainable() -> tuple[str, ...]:
    """The model types whose training memory is answered: those whose error is known and small enough."""
    return tuple(sorted(model_type for model_type, error in errors().items() if abs(error) <= MOST))


def error_of(model_type: str) -> float:
    """The family's error. Raises InvalidModel where it is not known, or too large to say anything."""
    known = trainable()
    if model_type not in known:
        hint = f"tfcalc models --trainable lists the {len(known)} families that are"
        raise InvalidModel(f"training memory is not supported for {model_type}", hint)
    return errors()[model_type]
