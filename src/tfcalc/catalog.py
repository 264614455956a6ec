"""From a name to a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tfcalc.errors import UnknownModel, nearest
from tfcalc.families.transformer import Transformer

FOLDER = Path(__file__).parent / "models"


class Preset(NamedTuple):
    """A published model: where its sizes are printed, and the sizes."""

    name: str
    source: str
    fields: dict[str, Any]


def names() -> list[str]:
    """The names of all presets, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def preset(name: str) -> Preset:
    """The preset of this name. Raises UnknownModel with the nearest names where there is none.

    >>> preset("transformer-big").fields["d_model"]
    1024
    """
    if name not in names():
        raise UnknownModel(f"model {name[:80]!r} is not known", nearest(name, names()))
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Preset(name, data["source"], data["fields"])


def load(name: str) -> Transformer:
    """The model of this name.

    >>> load("transformer-base").d_model
    512
    """
    return Transformer(**preset(name).fields)
