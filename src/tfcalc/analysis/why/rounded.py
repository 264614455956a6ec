"""Sizes as people say them: 7 billion of 6.74, 1.5 billion of 1.56."""

from __future__ import annotations

FURTHEST = 10
"""Nobody says a size that is off by more than one part in so many."""


def nominal(size: int, most_figures: int = 2) -> dict[int, str]:
    """The size with one figure or a few, rounded or cut, and how it is said; nothing where that is the size itself.

    >>> nominal(6_738_415_616)
    {7000000000: '7B', 6700000000: '6.7B'}
    >>> nominal(1_557_611_200)
    {1600000000: '1.6B', 1500000000: '1.5B'}
    """
    found: dict[int, str] = {}
    for figures in range(1, most_figures + 1):
        scale = 10 ** max(0, len(str(size)) - figures)
        for said in ((2 * size + scale) // (2 * scale) * scale, size // scale * scale):
            if said != size and abs(said - size) * FURTHEST <= size:
                found[said] = f"{said / 10**9:g}B" if said >= 10**9 else f"{said / 10**6:g}M"
    return found
