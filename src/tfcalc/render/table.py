"""The table for a terminal, drawn by rich; the only place that imports it."""

from __future__ import annotations

import io

from tfcalc.report.sheet import Share, Sheet, for_people
from tfcalc.report.style import Style

AS_WIDE_AS_IT_TAKES = 1_000
ROOM_FOR_BARS = 28  # the bars themselves, and the gaps between the columns
LEAST = 16  # of a column that folds
GAP = 1
BAR = 10


def render(sheet: Sheet, style: Style) -> str:
    """The sheet with rules and, where there is room, a bar for every share. Nothing is ever cut: long cells fold."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = style.width or AS_WIDE_AS_IT_TAKES
    rows = [[style.text(for_people(cell, style)) for cell in row] for row in sheet.rows]
    for index, row in enumerate(rows):
        row[0] = "  " * sheet.depth(index) + row[0]
        row[1:] = [f" {cell}" for cell in row[1:]]
    needed = [
        max(map(cell_len, (f" {column.heading}", *cells)))
        for column, cells in zip(sheet.columns, zip(*rows, strict=True), strict=True)
    ]
    fits = sum(needed) + GAP * len(needed) <= width
    least = sum(LEAST if column.folds else size + GAP for column, size in zip(sheet.columns, needed, strict=True))
    bars = any(isinstance(cell, Share) for row in sheet.rows for cell in row) and sum(needed) + ROOM_FOR_BARS < width
    framed = len(sheet.columns) > 1
    table = Table(
        box=box.SIMPLE_HEAD if framed else None,
        show_header=framed,
        pad_edge=False,
        padding=0,  # the gap is a space before each cell but the first, which draws in half the time
        header_style="bold",
    )
    for place, (column, size) in enumerate(zip(sheet.columns, needed, strict=True)):
        table.add_column(
            style.text(f" {column.heading}" if place else column.heading),
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=not column.folds,
            width=size if fits else None,
        )
    if bars:
        table.add_column("", overflow="fold")
    for index, (cells, shown) in enumerate(zip(sheet.rows, rows, strict=True)):
        texts = [Text(cell) for cell in shown]
        if bars:
            texts.append(Text(style.text(_bar(cells[-1]))))
        table.add_row(*texts, style="bold" if sheet.depths and sheet.depth(index) == 0 else None)
    out = io.StringIO()
    console = Console(
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
    console.print(Text(style.text(sheet.title), style="bold"), overflow="fold")
    if sheet.subtitle:
        console.print(Text(style.text(sheet.subtitle)), overflow="fold")
    console.print(table if least <= width or not framed else Text(_stacked(sheet, rows)), overflow="fold")
    for note in sheet.below(style):
        console.print(Text(style.text(note), style="dim"), overflow="fold")
    return "\n".join(line.rstrip() for line in style.text(out.getvalue()).rstrip().splitlines())


def _stacked(sheet: Sheet, rows: list[list[str]]) -> str:
    """Where there is no room for columns: each row's first cell, and below it the others with their headings."""
    lines = [""]
    for first, *others in rows:
        indent = " " * (len(first) - len(first.lstrip()) + 2)
        lines.append(first)
        lines += [
            f"{indent}{column.heading}:{cell}" for column, cell in zip(sheet.columns[1:], others, strict=True) if cell
        ]
    return "\n".join([*lines, ""])


def _bar(cell: object) -> str:
    return "█" * round(BAR * cell.fraction) if isinstance(cell, Share) else ""
