"""The table for a terminal, as wide as there is room; rich measures its characters and gives it its looks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from textwrap import wrap

from tfcalc.core.notation import wrap as wrap_formula
from tfcalc.core.polynomial import Polynomial
from tfcalc.report.sheet import Cell, Column, Share, Sheet, for_people
from tfcalc.report.style import Style
from tfcalc.units import short

AS_WIDE_AS_IT_TAKES = 1_000
BAR = 10
ROOM_FOR_BARS = 20  # the bars themselves, and some air
LEAST = 12  # width of a column that folds
MOST_LINES = 4  # of a cell that folds, where its column is to spare
GAP = 2
INDENT = "  "
BOLD, DIM, PLAIN = "bold", "dim", ""
NO_BREAK = "\u00a0"
"""A space at which no line is broken: between a flag and its value."""
UNIT = re.compile(r"([KMGTP]i|[kMGTP])?B[,;.)]*|%[,;.)]*")
"""Unit after a number, from which no line separates it."""


def render(sheet: Sheet, style: Style) -> str:
    """The sheet with a rule under its headings and, where there is room, a bar for every share.

    Nothing is cut, and no name, number or flag is broken. Where room is short the columns wrap that may, then those are
    left out that are to spare, then large numbers are rounded; a table that is still too wide is as wide as it takes.
    """
    width = style.width or AS_WIDE_AS_IT_TAKES
    cells = [[style.text(for_people(cell, style)) for cell in row] for row in sheet.rows]
    for index, row in enumerate(cells):
        row[0] = "  " * sheet.depth(index) + row[0]
    bars = [_bar(next((cell for cell in row if isinstance(cell, Share)), None)) for row in sheet.rows]
    shown, room = _laid_out(sheet.columns, cells, width)
    if sum(room[place] for place in shown) + GAP * (len(shown) - 1) > width:
        cells = [
            [_rounded(*both) for both in zip(row, kinds, strict=True)]
            for row, kinds in zip(cells, sheet.rows, strict=True)
        ]
        shown, room = _laid_out(sheet.columns, cells, width)
    sheet = sheet.without([place for place in range(len(sheet.columns)) if place not in shown])
    cells = [
        [_wrapped(row[place], room[place], kind) for place, kind in zip(shown, kinds, strict=True)]
        for row, kinds in zip(cells, sheet.rows, strict=True)
    ]
    widths = _needed(sheet.columns, cells)
    lines = [
        (filled(style.text(line), width), BOLD if place == 0 else PLAIN) for place, line in enumerate(sheet.above())
    ]
    if cells:
        roomy = any(bars) and sum(widths) + GAP * (len(widths) - 1) + ROOM_FOR_BARS < width
        lines += [("", PLAIN), *_table(sheet, cells, widths, bars if roomy else []), ("", PLAIN)]
    lines += [(filled(style.text(line), width), DIM) for line in sheet.below(style)]
    while lines and not lines[-1][0]:
        lines.pop()
    return "\n".join(_looking(style.text(line.rstrip()), look, style.color) for line, look in lines)


def _looking(line: str, look: str, color: bool) -> str:
    """The line as it looks on a terminal; without colour there is nothing for rich to do, and nobody waits for it."""
    if not (color and look and line):
        return line
    from rich.style import Style as Look

    return "\n".join(Look.parse(look).render(each) for each in line.split("\n"))


def filled(text: str, width: int, indent: str = "") -> str:
    """Text in lines of at most ``width`` characters, broken between words alone; flags stay with their values."""
    lead = text[: len(text) - len(text.lstrip())]
    lines = wrap(
        _together(text.strip()),
        width,
        break_long_words=False,
        break_on_hyphens=False,
        initial_indent=lead,
        subsequent_indent=lead + indent,
    )
    return "\n".join(lines or [""]).replace(NO_BREAK, " ")


def _together(text: str) -> str:
    """Join each flag and its value, and each number and its unit, to one word."""
    words = text.split(" ")
    found = words[0]
    for before, word in pairwise(words):
        flagged = before.startswith("--") and word and not word.startswith(("-", "("))
        joined = flagged or (before[-1:].isdigit() and UNIT.fullmatch(word))
        found += (NO_BREAK if joined else " ") + word
    return found


def _laid_out(columns: Sequence[Column], cells: list[list[str]], width: int) -> tuple[list[int], dict[int, int]]:
    """The places of the columns that there is room for, and the room that each of them has."""
    needed = dict(enumerate(_needed(columns, cells)))
    least = {place: max([LEAST, *(_longest_word(row[place]) for row in cells)]) for place in needed}
    shown = list(needed)
    while True:
        folding = [place for place in shown if columns[place].folds]
        fixed = sum(needed[place] for place in shown if place not in folding) + GAP * (len(shown) - 1)
        widths = _shared(width - fixed, [(needed[place], least[place]) for place in folding])
        room = needed | dict(zip(folding, widths, strict=True))
        spare = [place for place in shown if columns[place].spare]
        crowded = any(needed[place] > MOST_LINES * room[place] for place in folding)
        if not spare or (fixed + sum(widths) <= width and not crowded):
            return shown, room
        shown.remove(max(spare, key=lambda place: (columns[place].spare, place)))


def _needed(columns: Sequence[Column], cells: list[list[str]]) -> list[int]:
    """Width of each column, with its lines as they are."""
    from rich.cells import cell_len

    return [
        max(cell_len(line) for cell in (column.heading, *(row[place] for row in cells)) for line in cell.split("\n"))
        for place, column in enumerate(columns)
    ]


def _longest_word(text: str) -> int:
    """Least width of a cell that folds, as no word but a long path is broken; its further lines are indented."""
    return max(_unbroken(word) + len(INDENT) for word in _together(text).split(" "))


def _unbroken(word: str) -> int:
    """Characters of a word that stay together."""
    return max(LONG_PATH // 2, *map(len, _steps(word))) if _breaks(word) else len(word)


def _breaks(word: str) -> bool:
    """Return whether it is a path of a model's part that may be broken; one of a file or an address is copied."""
    return len(word) > LONG_PATH and "/" not in word


