"""Curves before they have a format: what a terminal and a file draw."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.units import short, short_bytes, short_tokens

DECADES = 30
"""Of positive numbers so many times apart, equal steps would show the largest alone."""


class Curve(NamedTuple):
    """Points from left to right, under a ``label``; empty where there is but one curve."""

    label: str
    points: tuple[tuple[int, float], ...]


class Mark(NamedTuple):
    """A point with a text of its own, such as where two curves cross."""

    x: int
    y: float
    label: str


class Chart(NamedTuple):
    """Curves over one size; the ``unit`` is params, flops, bytes or share, a ``length`` is in tokens."""

    title: str
    x: str
    y: str
    unit: str
    length: bool
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()
    units: str = "iec"

    @property
    def numbers(self) -> tuple[list[int], list[float]]:
        """Numbers of each axis, sorted."""
        points = [point for curve in self.curves for point in curve.points]
        return sorted({x for x, _ in points}), sorted({y for _, y in points})

    @property
    def logarithmic(self) -> tuple[bool, bool]:
        """Flags of both axes, each true if the axis is better read by factors than by steps."""
        xs, ys = self.numbers
        wide = [bool(axis) and axis[0] > 0 and axis[-1] / axis[0] > DECADES for axis in (xs, ys)]
        return wide[0], wide[1] and self.unit != "share"

    def told_x(self, value: float) -> str:
        """``128k`` tokens, ``1.5k`` of anything else."""
        return short_tokens(round(value)) if self.length else short(round(value))

    def told_y(self, value: float) -> str:
        """``16.1 GiB``, ``1.2T``, ``42 %``."""
        if self.unit == "share":
            return f"{100 * value:.0f} %"
        return short_bytes(value, self.units) if self.unit == "bytes" else short(round(value))
