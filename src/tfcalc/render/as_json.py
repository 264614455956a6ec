"""JSON: one object, integers exact, keys in a fixed order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice

AT_ONCE = 10_000
"""Tokens that are written together."""


def dump(answer: Mapping[str, object], *, ascii_only: bool = False) -> str:
    """The object as indented text, without a newline at its end. NaN and infinities are refused, as JSON has none.

    What cannot be seen is escaped, as in any other format, but as JSON does it.
    """
    return "".join(pieces(answer, ascii_only=ascii_only))


def pieces(answer: Mapping[str, object], *, ascii_only: bool = False) -> Iterator[str]:
    """Yield the text in pieces, as the whole takes ten times the memory of its numbers."""
    tokens = json.JSONEncoder(indent=2, ensure_ascii=ascii_only, allow_nan=False).iterencode(answer)
    while text := "".join(islice(tokens, AT_ONCE)):
        yield "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)
