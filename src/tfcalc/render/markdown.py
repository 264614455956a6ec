"""Markdown: a pipe table, as GitHub shows it."""

from __future__ import annotations

from tfcalc.report.sheet import Sheet, for_people
from tfcalc.report.style import Style

ACTIVE = str.maketrans({"<": "&lt;", "@": "&#64;&#8203;", "[": r"\["})
"""What names from a config could do in a comment: HTML, a mention of somebody, a link or a picture."""


def render(sheet: Sheet, style: Style) -> str:
    """The title in bold, the table, and the notes as a list; what to type next is not for a page."""
    heading = "| " + " | ".join(column.heading for column in sheet.columns) + " |"
    rule = "| " + " | ".join("---:" if column.numeric else "---" for column in sheet.columns) + " |"
    rows = []
    for index, row in enumerate(sheet.rows):
        cells = [for_people(cell, style).translate(ACTIVE).replace("|", r"\|") for cell in row]
        cells[0] = "&nbsp;&nbsp;" * sheet.depth(index) + cells[0].replace("_", r"\_")
        rows.append("| " + " | ".join(cells) + " |")
    below = sheet._replace(see_also=()).below(style)
    notes = ["", *(f"- {note.translate(ACTIVE)}" for note in below)] if below else []
    return style.text(
        "\n".join(
            [
                f"**{sheet.title.translate(ACTIVE)}**",
                *([f"\n{sheet.subtitle.translate(ACTIVE)}"] if sheet.subtitle else []),
                "",
                heading,
                rule,
                *rows,
                *notes,
            ]
        )
    )
