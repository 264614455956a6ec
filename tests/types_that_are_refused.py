"""Mistakes that mypy must catch: each ignore below is an error as soon as the mistake is none (warn_unused_ignores).

This file is type-checked, not run.
"""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm


def a_formula_must_not_compare_dimensions(h: Num, l: Num) -> Num:
    if h > l:  # type: ignore[operator]
        return h
    return l


def a_formula_must_not_divide_into_floats(h: Num) -> Num:
    return h / 2  # type: ignore[operator]


def a_dimension_is_no_text() -> None:
    Linear("w", "512", 512)  # type: ignore[arg-type]
    Norm("norm", 512, 512)  # type: ignore[arg-type]
