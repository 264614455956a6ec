"""Whether a sequence is longer than a number, where the answer is a number, too."""

from tfcalc.core.number import Num, floor_div, minimum


def beyond(length: Num, most: int) -> Num:
    """1 where a sequence is longer than ``most``, else 0.

    >>> beyond(4, 4), beyond(5, 4), beyond(50, 4)
    (0, 1, 1)
    """
    longer: Num = minimum(1, floor_div(length, most + 1))
    return longer
