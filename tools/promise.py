"""What scripts may rely on: the keys of all answers, and the options, as they were released.

``tests/schemas/promise-1.json`` has every key with its types and when it is there, ``tests/schemas/options.json`` every
flag of every command and every key of a settings file, with the words that it takes. ``python -m tools.promise`` adds
what is new, at a release; what they have, it never changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tfcalc.cli.commands import COMMANDS, command, every
from tfcalc.cli.options import Option
from tfcalc.report import SCHEMA_VERSION
from tfcalc.schemas import names, schema
from tfcalc.schemas.keys import ALWAYS, keys

FOLDER = Path(__file__).parents[1] / "tests" / "schemas"
APART = ": "
"""Between the types of a key and when it is there; between what an option takes and its words."""
SETTINGS = "tfcalc.toml"

Stated = dict[str, dict[str, str]]
"""By the name of the answer and the path of the key, ``integer|null: always``; by command and flag, ``word: a|b``."""
Promise = Mapping[str, Mapping[str, str]]


class Record(NamedTuple):
    """A record: its ``file``, what is ``stated`` now, and what a script that knew ``before`` misses in ``now``."""

    file: str
    stated: Callable[[], Stated]
    missing: Callable[[str, str], Iterator[str]]

    @property
    def path(self) -> Path:
        """Where it is."""
        return FOLDER / self.file

    def promised(self) -> Stated:
        """What was released."""
        found: Stated = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        return found

    def broken(self, now: Promise) -> Iterator[str]:
        """What was promised, and is no longer true: a line for each key or flag."""
        for name, promises in self.promised().items():
            for path, before in promises.items():
                told = now.get(name, {}).get(path)
                wrong = ["is gone"] if told is None else self.missing(before, told)
                yield from (f"{name}: {path} {each}" for each in wrong)


def of_keys() -> Stated:
    """Every key of every answer, by its schema."""
    return {
        name: {key.path: f"{'|'.join(sorted(key.types))}{APART}{'|'.join(key.when)}" for key in keys(schema(name))}
        for name in names()
    }


def of_options() -> Stated:
    """Every flag of every command; and every key of a settings file, which in capitals after TFCALC_ is a variable."""
    flags = {
        name: {flag: _taken(option) for option in command(name).options for both in option.flags for flag in _one(both)}
        for name in COMMANDS
    }
    return {**flags, SETTINGS: {key: f"key{APART}" for option in every() for key in option.keys}}


def _one(flags: str) -> list[str]:
    """``--train/--no-train`` are two."""
    return flags.split("/")


def _taken(option: Option) -> str:
    kind = "switch" if option.switch else "number" if option.number else "amount" if option.amount else "text"
    return f"{'word' if option.known else kind}{APART}{'|'.join(option.known)}"


def _of_key(before: str, now: str) -> Iterator[str]:
    (types, always), (typed, when) = (text.split(APART) for text in (before, now))
    if typed != types:
        yield f"was {types}, and is {typed}"
    if ALWAYS not in when.split("|") and not set(filter(None, always.split("|"))) <= set(when.split("|")):
        yield f"was there {always}, and is there {when or 'sometimes'}"


def _of_option(before: str, now: str) -> Iterator[str]:
    (kind, words), (kinds, known) = (text.split(APART) for text in (before, now))
    if kind != kinds:
        yield f"was a {kind}, and is a {kinds}"
    elif gone := [word for word in words.split("|") if word not in known.split("|")]:
        yield f"no longer takes {', '.join(gone)}"


KEYS = Record(f"promise-{SCHEMA_VERSION}.json", of_keys, _of_key)
OPTIONS = Record("options.json", of_options, _of_option)


def main() -> int:
    """Add what is new; 1 where a promise is broken."""
    code = 0
    for record in (KEYS, OPTIONS):
        before, now = record.promised(), record.stated()
        if wrong := list(record.broken(now)):
            print(*wrong, sep="\n", file=sys.stderr)
            code = 1
            continue
        whole = {name: now[name] | before.get(name, {}) for name in sorted(before.keys() | now.keys())}
        record.path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
