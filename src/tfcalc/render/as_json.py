"""JSON: one object, integers exact, keys in a fixed order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dump(answer: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """The object as indented text, without a newline at its end. NaN and infinities are refused, as JSON has none."""
    return json.dumps(answer, indent=2, ensure_ascii=ascii_only, allow_nan=False)
