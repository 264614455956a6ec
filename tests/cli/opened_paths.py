"""Every number of an answer opened, by its path; what is opened has to make the number, and to meet its schema.

``python -m tests.cli.opened_paths`` opens all numbers of the questions that schemas are tested with (20 minutes), and
prints how many there are of each command; ``python -m tests.cli.opened_paths compare`` those of some commands.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import isclose
from typing import Any, NamedTuple, cast

import typer

from tests.analysis.test_opened_numbers import paths as named_paths
from tests.schemas.test_answers import wrong
from tfcalc.cli.app import settings_of, with_values
from tfcalc.cli.commands import COMMANDS, command
from tfcalc.errors import TfcalcError
from tfcalc.report.derivation import Derivation
from tfcalc.report.explanation import Explanation
from tfcalc.report.number import Opened
from tfcalc.report.paths import ABOUT_ONE_MODEL, reach

Path = tuple[str, ...]
Found = Explanation | Derivation
REFUSED = cast("type[Exception]", typer.BadParameter.__mro__[2])
"""What is raised of a command line that cannot be read: questions of that kind are among those of the schemas."""
FLOOR = re.compile(r"⌊(.*) / ([^⌊⌋]*)⌋")


class Answered(NamedTuple):
    """An answer, how its numbers are opened, and the paths of all of them."""

    command: str
    said: Mapping[str, Any]
    open: Callable[[Path], object]
    paths: list[Path]


def answered(words: list[str]) -> Answered:
    """What the command line says to these words. Raises TfcalcError."""
    name, *rest = words
    asked = command(name).meant(rest)
    settings = settings_of(with_values(rest, asked.options), asked.options)
    opened = Opened(cast("Any", asked.answer(settings)))
    said = dict(opened.said)
    return Answered(name, said, opened.open, list((named_paths if name in ABOUT_ONE_MODEL else paths)(said)))


def paths(value: object, passed: Path = ()) -> Iterator[Path]:
    """The paths of all numbers, by keys and places."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield passed
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from paths(inner, (*passed, str(key)))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from paths(inner, (*passed, str(place)))


def evaluated(text: str) -> float:
    """The numbers of a formula put together: only digits, signs, and names of three functions are left to Python."""
    written = FLOOR.sub(r"((\1) // (\2))", text).replace("·", "*").replace(" mod ", " % ").replace("^", "**")
    assert re.fullmatch(r"[-+*/%(), .\de]+", re.sub(r"\b(min|max|round)\b", "", written)), text
    return cast("float", eval(written))


def shape(value: object) -> object:
    """What of an answer its schema looks at: keys, types and words; those of a list together."""
    if isinstance(value, Mapping):
        return tuple((key, inner if key == "how" else shape(inner)) for key, inner in value.items())
    return frozenset(map(shape, value)) if isinstance(value, list | tuple) else type(value)


MET: set[object] = set()
"""Shapes of answers that were held against their schema."""


def check_schema(found: Found) -> None:
    """The answer of ``explain`` is JSON, and meets its schema."""
    said = found.to_dict()
    if (known := shape(said)) not in MET:
        assert not list(wrong(json.loads(json.dumps(said, allow_nan=False)))), said["target"]
        MET.add(known)


def check(words: list[str]) -> Counter[str]:
    """Open every number of the answer to these words; how many were opened in which way."""
    answer = answered(words)
    return Counter(check_path(answer, keys) for keys in answer.paths)


def check_path(answer: Answered, keys: Path) -> str:
    """One number opens, and what it opens adds up to it; each term has a path that opens with the same value."""
    found, value = answer.open(keys), reach(answer.said, keys)
    check_schema(cast("Found", found))
    if isinstance(found, Explanation):
        assert found.answer == value == sum(line.value for line in found.lines), keys
        return "items"
    assert isinstance(found, Derivation)
    assert found.value == value, keys
    if not found.terms:
        assert found.note, keys
        return found.how
    if found.how == "answer":  # its term is a number of the command that it names
        return found.how
    assert isclose(evaluated(found.substituted), found.value, rel_tol=1e-12), (keys, found.substituted)
    if found.how in ("sum", "difference"):
        *added, last = (term.value for term in found.terms)
        assert isclose(sum(added) + (last if found.how == "sum" else -last), found.value, rel_tol=1e-12), keys
    for term in found.terms:
        if not term.path:
            assert term.what, keys
            continue
        assert term.path.startswith(f"{answer.command}."), term
        behind = answer.open(tuple(term.path.removeprefix(f"{answer.command}.").split(".")))
        assert cast("Found", behind).answer == term.value, (keys, term)
    return found.how


def main(commands: list[str]) -> int:
    """Print each number that does not open, and how many do; 1 where one does not."""
    from tests.schemas.questions import ELSEWHERE, SENTENCES, lines

    ways: dict[str, Counter[str]] = {}
    for said in dict.fromkeys(map(tuple, lines())):
        words = [word for word in shlex.split(re.sub(r" --format \w+", "", shlex.join(said))) if word != "--json"]
        words = words if words[0] in COMMANDS else ["overview", *words]
        if words[0] in ELSEWHERE or not SENTENCES.isdisjoint(words) or (commands and words[0] not in commands):
            continue
        try:
            answer = answered(words)
        except (TfcalcError, REFUSED):
            continue
        for keys in answer.paths:
            try:
                way = check_path(answer, keys)
            except (AssertionError, TfcalcError) as error:
                way = "not opened"
                print(f"{shlex.join(words)}: {'.'.join(keys)}: {error}")
            ways.setdefault(words[0], Counter())[way] += 1
    for name, counted in ways.items():
        print(f"{name}: {counted.total() - counted['not opened']} of {counted.total()}, {dict(counted)}")
    every = sum(ways.values(), Counter[str]())
    print(f"{every.total() - every['not opened']} of {every.total()} numbers open")
    return int(bool(every["not opened"]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
