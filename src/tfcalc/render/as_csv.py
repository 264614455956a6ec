"""CSV: the rows alone, numbers bare, the first column unindented, and last the path where rows have one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from tfcalc.report.sheet import Cell, Sheet, Times, for_programs
from tfcalc.report.style import Style


def render(sheet: Sheet, style: Style) -> str:
    """A heading line, then a line per row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = sheet.rows[0] if sheet.rows else []
    headings = [column.heading for column in sheet.columns]
    head = [
        heading
        for name, cell in zip_longest(headings, first)
        for heading in (("count", "each") if isinstance(cell, Times) else (name,))
    ]
    writer.writerow([*head, *(["path"] if sheet.paths else [])])
    for place, row in enumerate(sheet.rows):
        cells = [style.plain().text(for_programs(cell, style)) for cell in _apart(row)]
        writer.writerow([*cells, *sheet.paths[place : place + 1]])
    return out.getvalue().rstrip("\n")


def _apart(row: Sequence[Cell]) -> Iterator[Cell]:
    """Count and size in columns of their own."""
    for cell in row:
        yield from (cell.copies, cell.each) if isinstance(cell, Times) else (cell,)
