"""Plain text: the table without lines, colour or limits of width."""

from __future__ import annotations

from tfcalc.report.sheet import Sheet, for_people
from tfcalc.report.style import Style


def render(sheet: Sheet, style: Style) -> str:
    """Columns set apart by two spaces, numbers flush right."""
    rows = [[column.heading for column in sheet.columns]] if any(c.heading for c in sheet.columns) else []
    first = len(rows)
    rows += [[for_people(cell, style) for cell in row] for row in sheet.rows]
    for index in range(len(sheet.rows)):
        rows[first + index][0] = "  " * sheet.depth(index) + rows[first + index][0]
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(len(sheet.columns))]
    lines = [
        "  ".join(
            cell.rjust(width) if column.numeric else cell.ljust(width)
            for cell, width, column in zip(row, widths, sheet.columns, strict=True)
        ).rstrip()
        for row in rows
    ]
    below = sheet.below(style)
    return style.text("\n".join([*sheet.above(), "", *lines, *(["", *below] if below else [])]))
