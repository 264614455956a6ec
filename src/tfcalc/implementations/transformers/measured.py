"""How far what tfcalc says is kept was from what PyTorch kept, family by family, on random small models.

The figures of measured.csv are written by ``python -m tests.verify.compare_memory --write``: eager attention in fp32,
and PyTorch's own choice of a kernel in bf16; of several random configs the worst.
"""

from __future__ import annotations

import csv
from functools import cache
from math import isfinite
from pathlib import Path

from tfcalc.errors import InvalidModel

TABLE = Path(__file__).with_name("measured.csv")
MOST = 0.25
"""Beyond it an estimate is of no use."""


@cache
def errors() -> dict[str, float]:
    """Relative errors of the bytes that are kept for backward, by ``model_type``; what could not be run is missing."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {model_type: float(error) for model_type, error in csv.reader(file)}


def error_of(model_type: str) -> float:
    """The family's error. Raises InvalidModel where it is not known, or too large to say anything."""
    known = errors()
    hint = f"{len(known)} families are known, Llama's, GPT-2's, BERT's and T5's kin among them"
    if model_type not in known:
        raise InvalidModel(f"what training a {model_type} model keeps was never held against PyTorch", hint)
    error = known[model_type]
    if not abs(error) <= MOST:
        off = f"{error:+.0%} off PyTorch's" if isfinite(error) else "layers of one kind kept unequal bytes"
        raise InvalidModel(f"what training a {model_type} model keeps is not known: {off}", hint)
    return error
