"""Style in which the user wants to read an answer; what the answer says does not depend on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tfcalc.core.notation import LATEX_OF_NUMBERS, SCRIPTS, spelled, write, write_product, write_tensor
from tfcalc.core.polynomial import Polynomial
from tfcalc.named_tuple import NamedTuple

VEGA, SVG, PNG = ".vl.json", ".svg", ".png"
PICTURES = (VEGA, SVG, PNG)
"""Ends of the names of files that are pictures."""
TRANSLITERATED = {
    "×": "x",
    "·": "*",
    "∗": "*",
    "√": "sqrt",
    "⌊": "floor(",
    "⌋": ")",
    "Δ": "Delta",
    "Σ": "Sum",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "λ": "lambda",
    "μ": "mu",
    "ρ": "rho",
    "τ": "tau",
    "ᵀ": "^T",
    "\u0303": "~",
    "−": "-",
    "–": "-",
    "…": "...",
    "≤": "<=",
    "█": "#",
    "▓": "=",
    "▒": "-",
    "≡": "%",
    "░": ".",
    "─": "-",
}
RAISED, LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "₀₁₂₃₄₅₆₇₈₉₊₋"
TRANSLITERATED |= {mark: f"^{plain}" for mark, plain in zip(RAISED, "0123456789+-", strict=True)}
TRANSLITERATED |= {mark: f"_{plain}" for mark, plain in zip(LOWERED, "0123456789+-", strict=True)}
FURTHER = f"(?<=[{RAISED}])[{RAISED}]|(?<=[{LOWERED}])[{LOWERED}]"
"""The digits after the first of an index or a power: ``2³⁰`` is 2^30."""

PLAIN = str.maketrans(TRANSLITERATED)


def in_ascii(words: str) -> str:
    """Words in ASCII, as far as they are our own: what a config's author wrote beyond it stays.

    >>> in_ascii("2³⁰ × ⌊l/2⌋")
    '2^30 x floor(l/2)'
    """
    if words.isascii():
        return words
    return re.sub(FURTHER, lambda mark: TRANSLITERATED[mark[0]][1:], words).translate(PLAIN)


class Style(NamedTuple):
    """``script`` text, ascii or latex; ``notation`` the letters; ``width`` in columns, None for as wide as it takes.

    ``letters`` are the user's own for some of them.
    ``formulas`` shows the column of formulas with its legend, ``assumptions`` all that an answer rests on.
    """

    script: str = "text"
    notation: str = "lbhn"
    units: str = "iec"
    color: bool = False
    width: int | None = None
    formulas: bool = False
    assumptions: bool = False
    letters: Mapping[str, str] = MappingProxyType({})

    def formula(self, number: Polynomial | int, *, factored: bool | None = None) -> str:
        """A closed form in this script and notation; ``factored`` as in :func:`tfcalc.core.notation.write`."""
        return write(number, script=SCRIPTS[self.script], letters=self._letters(number), factored=factored)

    def in_numbers(self, formula: Polynomial, sizes: Mapping[str, str]) -> str:
        """A closed form with sizes in the place of letters: ``12·768² + 13·768``."""
        script = LATEX_OF_NUMBERS if self.script == "latex" else SCRIPTS[self.script]
        return write(formula, script=script, letters=sizes)

    def product(self, factors: Iterable[Polynomial | int]) -> str:
        """Factors with a sign between them: ``(n - 1) × 4h × h``."""
        factors = list(factors)
        return write_product(factors, script=SCRIPTS[self.script], letters=self._letters(*factors))

    def tensor(self, factors: Iterable[Polynomial | int]) -> str:
        """A product of which each factor can be told from the others: ``2h(gd)``."""
        factors = list(factors)
        return write_tensor(factors, script=SCRIPTS[self.script], letters=self._letters(*factors))

    def _letters(self, *numbers: Polynomial | int) -> dict[str, str]:
        letters = {letter for number in numbers if isinstance(number, Polynomial) for letter in number.free_symbols}
        return {letter: self.letters.get(letter) or spelled(letter, self.notation) for letter in letters}

    def plain(self) -> Style:
        """Return a copy of the style that shows the same letters in ASCII."""
        return self._replace(script="ascii")

    def text(self, words: str) -> str:
        """Words as this script can show them: without ``×`` or ``²`` in ASCII."""
        return in_ascii(words) if self.script == "ascii" else words
