"""JSON: one object, integers exact, keys in a fixed order."""

from __future__ import annotations

import json
from collections.abc import Mapping


def dump(answer: Mapping[str, object], *, ascii_only: bool = False) -> str:
    """The object as indented text, without a newline at its end. NaN and infinities are refused, as JSON has none.

    What cannot be seen is escaped, as in any other format, but as JSON does it.
    """
    text = json.dumps(answer, indent=2, ensure_ascii=ascii_only, allow_nan=False)
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)
