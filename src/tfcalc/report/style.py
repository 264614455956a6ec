"""How the user wants to read an answer; what it says does not depend on it."""

from typing import NamedTuple

from tfcalc.core.notation import NOTATIONS, SCRIPTS, write
from tfcalc.core.polynomial import Polynomial

# What an encoding without the characters of mathematics gets instead.
TRANSLITERATED = str.maketrans(
    {
        "×": "x",
        "·": "*",
        "²": "^2",
        "³": "^3",
        "√": "sqrt",
        "γ": "gamma",
        "β": "beta",
        "τ": "tau",
        "ρ": "rho",
        "μ": "mu",
        "ᵀ": "^T",
        "−": "-",
        "…": "...",
        "≤": "<=",
        "█": "#",
        "─": "-",
        "░": ".",
        "–": "-",
    }
)


class Style(NamedTuple):
    """``script`` text, ascii or latex; ``notation`` the letters; ``width`` in columns, None for as wide as it takes.

    ``formulas`` shows the column of formulas with its legend, ``assumptions`` all that an answer rests on.
    """

    script: str = "text"
    notation: str = "lbhn"
    units: str = "iec"
    color: bool = False
    width: int | None = None
    formulas: bool = False
    assumptions: bool = False

    def formula(self, number: Polynomial | int, *, factored: bool | None = None) -> str:
        """A closed form in this script and notation; ``factored`` as in :func:`tfcalc.core.notation.write`."""
        return write(number, script=SCRIPTS[self.script], letters=NOTATIONS[self.notation], factored=factored)

    def plain(self) -> "Style":
        """The same letters in ASCII."""
        return self._replace(script="ascii")

    def text(self, words: str) -> str:
        """Words as this script can show them: without ``×`` or ``²`` in ASCII."""
        return words.translate(TRANSLITERATED) if self.script == "ascii" else words
