"""The table for a terminal, drawn by rich; the only place that imports it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING

from tfcalc.report.sheet import Cell, Column, Share, Sheet, for_people
from tfcalc.report.style import Style

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
"""Of the further lines of a cell that folds."""

KEPT_TOGETHER = "\u00a0"
"""A space at which no line is broken: between a flag and its value."""


def render(sheet: Sheet, style: Style) -> str:
    """The sheet with a rule under its headings and, where there is room, a bar for every share.

    Nothing is cut, and no name, number or flag is broken. Where room is short the columns wrap that may, then those are
    left out that are to spare; a table that is still too wide is as wide as it takes.
    """
    from rich.text import Text

    width = style.width or AS_WIDE_AS_IT_TAKES
    cells = [[style.text(for_people(cell, style)) for cell in row] for row in sheet.rows]
    for index, row in enumerate(cells):
        row[0] = "  " * sheet.depth(index) + row[0]
    bars = [_bar(next((cell for cell in row if isinstance(cell, Share)), None)) for row in sheet.rows]
    shown, widths = _laid_out(sheet.columns, cells, width)
    sheet = sheet.without([place for place in range(len(sheet.columns)) if place not in shown])
    cells = [_wrapped([row[place] for place in shown], widths, sheet.columns) for row in cells]
    needed = sum(widths) + GAP * (len(widths) - 1)
    out = io.StringIO()
    console = _console(out, style, max(width, needed))
    lines = [(line, "bold" if place == 0 else "") for place, line in enumerate(sheet.above())]
    for line, look in lines:
        console.print(Text(filled(style.text(line), width), style=look))
    if cells:
        roomy = any(bars) and needed + ROOM_FOR_BARS < width
        console.print()
        console.print(_table(sheet, cells, widths, bars if roomy else []))
        console.print()
    for line in sheet.below(style):
        console.print(Text(filled(style.text(line), width), style="dim"))
    return "\n".join(line.rstrip() for line in style.text(out.getvalue()).rstrip().splitlines())


def filled(text: str, width: int, indent: str = "") -> str:
    """Text in lines of at most so many characters, broken between words alone; flags keep their values."""
    lines = wrap(_together(text), width, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent)
    return "\n".join(lines or [""]).replace(KEPT_TOGETHER, " ")


def _together(text: str) -> str:
    """Each flag and its value, and each command to see, as one word."""
    words = text.split(" ")
    found = words[0]
    for before, word in pairwise(words):
        joined = before.startswith("--") and word and not word.startswith(("-", "("))
        found += (KEPT_TOGETHER if joined else " ") + word
    return found


def _laid_out(columns: Sequence[Column], cells: list[list[str]], width: int) -> tuple[list[int], list[int]]:
    """The places of the columns that there is room for, and how wide each is."""
    from rich.cells import cell_len

    needed = [
        max(map(cell_len, (column.heading, *(row[place] for row in cells)))) for place, column in enumerate(columns)
    ]
    least = [
        max(LEAST, *(_longest_word(row[place]) for row in cells)) if cells else LEAST for place in range(len(columns))
    ]
    shown = list(range(len(columns)))
    while True:
        folding = [place for place in shown if columns[place].folds]
        fixed = sum(needed[place] for place in shown if place not in folding) + GAP * (len(shown) - 1)
        widths = _shared(width - fixed, [needed[place] for place in folding], [least[place] for place in folding])
        spare = [place for place in shown if columns[place].spare]
        fits = fixed + sum(widths) <= width
        crowded = any(-(-needed[place] // each) > MOST_LINES for place, each in zip(folding, widths, strict=True))
        if not spare or (fits and not crowded):
            by_place = dict(zip(folding, widths, strict=True))
            return shown, [by_place.get(place, needed[place]) for place in shown]
        shown.remove(max(spare, key=lambda place: (columns[place].spare, place)))


def _shared(room: int, needed: list[int], least: list[int]) -> list[int]:
    """The room that columns get which may fold: the narrow ones all that they need, the others what is left."""
    found = dict.fromkeys(range(len(needed)), 0)
    left = room
    for count, place in zip(range(len(needed), 0, -1), sorted(found, key=lambda at: needed[at]), strict=True):
        found[place] = max(min(needed[place], left // count), min(least[place], needed[place]))
        left -= found[place]
    return [found[place] for place in range(len(needed))]


def _longest_word(cell: str) -> int:
    """What a cell that folds needs, as no word is broken; its further lines are indented."""
    return max((len(word) + len(INDENT) for word in _together(cell).split(" ")), default=0)


def _wrapped(row: list[str], widths: list[int], columns: Sequence[Column]) -> list[str]:
    return [
        filled(cell, width, INDENT) if column.folds and len(cell) > width else cell
        for cell, width, column in zip(row, widths, columns, strict=True)
    ]


def _console(out: io.StringIO, style: Style, width: int) -> Console:
    from rich.console import Console

    return Console(
        file=out,
        width=width,
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
