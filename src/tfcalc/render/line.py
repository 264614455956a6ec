"""A verdict: the same line in every format, however wide the terminal is."""

from __future__ import annotations

import csv
import io

from tfcalc.render.as_csv import defused
from tfcalc.report.sheet import Sheet
from tfcalc.report.style import Style


def render(sheet: Sheet, style: Style) -> str:
    """The title, and the lines below it that were asked for."""
    return style.text("\n".join([sheet.title, *sheet.below(style)]))


def render_field(sheet: Sheet, style: Style) -> str:
    """The title as the one field of a CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([defused(style.text(sheet.title))])
    return out.getvalue()
