"""Sizes as people say them: 7 billion of 6.74."""

from __future__ import annotations


def nominal(size: int) -> dict[int, str]:
    """The size with one figure or two, and how it is said; nothing where that is the size itself.

    >>> nominal(6_738_415_616)
    {7000000000: '7B', 6700000000: '6.7B'}
    """
    found: dict[int, str] = {}
    for figures in (1, 2):
        scale = 10 ** max(0, len(str(size)) - figures)
        rounded = (2 * size + scale) // (2 * scale) * scale
        if rounded != size:
            found[rounded] = f"{rounded / 10**9:g}B" if rounded >= 10**9 else f"{rounded / 10**6:g}M"
    return found
