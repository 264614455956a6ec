"""The table for a terminal, drawn by rich; the only place that imports it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tfcalc.report.sheet import Cell, Share, Sheet, for_people
from tfcalc.report.style import Style

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

AS_WIDE_AS_IT_TAKES = 1_000
BAR = 10
ROOM_FOR_BARS = 20  # the bars themselves, and some air
LEAST = 16  # width of a column that folds
MOST_LINES = 5  # of a cell that folds, where its column is to spare
GAP = 1
EDGE = 1


def render(sheet: Sheet, style: Style) -> str:
    """The sheet with rules and, where there is room, a bar for every share.

    No cell is ever cut: where room is short the columns fold that may, then those are left out that are to spare, and
    where that is not enough the cells of a row stand below each other.
    """
    from rich.text import Text

    width = style.width or AS_WIDE_AS_IT_TAKES
    cells = [[f" {style.text(for_people(cell, style))}" for cell in row] for row in sheet.rows]
    for index, row in enumerate(cells):
        row[0] = "  " * sheet.depth(index) + row[0].removeprefix(" ")
    out = io.StringIO()
    console = _console(out, style, width)
    for line in sheet.above():
        console.print(Text(style.text(line), style="bold" if line == sheet.title else ""), overflow="fold")
    shown = _shown(sheet, cells, width)
    if shown:
        console.print(_table(sheet, cells, shown, width), overflow="fold")
    else:
        console.print(Text(_stacked(sheet, cells)), overflow="fold")
    for note in [*_left_out(sheet, shown), *sheet.below(style)]:
        console.print(Text(style.text(note), style="dim"), overflow="fold")
    return "\n".join(line.rstrip() for line in style.text(out.getvalue()).rstrip().splitlines())


def _shown(sheet: Sheet, cells: list[list[str]], width: int) -> list[int]:
    """The places of the columns that there is room for: all, or all but some that are to spare; empty where none is."""
    columns, needed = sheet.columns, _needed(sheet, cells)
    every = range(len(columns))
    spare = [place for place in reversed(every) if columns[place].spare]
    for left_out in ([], *([place] for place in spare), spare):
        shown = [place for place in every if place not in left_out]
        fixed = EDGE + sum(needed[place] + GAP for place in shown if not columns[place].folds)
        folding = [needed[place] for place in shown if columns[place].folds]
        room = (width - fixed) // len(folding) - GAP if folding else 0
        lines = -(-max(folding) // room) if folding and room > 0 else 1
        if len(columns) == 1 or (fixed + (LEAST + GAP) * len(folding) <= width and (lines <= MOST_LINES or not spare)):
            return shown
    return []


def _needed(sheet: Sheet, cells: list[list[str]]) -> list[int]:
    """How wide each column is where nothing folds."""
    from rich.cells import cell_len

    return [max(map(cell_len, column)) for column in zip(_headings(sheet), *cells, strict=True)]


def _headings(sheet: Sheet) -> list[str]:
    return [f" {column.heading}" if place else column.heading for place, column in enumerate(sheet.columns)]


def _left_out(sheet: Sheet, shown: list[int]) -> list[str]:
    missing = [column.heading for place, column in enumerate(sheet.columns) if shown and place not in shown]
    return [f"left out for want of room: {', '.join(missing)} (--format plain has all)"] if missing else []


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
    )


def _table(sheet: Sheet, cells: list[list[str]], shown: list[int], width: int) -> Table:
    """The cells in columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    framed = len(sheet.columns) > 1
    headings, sizes = _headings(sheet), _needed(sheet, cells)
    needed = EDGE + sum(sizes[place] + GAP for place in shown)
    fits = needed <= width
    # The gap between columns is the space before each cell, not rich's padding, which takes as long again to draw.
    table = Table(
        box=box.SIMPLE_HEAD if framed else None, show_header=framed, header_style="bold", pad_edge=False, padding=0
    )
    for place in shown:
        table.add_column(
            headings[place],
            justify="right" if sheet.columns[place].numeric else "left",
            overflow="fold",
            no_wrap=framed and not sheet.columns[place].folds,
            width=sizes[place] if fits else None,
        )
    cells = [[row[place] for place in shown] for row in cells]
    if needed + ROOM_FOR_BARS < width and any(isinstance(row[-1], Share) for row in sheet.rows):
        table.add_column("", overflow="fold")
        cells = [[*row, _bar(given[-1])] for row, given in zip(cells, sheet.rows, strict=True)]
    styles = ["bold" if sheet.depths and sheet.depth(index) == 0 else "" for index in range(len(cells))]
    if fits:  # nothing folds: whole columns are drawn faster than their cells
        columns_of_text = zip(*cells, strict=True)
        table.add_row(*(Text("\n").join(map(Text, column, styles)) for column in columns_of_text))
    else:
        for row, style in zip(cells, styles, strict=True):
            table.add_row(*map(Text, row), style=style)
    return table


def _stacked(sheet: Sheet, cells: list[list[str]]) -> str:
    """Each row's first cell, and below it the others with their headings."""
    lines = [""]
    for first, *others in cells:
        indent = " " * (len(first) - len(first.lstrip()) + 2)
        filled = (pair for pair in zip(sheet.columns[1:], others, strict=True) if pair[1].strip())
        lines += [first, *(f"{indent}{column.heading}:{cell}" for column, cell in filled)]
    return "\n".join([*lines, ""])


def _bar(cell: Cell) -> str:
    return "█" * round(BAR * min(cell.fraction, 1)) if isinstance(cell, Share) else ""
