"""What scripts may rely on within a schema_version: the keys of all answers, as they were released.

``tests/schemas/promise-1.json`` has every key with its types and when it is there. ``python -m tools.promise`` adds
the keys that are new, at a release; what it has, it never changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfcalc.report import SCHEMA_VERSION
from tfcalc.schemas import names, schema
from tfcalc.schemas.keys import ALWAYS, keys

RECORD = Path(__file__).parents[1] / "tests" / "schemas" / f"promise-{SCHEMA_VERSION}.json"
APART = ": "
"""Between the types of a key and when it is there."""

Promise = Mapping[str, Mapping[str, str]]
"""By the name of the answer and the path of the key: ``integer|null: always``."""


def stated() -> dict[str, dict[str, str]]:
    """What the schemas say now."""
    return {
        name: {key.path: f"{'|'.join(sorted(key.types))}{APART}{'|'.join(key.when)}" for key in keys(schema(name))}
        for name in names()
    }


def broken(promised: Promise, now: Promise) -> Iterator[str]:
    """What was promised, and is no longer true: a line for each key."""
    for name, promises in promised.items():
        for path, promise in promises.items():
            told = now.get(name, {}).get(path)
            if told is None:
                yield f"{name}: {path} is gone"
                continue
            (types, before), (typed, when) = (text.split(APART) for text in (promise, told))
            if typed != types:
                yield f"{name}: {path} was {types}, and is {typed}"
            if ALWAYS not in when.split("|") and not set(filter(None, before.split("|"))) <= set(when.split("|")):
                yield f"{name}: {path} was there {before}, and is there {when or 'sometimes'}"


def recorded() -> dict[str, dict[str, str]]:
    """What was promised."""
    found: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return found


def main() -> int:
    """Add what is new; 1 where a promise is broken."""
    before, now = recorded(), stated()
    if wrong := list(broken(before, now)):
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    whole = {name: now[name] | before.get(name, {}) for name in sorted(before.keys() | now.keys())}
    RECORD.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
