"""Which keys a query sees, as numbers: the pairs that attention's products run over."""

from typing import NamedTuple

from tfcalc.core.number import Num, floor_div, minimum


class Pairs(NamedTuple):
    """The query-key pairs of a batch, for one head.

    ``twice`` multiply to twice their number, so that S²/2 stays whole. ``scores`` are those that the softmax runs over:
    all that are computed, for a mask does not shorten a row. ``fused`` kernels keep no scores, so their backward pass
    computes Q Kᵀ a second time. ``limit`` is the window or chunk that a causal mask counts. ``keys`` is how
    long a row of scores is, where all are as long.
    """

    twice: tuple[Num, ...]
    scores: Num
    fused: bool = False
    limit: Num | None = None
    keys: Num | None = None


def twice_sliding(length: Num, window: Num) -> Num:
    """Twice the pairs where a query sees its own key and the ``window`` − 1 before it.

    The first m = min(l, w) queries see 1, 2, …, m keys, the others w each: ``m(m + 1) + 2w(l − m)``.

    >>> twice_sliding(5, 2), twice_sliding(5, 9)
    (18, 30)
    """
    first: Num = minimum(length, window)
    return first * (first + 1) + 2 * window * (length - first)


def in_pieces(length: Num, size: Num) -> Num:
    """The pairs where a sequence is cut into pieces of ``size``, each by itself: Σ c², the last one shorter.

    >>> in_pieces(5, 2)
    9
    """
    whole: Num = floor_div(length, size)
    rest = length - size * whole
    return whole * (size * size) + rest * rest


def twice_chunked(length: Num, chunk: Num) -> Num:
    """Twice the pairs where a query sees the keys of its own chunk up to its own: Σ c(c + 1), the last one shorter.

    >>> twice_chunked(5, 2)
    14
    """
    whole: Num = floor_div(length, chunk)
    rest = length - chunk * whole
    return whole * (chunk * (chunk + 1)) + rest * (rest + 1)
