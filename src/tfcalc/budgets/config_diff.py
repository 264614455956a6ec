"""Field of a config whose change moved a number, and the line of that field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.errors import TfcalcError

if TYPE_CHECKING:
    from tfcalc.budgets.sources import Fields

Path = tuple[str, ...]
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
MOST = 8
"""Limit of changed fields that are tried one by one."""


def changed_field(before: Fields, now: Fields, moves: Callable[[Fields], bool]) -> Path | None:
    """The first changed field that by itself ``moves`` the number of the config as it was; else the first changed."""
    changed = list(differences(before, now))
    for path in changed[:MOST] if len(changed) > 1 else []:
        try:
            if moves(with_field(before, now, path)):
                return path
        except TfcalcError:  # the other fields go with this one
            continue
    return changed[0] if changed else None


def differences(before: Fields, now: Fields, under: Path = ()) -> Iterator[Path]:
    """Paths of the fields that have changed, in today's order, removed ones at the end."""
    for key in [*now, *(key for key in before if key not in now)]:
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, (*under, key))
        elif key not in before or key not in now or old != new:
            yield (*under, key)


def with_field(before: Fields, now: Fields, path: Path) -> dict[str, object]:
    """Old config with one field from the new one."""
    key, *rest = path
    fields = dict(before)
    if rest:
        old, new = before[key], now[key]
        assert isinstance(old, Mapping), "a path goes through objects"
        assert isinstance(new, Mapping), "on both sides"
        fields[key] = with_field(old, new, tuple(rest))
    elif key in now:
        fields[key] = now[key]
    else:
        del fields[key]
    return fields


def line_of(text: str, path: Path) -> int:
    """Line of the key at ``path`` in a JSON text; 1 where it is missing."""
    open_keys: list[str] = []
    last, start = "", 0
    for found in TOKEN.finditer(text):
        token = found[0]
        if token == "{" or token == "[":
            open_keys.append(last if token == "{" else "[]")
        elif token in "}]" and open_keys:
            open_keys.pop()
        elif token == ":" and (*open_keys[1:], last) == path:
            return text.count("\n", 0, start) + 1
        elif token[0] == '"':
            last, start = _word(token), found.start()
    return 1


def _word(token: str) -> str:
    import json

    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token
