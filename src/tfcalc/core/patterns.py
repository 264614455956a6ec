"""Sparse attention: exact numbers of query-key pairs of patterns that depend on the distance, edges included.

Every pattern is symmetric, and a query sees its own key. So of the ``pairs`` of n tokens a causal mask leaves
``(pairs + n) / 2``. With a ``reach`` of n or more all n² pairs are left, except by ``atrous``: it leaves n own keys.

Source: Child et al. 2019 (arXiv 1904.10509), section 4; Beltagy et al. 2020 (Longformer, arXiv 2004.05150), section
3.1.
"""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.number import Num, ceil_div, floor_div, minimum, twice_chunked, twice_sliding
from tfcalc.named_tuple import NamedTuple


def local(length: Num, reach: Num) -> Num:
    """Distances from −k to k: ``(2k + 1)n − k(k + 1)`` where k < n, about 2kn.

    >>> local(5, 1), local(5, 9)
    (13, 25)
    """
    return sliding(length, reach + 1)


def sliding(length: Num, reach: Num) -> Num:
    """A window of w keys, the query's own included, in both directions: distances from −(w − 1) to w − 1.

    >>> sliding(5, 2)
    13
    """
    return twice_sliding(length, reach) - length


def atrous(length: Num, reach: Num) -> Num:
    """Distances that are multiples of k: ``n + 2nq − kq(q + 1)`` with q = ⌊n/k⌋, about n²/k.

    There are n − jk pairs at the distance jk, each way; only those of own keys if k ≥ n.

    >>> atrous(5, 2), atrous(5, 1), atrous(5, 5)
    (13, 25, 5)
    """
    steps: Num = floor_div(length, reach)
    return length + 2 * length * steps - reach * steps * (steps + 1)


def sparse(length: Num, reach: Num) -> Num:
    """Local and atrous together, distances up to k and every k-th beyond: about 2kn + n²/k, and 3n√n if k = √n.

    Distances below k and multiples of k have only the distance 0 in common.

    >>> sparse(7, 2), sparse(5, 1)
    (37, 25)
    """
    return sliding(length, reach) + atrous(length, reach) - length


def chunked(length: Num, reach: Num) -> Num:
    """Chunks of c tokens that see each other, the last chunk shorter: ``qc² + (n − qc)²`` with q = ⌊n/c⌋, about cn.

    >>> chunked(5, 2)
    9
    """
    return twice_chunked(length, reach) - length


class PatternKind(NamedTuple):
    """A kind of pattern: ``pairs`` of a sequence, keys that its ``last`` query sees, and a description of these."""

    pairs: Callable[[Num, Num], Num]
    last: Callable[[Num, Num], Num]
    sees: str


KINDS = {
    "local": PatternKind(
        local, lambda keys, reach: minimum(keys, reach + 1), "{k} keys before its own and {k} after it"
    ),
    "atrous": PatternKind(atrous, ceil_div, "keys whose distance is a multiple of {k}"),
    "sparse": PatternKind(
        sparse,
        lambda keys, reach: minimum(keys, reach) + ceil_div(keys, reach) - 1,
        "{k} keys each way, and those whose distance is a multiple of {k}",
    ),
    "sliding": PatternKind(sliding, minimum, "a window of {k} keys, its own among them, each way"),
    "chunked": PatternKind(
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
        """The pairs of a sequence of ``length`` tokens, without a causal mask."""
        return KINDS[self.kind].pairs(length, self.reach)

    def last(self, keys: Num) -> Num:
        """Number of keys, out of ``keys``, that the last query sees."""
        return KINDS[self.kind].last(keys, self.reach)

    @property
    def sees(self) -> str:
        """Description of the keys that a query sees."""
        return KINDS[self.kind].sees.format(k=self.reach)
