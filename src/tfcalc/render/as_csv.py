"""CSV: the rows alone, numbers bare, the first column unindented, and last the path where rows have one.

A text that a spreadsheet would take for a formula has an apostrophe in front, by which it is text there.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from tfcalc.report.sheet import Cell, Sheet, Times, for_programs, heading_for_programs
from tfcalc.report.style import Style

FORMULA = re.compile(r"[=@\t\r\uff1d\uff20]|[+\uff0b\uff0d-](?!\Z)")
"""Characters that begin a formula in a spreadsheet, wide East Asian forms included."""
NONE = re.compile(r"[+-][\d.,]+( ?[%A-Za-z]+)?|--[a-z][\w.,: -]*")
"""Signed amounts and options, which begin so and compute nothing: ``+13.4 %``, ``--attention causal``."""


def render(sheet: Sheet, style: Style) -> str:
    """A heading line, then a line per row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = sheet.rows[0] if sheet.rows else []
    headings = [
        defused(heading_for_programs(column.heading, (row[place] for row in sheet.rows if place < len(row))))
        for place, column in enumerate(sheet.columns)
    ]
    head = [
        heading
        for name, cell in zip_longest(headings, first)
        for heading in (("count", "each") if isinstance(cell, Times) else (name,))
    ]
    writer.writerow([*head, *(["path"] if sheet.paths else [])])
    for place, row in enumerate(sheet.rows):
        cells = [_written(cell, style) for cell in _apart(row)]
        writer.writerow([*cells, *map(defused, sheet.paths[place : place + 1])])
    return out.getvalue().rstrip("\n")


def defused(text: str) -> str:
    """The text, with an apostrophe in front where a spreadsheet would compute it.

    >>> defused("=1+1"), defused("-1+1"), defused("-5 %"), defused("--zero 3")
    ("'=1+1", "'-1+1", '-5 %', '--zero 3')
    """
    return f"'{text}" if FORMULA.match(text) and not NONE.fullmatch(text) else text


def _written(cell: Cell, style: Style) -> str:
    text = style.plain().text(for_programs(cell, style))
    return defused(text) if isinstance(cell, str) else text


def _apart(row: Sequence[Cell]) -> Iterator[Cell]:
    """Count and size in columns of their own."""
    for cell in row:
        yield from (cell.copies, cell.each) if isinstance(cell, Times) else (cell,)
