"""Sparse attention: which pairs of query and key a pattern leaves, by their distance, exactly and at the edges too.

Every pattern is the same both ways, and a query sees its own key. So of the pairs of a sequence of n tokens (``pairs``)
a causal mask leaves ``(pairs + n) / 2``: fewer, unless a query sees its own key alone. A ``reach`` as long as the
sequence leaves all n², but for ``atrous``, whose distances are then too far apart: that leaves the n own keys.

Source: Child et al. 2019 (arXiv 1904.10509), section 4; Beltagy et al. 2020 (Longformer, arXiv 2004.05150), section
3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tfcalc.core.number import Num, ceil_div, floor_div, minimum
from tfcalc.core.pairs import twice_chunked, twice_sliding


def local(length: Num, reach: Num) -> Num:
    """Distances from −k to k: ``(2k + 1)n − k(k + 1)`` where k < n, about 2kn.

    >>> local(5, 1), local(5, 9)
    (13, 25)
    """
    return sliding(length, reach + 1)


def sliding(length: Num, reach: Num) -> Num:
    """A window of w keys, its own the last of them, and the same the other way: distances from −(w − 1) to w − 1.

    >>> sliding(5, 2)
    13
    """
    return twice_sliding(length, reach) - length


def atrous(length: Num, reach: Num) -> Num:
    """Distances that are multiples of k: ``n + 2nq − kq(q + 1)`` with q = ⌊n/k⌋, about n²/k.

    There are n − qk pairs at the distance qk, each way; none but those of own keys where k ≥ n.

    >>> atrous(5, 2), atrous(5, 1), atrous(5, 5)
    (13, 25, 5)
    """
    steps: Num = floor_div(length, reach)
    return length + 2 * length * steps - reach * steps * (steps + 1)


def sparse(length: Num, reach: Num) -> Num:
    """Local and atrous together, distances up to k and every k-th beyond: about 2kn + n²/k, and 3n√n where k = √n.

    What is nearer than k and what is a multiple of k share the distance 0 alone.

    >>> sparse(7, 2), sparse(5, 1)
    (37, 25)
    """
    return sliding(length, reach) + atrous(length, reach) - length


def chunked(length: Num, reach: Num) -> Num:
    """Chunks of c tokens that see each other, the last one shorter: ``qc² + (n − qc)²`` with q = ⌊n/c⌋, about cn.

    >>> chunked(5, 2)
    9
    """
    return twice_chunked(length, reach) - length


class Kind(NamedTuple):
    """The ``pairs`` of a sequence, both ways; how many keys its ``last`` query sees; that in words."""

    pairs: Callable[[Num, Num], Num]
    last: Callable[[Num, Num], Num]
    sees: str


KINDS = {
    "local": Kind(local, lambda keys, reach: minimum(keys, reach + 1), "{k} keys before its own and {k} after it"),
    "atrous": Kind(atrous, ceil_div, "keys whose distance is a multiple of {k}"),
    "sparse": Kind(
        sparse,
        lambda keys, reach: minimum(keys, reach) + ceil_div(keys, reach) - 1,
        "{k} keys each way, and those whose distance is a multiple of {k}",
    ),
    "sliding": Kind(sliding, minimum, "a window of {k} keys, its own among them, each way"),
    "chunked": Kind(
        chunked,
        lambda keys, reach: keys - reach * floor_div(keys - 1, reach),
        "the keys of its own chunk of {k}",
    ),
}


class Pattern(NamedTuple):
    """A ``kind`` of pattern with its ``reach``, which is a size: an int, an array, or a symbol.

    >>> Pattern("local", 1).pairs(5), Pattern("local", 1).last(5)
    (13, 2)
    """

    kind: str
    reach: Num

    def pairs(self, length: Num) -> Num:
        """The pairs of a sequence of so many tokens, both ways."""
        return KINDS[self.kind].pairs(length, self.reach)

    def last(self, keys: Num) -> Num:
        """How many of so many keys the last query sees."""
        return KINDS[self.kind].last(keys, self.reach)

    @property
    def sees(self) -> str:
        """What a query sees, in words."""
        return KINDS[self.kind].sees.format(k=self.reach)
