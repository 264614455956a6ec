"""Larger, smaller, rounded and chosen numbers: of one layout, or of each of a million in arrays.

One layout needs no numpy, which is only imported where arrays are.
"""

from __future__ import annotations

import math
from typing import Any

from tfcalc.core.number import Num
from tfcalc.core.traced import value_of

Many = Any
"""A number, or an array of numbers, one for each layout."""


def is_array(value: Many) -> bool:
    """Return whether it is an array."""
    return hasattr(value, "dtype")


def whole(value: Num) -> Many:
    """Return the int of a size, or the array of sizes that it is."""
    return value if is_array(value) else value_of(value)


def greatest(value: Many) -> int:
    """Return the largest of an array, or the number itself.

    >>> greatest(7)
    7
    """
    return int(value.max() if is_array(value) else value)


def larger(left: Many, right: Many) -> Many:
    """Return the larger one.

    >>> larger(2, 3.5)
    3.5
    """
    if not (is_array(left) or is_array(right)):
        return max(left, right)
    import numpy as np

    return np.maximum(left, right)


def smaller(left: Many, right: Many) -> Many:
    """Return the smaller one."""
    return -larger(-left, -right)


def rounded_up(value: Many) -> Many:
    """Return the smallest whole number that is no less."""
    return -(-value // 1)


def log2(value: Many) -> Many:
    """Return the binary logarithm."""
    if not is_array(value):
        return math.log2(value)
    import numpy as np

    return np.log2(value)


def where(condition: Many, then: Many, otherwise: Many) -> Many:
    """Return ``then`` where the condition holds, else ``otherwise``.

    >>> where(2 > 1, "yes", "no")
    'yes'
    """
    if not is_array(condition):
        return then if condition else otherwise
    import numpy as np

    return np.where(condition, then, otherwise)
