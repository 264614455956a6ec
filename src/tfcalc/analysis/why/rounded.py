"""Sizes as people say them: 7 billion of 6.74, 1.5 billion of 1.56."""

from __future__ import annotations

from typing import NamedTuple

ROUNDED, CUT = 0.25, 0.5
FURTHEST = 10
"""Nobody says a size that is off by more than one part in so many."""


class Said(NamedTuple):
    """A size as it is said, and what it costs to say it so."""

    size: int
    text: str
    cost: float


def nominal(size: int, most_figures: int = 2) -> list[Said]:
    """The size with one figure or a few, rounded or cut, and how it is said; nothing where that is the size itself.

    >>> nominal(6_738_415_616)
    [Said(size=7000000000, text='7B', cost=0.25), Said(size=6700000000, text='6.7B', cost=0.25)]
    >>> [one.text for one in nominal(1_557_611_200)]
    ['1.6B', '1.5B']
    """
    found: dict[int, Said] = {}
    for figures in range(1, most_figures + 1):
        scale = 10 ** max(0, len(str(size)) - figures)
        rounded, cut = (2 * size + scale) // (2 * scale) * scale, size // scale * scale
        for said, cost in ((rounded, ROUNDED), (cut, CUT)):
            if said not in (size, *found) and abs(said - size) * FURTHEST <= size:
                text = f"{said / 10**9:g}B" if said >= 10**9 else f"{said / 10**6:g}M"
                found[said] = Said(said, text, cost)
    return list(found.values())
