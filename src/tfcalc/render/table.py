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
ROOM_FOR_BARS = 28  # the bars themselves, and the gaps between the columns
LEAST = 16  # width of a column that folds
GAP = 1


def render(sheet: Sheet, style: Style) -> str:
    """The sheet with rules and, where there is room, a bar for every share.

    Nothing is ever cut: where room is short the columns fold that may, and where that is not enough the cells of a row
    stand below each other.
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
    console.print(_table(sheet, cells, width) or Text(_stacked(sheet, cells)), overflow="fold")
    for note in sheet.below(style):
        console.print(Text(style.text(note), style="dim"), overflow="fold")
    return "\n".join(line.rstrip() for line in style.text(out.getvalue()).rstrip().splitlines())


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


def _table(sheet: Sheet, cells: list[list[str]], width: int) -> Table | None:
    """The cells in columns; None where there is no room for them."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    columns, framed = sheet.columns, len(sheet.columns) > 1
    headings = [f" {column.heading}" if place else column.heading for place, column in enumerate(columns)]
    needed = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    least = sum(LEAST if column.folds else size + GAP for column, size in zip(columns, needed, strict=True))
    if framed and least > width:
        return None
    fits = sum(needed) + GAP * len(needed) <= width
    # The gap between columns is the space before each cell, not rich's padding, which takes as long again to draw.
    table = Table(
        box=box.SIMPLE_HEAD if framed else None, show_header=framed, header_style="bold", pad_edge=False, padding=0
    )
    for column, heading, size in zip(columns, headings, needed, strict=True):
        table.add_column(
            heading,
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=framed and not column.folds,
            width=size if fits else None,
        )
    bars = sum(needed) + ROOM_FOR_BARS < width and any(isinstance(row[-1], Share) for row in sheet.rows)
    if bars:
        table.add_column("", overflow="fold")
    styles = ["bold" if sheet.depths and sheet.depth(index) == 0 else "" for index in range(len(cells))]
    if bars:
        cells = [[*row, _bar(given[-1])] for row, given in zip(cells, sheet.rows, strict=True)]
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
