"""The table for a terminal, drawn by rich; the only place that imports it."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING

from tfcalc.core.notation import wrap as wrap_formula
from tfcalc.core.polynomial import Polynomial
from tfcalc.report.sheet import Cell, Column, Share, Sheet, for_people
from tfcalc.report.style import Style
from tfcalc.units import short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

AS_WIDE_AS_IT_TAKES = 1_000
BAR = 10
ROOM_FOR_BARS = 20  # the bars themselves, and some air
LEAST = 12  # width of a column that folds
MOST_LINES = 4  # of a cell that folds, where its column is to spare
GAP = 2
INDENT = "  "
KEPT_TOGETHER = "\u00a0"
"""A space at which no line is broken: between a flag and its value."""
UNIT = re.compile(r"([KMGTP]i|[kMGTP])?B[,;.)]*|%[,;.)]*")
"""What no line parts from its number."""


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
    needed = sum(widths) + GAP * (len(widths) - 1)
    out = io.StringIO()
    console = _console(out, style, max(width, needed))
    lines = [(line, "bold" if place == 0 else "") for place, line in enumerate(sheet.above())]
    for line, look in lines:
        _say(console, filled(style.text(line), width), look)
    if cells:
        roomy = any(bars) and needed + ROOM_FOR_BARS < width
        console.print()
        console.print(_table(sheet, cells, widths, bars if roomy else []))
        console.print()
    for line in sheet.below(style):
        _say(console, filled(style.text(line), width), "dim")
    return "\n".join(line.rstrip() for line in style.text(out.getvalue()).rstrip().splitlines())


def _say(console: Console, text: str, look: str) -> None:
    """Lines of text; without colour rich has nothing to do for them, and takes its time."""
    if console.no_color:
        console.file.write(f"{text}\n")
        return
    from rich.text import Text

    console.print(Text(text, style=look))


def filled(text: str, width: int, indent: str = "") -> str:
    """Text in lines of at most so many characters, broken between words alone; flags keep their values."""
    lead = text[: len(text) - len(text.lstrip())]
    lines = wrap(
        _together(text.strip()),
        width,
        break_long_words=False,
        break_on_hyphens=False,
        initial_indent=lead,
        subsequent_indent=lead + indent,
    )
    return "\n".join(lines or [""]).replace(KEPT_TOGETHER, " ")


def _together(text: str) -> str:
    """Each flag and its value, and each number and its unit, as one word."""
    words = text.split(" ")
    found = words[0]
    for before, word in pairwise(words):
        flagged = before.startswith("--") and word and not word.startswith(("-", "("))
        joined = flagged or (before[-1:].isdigit() and UNIT.fullmatch(word))
        found += (KEPT_TOGETHER if joined else " ") + word
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
    """How wide each column is, with its lines as they are."""
    from rich.cells import cell_len

    return [
        max(cell_len(line) for cell in (column.heading, *(row[place] for row in cells)) for line in cell.split("\n"))
        for place, column in enumerate(columns)
    ]


def _longest_word(text: str) -> int:
    """What a cell that folds needs, as no word is broken; its further lines are indented."""
    return max(len(word) + len(INDENT) for word in _together(text).split(" "))


def _shared(room: int, needed: list[tuple[int, int]]) -> list[int]:
    """The room of columns that may fold, of which each has all that it needs and the least that it can do with.

    The narrow ones get all that they need, the others what is left, but never less than their least.
    """
    found = [0] * len(needed)
    by_width = sorted(range(len(needed)), key=lambda place: needed[place])
    for count, place in zip(range(len(needed), 0, -1), by_width, strict=True):
        whole, least = needed[place]
        found[place] = max(min(whole, room // count), min(least, whole))
        room -= found[place]
    return found


def _wrapped(text: str, width: int, cell: Cell) -> str:
    """The text of a cell in lines: formulas are broken before a sign, anything else between words."""
    if len(text) <= width:
        return text
    return "\n".join(wrap_formula(text, width)) if isinstance(cell, Polynomial) else filled(text, width, INDENT)


def _rounded(text: str, cell: Cell) -> str:
    return short(cell) if isinstance(cell, int) and abs(cell) >= MILLION else text


MILLION = 10**6
"""From where on a number is rounded where there is no room for its digits."""


def _console(out: io.StringIO, style: Style, width: int) -> Console:
    from rich.console import Console

    return Console(
        file=out,
        width=width,
        height=1,  # without one, rich reads the size from the environment
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        soft_wrap=True,
    )


def _table(sheet: Sheet, cells: list[list[str]], widths: list[int], bars: list[str]) -> Table:
    """The cells in columns; whole columns are drawn faster than their cells, where none has several lines."""
    from rich.table import Table
    from rich.text import Text

    headed = any(column.heading for column in sheet.columns)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
    for column, width in zip(sheet.columns, widths, strict=True):
        table.add_column(justify="right" if column.numeric else "left", no_wrap=True, min_width=width)
    styles = ["bold" if sheet.depths and sheet.depth(index) == 0 else "" for index in range(len(cells))]
    if bars:
        table.add_column(no_wrap=True)
        cells = [[*row, bar] for row, bar in zip(cells, bars, strict=True)]
    if headed:
        rest = [""] * bool(bars)
        table.add_row(*(Text(column.heading, style="bold") for column in sheet.columns), *rest)
        table.add_row(*("─" * width for width in widths), *rest)
    if any("\n" in cell for row in cells for cell in row):
        for row, look in zip(cells, styles, strict=True):
            table.add_row(*(Text(cell, style=look) for cell in row))
    else:
        table.add_row(*(Text("\n").join(map(Text, column, styles)) for column in zip(*cells, strict=True)))
    return table


def _bar(cell: Cell) -> str:
    return "█" * round(BAR * min(cell.fraction, 1)) if isinstance(cell, Share) else ""
