"""Paths of the numbers that the cells of a table show: a click on a cell opens its number.

A cell has the exact number behind what it prints. Of the numbers of the answer that are equal to it, the one is opened
whose place in the answer is called most like the row and the column of the cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tfcalc.answers.question import HEADLINES
from tfcalc.report.sheet import Bytes, Cell, InUnit, Rounded, Share, Sheet, Short

Number = int | float
WORD = re.compile(r"[a-z]+|\d+")
SMALL = 1000
"""Whole numbers up to this are equal by chance, so that one of these is only opened where it is called alike."""


class Numbered(NamedTuple):
    """A number of an answer: its ``keys``, and all ``words`` that it is called by; ``around`` is the path of a part."""

    keys: tuple[str, ...]
    value: Number
    words: frozenset[str]
    around: str


def numbers(said: Mapping[str, object]) -> Iterator[Numbered]:
    """Yield the numbers of an answer, in its order, but for those that were given: its model and its conventions."""
    for key, value in said.items():
        if key not in ("schema_version", "model", "conventions"):
            yield from _below(value, (key,), frozenset(_words(key)), "")


def _below(value: object, keys: tuple[str, ...], words: frozenset[str], around: str) -> Iterator[Numbered]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield Numbered(keys, value, words, around)
    elif isinstance(value, Mapping):
        own = words.union(*(_words(each) for key, each in value.items() if isinstance(each, str) and key != "formula"))
        path = str(value.get("path", around))
        for key, inner in value.items():
            further = keys if key == "parts" else (*keys, str(key))
            yield from _below(inner, further, own | _words(str(key)), path)
    elif isinstance(value, list | tuple):
        names = [str(each.get("name", each.get("phase", ""))) if isinstance(each, Mapping) else "" for each in value]
        for place, inner in enumerate(value):
            unique = names[place] and names.count(names[place]) == 1
            yield from _below(inner, (*keys, names[place] if unique else str(place)), words, around)


def opened(sheet: Sheet, said: Mapping[str, object]) -> dict[tuple[int, int], tuple[str, ...]]:
    """The keys of the number that each cell shows, by row and column; cells that show none of the answer are left out.

    The title is the cell at (-1, 0): the number that ``-q`` prints.
    """
    by_value: dict[Number, list[Numbered]] = {}
    for one in numbers(said):
        by_value.setdefault(one.value, []).append(one)
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    command = str(said.get("command", ""))
    title = frozenset(_words(f"{sheet.title} {sheet.subtitle}"))
    for row, cells in enumerate(sheet.rows):
        named = next((cell for cell in cells if isinstance(cell, str) and cell), "")
        beside = frozenset(word for cell in cells if isinstance(cell, str) for word in _words(cell))
        path = sheet.paths[row] if row < len(sheet.paths) else ""
        for place, (cell, column) in enumerate(zip(cells, sheet.columns, strict=True)):
            value = exact(cell)
            if value is not None:
                wanted = Wanted(frozenset((*_words(named), *_words(column.heading))), title, beside, path, command)
                if keys := _likest(by_value.get(value, ()), value, wanted):
                    found[row, place] = keys
    whole = exact(sheet.quiet)
    if whole is not None and (keys := _likest(by_value.get(whole, ()), whole, Wanted(title, command=command))):
        found[-1, 0] = keys
    return found


class Wanted(NamedTuple):
    """Words around a cell: what ``calls`` it, those of the ``title``, those ``beside`` it; the ``path`` of its part."""

    calls: frozenset[str]
    title: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    path: str = ""
    command: str = ""


def exact(cell: Cell) -> Number | None:
    """The number that a cell shows, in full; of a share its part; None of texts and formulas."""
    match cell:
        case bool():
            return None
        case int() | float():
            return cell
        case Bytes() | InUnit():
            return cell.size
        case Short() | Rounded():
            return cell.value
        case Share():
            return cell.part
        case _:
            return None


def _likest(candidates: Sequence[Numbered], value: Number, wanted: Wanted) -> tuple[str, ...] | None:
    """Return the keys of the number that is called most like its cell, the first of those that are so alike.

    Of the whole answer, which no row is about, it is the headline; of a row first what is a part of the tree.
    """
    if not candidates:
        return None
    headlines = [one.key for one in HEADLINES.values() if one.command == wanted.command]

    def likeness(one: Numbered) -> tuple[float, ...]:
        return (
            bool(wanted.path) and one.around == wanted.path,
            not wanted.title and len(one.keys) == 1 and one.keys[0] in headlines,
            len(wanted.calls & one.words),
            one.keys[0] == "components",
            len(wanted.title & one.words),
            one.keys[-1] in headlines,
            len(wanted.beside & one.words),
            -len(one.keys),
        )

    best = max(candidates, key=likeness)  # the first of several
    same, _, alike, *_ = likeness(best)
    if isinstance(value, int) and abs(value) <= SMALL and not (same or alike):
        return None
    return best.keys


def _words(text: str) -> set[str]:
    """The words of a text or a key in small letters, without the s of a plural."""
    return {word.rstrip("s") or word for word in WORD.findall(text.lower())}