LONG_PATH = 40
"""Characters of a path, such as ``model.layers[0-2,4-6,8-10].mlp``, up to which it is in one piece."""


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.,\]]*[.,\]]*", path)


def _in_lines(text: str, width: int) -> str:
    """Text in lines, as ``filled`` has it, but for paths that are wider than a line: behind a dot or a comma."""
    lead = text[: len(text) - len(text.lstrip())]
    lines = [lead]
    for word in _together(text.strip()).split(" "):
        whole = not _breaks(word) or len(lead) + len(INDENT) + len(word) <= width
        for place, step in enumerate([word] if whole else _steps(word)):
            begun = bool(lines[-1].strip())
            glue = " " if place == 0 and begun else ""
            if begun and len(lines[-1] + glue + step) > width:
                lines.append(lead + INDENT + step)
            else:
                lines[-1] += glue + step
    return "\n".join(lines).replace(NO_BREAK, " ")


def _shared(room: int, needed: list[tuple[int, int]]) -> list[int]:
    """The room of columns that may fold, of which each has all that it needs and the least that it can do with.

    The narrow ones get all that they need, unless the others need it as their least, and these what is left.
    """
    found = [0] * len(needed)
    by_width = sorted(range(len(needed)), key=lambda place: needed[place])
    for count, place in zip(range(len(needed), 0, -1), by_width, strict=True):
        whole, least = needed[place]
        of_others = sum(min(needed[other]) for other in by_width[-count + 1 :]) if count > 1 else 0
        found[place] = max(min(whole, room // count, room - of_others), min(least, whole))
        room -= found[place]
    return found


def _wrapped(text: str, width: int, cell: Cell) -> str:
    """The text of a cell in lines: formulas are broken before a sign, anything else between words."""
    if len(text) <= width:
        return text
    return "\n".join(wrap_formula(text, width)) if isinstance(cell, Polynomial) else _in_lines(text, width)


def _rounded(text: str, cell: Cell) -> str:
    return short(cell) if isinstance(cell, int) and abs(cell) >= MILLION else text


MILLION = 10**6
"""Smallest number that is rounded where its digits do not fit."""


def _table(sheet: Sheet, cells: list[list[str]], widths: list[int], bars: list[str]) -> Iterator[tuple[str, str]]:
    """The lines of the table, and how each looks: the headings, a rule, and the rows, which may have several lines."""
    if any(column.heading for column in sheet.columns):
        yield _spread([column.heading for column in sheet.columns], sheet.columns, widths), BOLD
        yield (" " * GAP).join("─" * width for width in widths), PLAIN
    for index, row in enumerate(cells):
        look = BOLD if sheet.depths and sheet.depth(index) == 0 else PLAIN
        bar = bars[index] if bars else ""
        for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
            yield _spread(parts, sheet.columns, widths) + " " * GAP + bar, look
            bar = ""


def _spread(parts: Sequence[str], columns: Sequence[Column], widths: list[int]) -> str:
    """One line of the cells, each as wide as its column: numbers are flush right."""
    from rich.cells import cell_len

    spaces = [" " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True)]
    texts = zip(parts, spaces, columns, strict=True)
    return (" " * GAP).join(space + part if column.numeric else part + space for part, space, column in texts)


def _bar(cell: Cell) -> str:
    return "█" * round(BAR * min(cell.fraction, 1)) if isinstance(cell, Share) else ""
