"""What stands for mathematics where there is nothing but ASCII."""

from __future__ import annotations

import re

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
