"""HTML: what a notebook shows for a report."""

from __future__ import annotations

from html import escape

from tfcalc.report.sheet import Sheet, for_people
from tfcalc.report.style import Style


def render(sheet: Sheet, style: Style) -> str:
    """A table with its title as caption and its notes below."""
    heading = "".join(f"<th>{escape(column.heading)}</th>" for column in sheet.columns)
    rows = []
    for index, row in enumerate(sheet.rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, sheet.columns, strict=True)):
            indent = f"padding-left:{1 + sheet.depth(index)}em;" if place == 0 else ""
            side = "right" if column.numeric else "left"
            cells.append(f'<td style="{indent}text-align:{side}">{escape(for_people(cell, style))}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    notes = "".join(f"<div>{escape(note)}</div>" for note in sheet.below(style))
    caption = "<br>".join(map(escape, sheet.above()))
    return f"<table><caption>{caption}</caption><tr>{heading}</tr>{''.join(rows)}</table>{notes}"
