"""LaTeX: a tabular for the booktabs package, formulas in math mode."""

from __future__ import annotations

from tfcalc.core.polynomial import Polynomial
from tfcalc.report.sheet import Cell, Factors, InNumbers, Matrices, Order, Sheet, for_people
from tfcalc.report.style import Style

FORMULAS = Polynomial | Order | Factors | InNumbers | Matrices
ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "_": r"\_",
        "%": r"\%",
        "&": r"\&",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "^": r"\^{}",
        "×": r"$\times$",
        "·": r"$\cdot$",
        "²": r"$^2$",
        "³": r"$^3$",
        "√": r"$\surd$",
        "ᵀ": r"$^\top$",
        "γ": r"$\gamma$",
        "β": r"$\beta$",
    }
)
COMMAND, AS_TEXT = "::", "{:}:"
"""Beginnings of commands to a CI system, with their escapes in LaTeX, where the usual one would be a macro."""


def render(sheet: Sheet, style: Style) -> str:
    """A comment with the title, the tabular, and the notes as comments."""
    math = style._replace(script="latex")
    spec = "".join("r" if column.numeric else "l" for column in sheet.columns)
    lines = [*(f"% {line}" for line in sheet.above()), rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    if any(column.heading for column in sheet.columns):
        lines += [_row([_text(column.heading) for column in sheet.columns]), r"\midrule"]
    for index, row in enumerate(sheet.rows):
        cells = [_cell(cell, math) for cell in row]
        cells[0] = r"\quad " * sheet.depth(index) + cells[0]
        lines.append(_row(cells))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in sheet.below(style))])


def _cell(cell: Cell, math: Style) -> str:
    text = for_people(cell, math)
    return f"${text}$" if isinstance(cell, FORMULAS) else _text(text)


def _text(words: str) -> str:
    return words.translate(ESCAPED).replace(COMMAND, AS_TEXT)


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
