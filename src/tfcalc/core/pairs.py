"""Numbers of query-key pairs that the products of attention run over, by kind of mask."""

from typing import NamedTuple

from tfcalc.core.number import Num, floor_div, minimum


class Pairs(NamedTuple):
    """The query-key pairs of a batch, for one head.

    The factors ``twice`` multiply to twice the number of pairs, so that l²/2 stays whole. ``scores`` is the number that
    the softmax runs over: all that are computed, as a mask does not shorten a row. ``fused`` kernels save no scores, so
    their backward pass recomputes Q Kᵀ. ``limit`` is the window or chunk of a causal mask. ``keys`` is the length of a
    row of scores if all rows have the same.
    """

    twice: tuple[Num, ...]
    scores: Num
    fused: bool = False
    limit: Num | None = None
    keys: Num | None = None


def twice_sliding(length: Num, window: Num) -> Num:
    """Twice the pairs if a query sees its own key and the ``window`` − 1 before it.

    The first m = min(l, w) queries see 1, 2, …, m keys, the others w each: ``m(m + 1) + 2w(l − m)``.

    >>> twice_sliding(5, 2), twice_sliding(5, 9)
    (18, 30)
    """
    first: Num = minimum(length, window)
    return first * (first + 1) + 2 * window * (length - first)


def in_pieces(length: Num, size: Num) -> Num:
    """Pairs within pieces of ``size``, into which a sequence is cut: Σ c², the last piece shorter.

    >>> in_pieces(5, 2)
    9
    """
    whole: Num = floor_div(length, size)
    rest = length - size * whole
    return whole * (size * size) + rest * rest


def twice_chunked(length: Num, chunk: Num) -> Num:
    """Twice the pairs if a query sees the keys of its chunk up to its own: Σ c(c + 1), the last chunk shorter.

    >>> twice_chunked(5, 2)
    14
    """
    whole: Num = floor_div(length, chunk)
    rest = length - chunk * whole
    return whole * (chunk * (chunk + 1)) + rest * (rest + 1)
