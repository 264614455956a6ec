"""HTML: what a notebook shows for a report."""

from __future__ import annotations

from html import escape

from tfcalc.report.sheet import Cell, Share, Sheet, for_people
from tfcalc.report.style import Style

BAR = "#4aa8e066"
"""Colour of bars, which lets letters be read on a light page and on a dark one."""


def render(sheet: Sheet, style: Style) -> str:
    """A table with its title as caption and its notes below."""
    heading = "".join(f"<th>{escape(column.heading)}</th>" for column in sheet.columns)
    rows = []
    for index, row in enumerate(sheet.rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, sheet.columns, strict=True)):
            indent = f"padding-left:{1 + sheet.depth(index)}em;" if place == 0 else ""
            side = "right" if column.numeric else "left"
            cells.append(f'<td style="{indent}text-align:{side}{_bar(cell)}">{escape(for_people(cell, style))}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    notes = "".join(f"<div>{escape(note)}</div>" for note in sheet.below(style))
    caption = "<br>".join(map(escape, sheet.above()))
    return f"<table><caption>{caption}</caption><tr>{heading}</tr>{''.join(rows)}</table>{notes}"


def _bar(cell: Cell) -> str:
    """Style of a cell that is a part of a whole: a bar behind its number, as long as the part.

    >>> _bar(Share(1, 4, 1)), _bar("gpt2")
    (';background:linear-gradient(to right,#4aa8e066 25.0%,transparent 25.0%)', '')
    """
    if not isinstance(cell, Share) or not cell.whole:
        return ""
    length = f"{min(1.0, max(0.0, cell.fraction)):.1%}"
    return f";background:linear-gradient(to right,{BAR} {length},transparent {length})"
