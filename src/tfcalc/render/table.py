"""The table for a terminal, drawn by rich; the only place that imports it."""

from __future__ import annotations

import io

from tfcalc.report.sheet import Share, Sheet, for_people
from tfcalc.report.style import Style

AS_WIDE_AS_IT_TAKES = 1_000
ROOM_FOR_BARS = 96
ROOM_FOR_NUMBERS = 72
BAR = 10


def render(sheet: Sheet, style: Style) -> str:
    """The sheet with rules and, where there is room, a bar for every share. Nothing is ever cut: long cells fold."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    ascii_only = style.script == "ascii"
    bars = (
        any(isinstance(cell, Share) for row in sheet.rows for cell in row)
        and (style.width or AS_WIDE_AS_IT_TAKES) >= ROOM_FOR_BARS
    )
    framed = len(sheet.columns) > 1
    table = Table(
        box=(box.ASCII if ascii_only else box.SIMPLE_HEAD) if framed else None,
        show_header=framed,
        pad_edge=False,
        collapse_padding=True,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    roomy = (style.width or AS_WIDE_AS_IT_TAKES) >= ROOM_FOR_NUMBERS
    for place, column in enumerate(sheet.columns):
        table.add_column(
            style.text(column.heading),
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=roomy and (column.numeric or place == 0),
        )
    if bars:
        table.add_column("", overflow="fold")
    for index, row in enumerate(sheet.rows):
        cells = [Text(style.text(for_people(cell, style))) for cell in row]
        cells[0] = Text("  " * sheet.depth(index)) + cells[0]
        if bars:
            cells.append(Text(style.text(_bar(row[-1]))))
        table.add_row(*cells, style="bold" if index == 0 and sheet.depths else None)
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width or AS_WIDE_AS_IT_TAKES,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Text(style.text(sheet.title), style="bold"), overflow="fold")
    console.print(table)
    for note in sheet.below(style):
        console.print(Text(style.text(note), style="dim"), overflow="fold")
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _bar(cell: object) -> str:
    return "█" * round(BAR * cell.fraction) if isinstance(cell, Share) else ""
