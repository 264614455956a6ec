"""Numbers of models that were published and corrected: no convention gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfcalc.analysis.why.given import Given

FILE = Path(__file__).with_suffix(".jsonl")
"""A line each: the preset, the number, what is known of it, and where that stands."""


def corrected(given: Given, preset: str) -> Iterator[str]:
    """What is known of this number of this preset, a sentence each."""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["preset"] == preset and entry["number"] == given.value:
            yield f"{given.text} {entry['words']} ({entry['source']})"
