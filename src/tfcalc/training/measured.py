"""Relative errors of tfcalc's saved bytes against PyTorch's, for each class, on random small models.

``make measured TYPE=…`` appends lines to measured.csv: eager attention in fp32, and PyTorch's own choice of a kernel in
bf16; of several random configs the worst.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.errors import InvalidModel

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel

TABLE = Path(__file__).with_name("measured.csv")
MOST = 0.25
"""Largest error at which an estimate is given; a class whose equal layers saved unequal bytes has an infinite one."""


@cache
def errors() -> Mapping[str, Mapping[str, float]]:
    """Relative errors of the bytes that are saved for backward, by ``model_type`` and by the class that was built.

    What could not be run is missing.
    """
    found: dict[str, dict[str, float]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for model_type, architecture, error in csv.reader(file):
            found.setdefault(model_type, {})[architecture] = float(error)
    return found


def known(model_type: str) -> dict[str, float]:
    """The errors of this type's classes that are small enough to answer."""
    return {architecture: error for architecture, error in errors().get(model_type, {}).items() if abs(error) <= MOST}


@cache
def trainable() -> tuple[str, ...]:
    """The model types whose training memory is answered: of one of their classes at least."""
    return tuple(sorted(filter(known, errors())))


def error_of(model: HFModel) -> float:
    """The error of the model's class, or of that with the same head, where a file spells its name in another way.

    Raises InvalidModel where it is not known, or too large to say anything.
    """
    family, architecture = model.family, model.architecture
    measured = known(family.model_type)
    if not measured:
        hint = f"tfcalc models --trainable lists the {len(trainable())} families that are"
        raise InvalidModel(f"training memory is not supported for {family.model_type}", hint)
    by_head = {family.head_of(name): error for name, error in measured.items()}
    if (head := family.head_of(architecture)) not in by_head:
        raise InvalidModel(
            f"training memory is not supported for {architecture}",
            f"of {family.model_type} it was compared with PyTorch's for {' and '.join(sorted(measured))}",
        )
    return by_head[head]
