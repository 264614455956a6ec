"""Pictures before they have a format: curves, bars of parts, and a whole divided into its parts."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.named_tuple import NamedTuple
from tfcalc.units import short, short_bytes, short_seconds, short_tokens

DECADES = 30
"""Of positive numbers so many times apart, equal steps would show the largest alone."""


class Curve(NamedTuple):
    """Points from left to right, under a ``label``; empty where there is but one curve.

    An estimate has a ``band``: the lowest and the highest that it may be, at each point.
    """

    label: str
    points: tuple[tuple[int, float], ...]
    band: tuple[tuple[float, float], ...] = ()


class Mark(NamedTuple):
    """A point with a text of its own, such as where two curves cross."""

    x: int
    y: float
    label: str


class Chart(NamedTuple):
    """Curves over one size; a ``length`` is in tokens.

    The ``unit`` is params, flops, bytes, share, seconds, or another word.
    """

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
        ends = {end for curve in self.curves for both in curve.band for end in both}
        return sorted({x for x, _ in points}), sorted({y for _, y in points} | ends)

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
        return amount(value, self.unit, self.units)


class Bars(NamedTuple):
    """A bar for each of the ``rows``, made of sizes of the ``parts``, which are named once for all bars.

    Estimates have ``bands``: the lowest and the highest that each bar may be.
    """

    title: str
    parts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    unit: str = "bytes"
    units: str = "iec"
    bands: tuple[tuple[float, float], ...] = ()

    def told(self, value: float) -> str:
        """``16.1 GiB``."""
        return amount(value, self.unit, self.units)


class Portion(NamedTuple):
    """A part of a whole, with its own ``parts``; ``kind`` says what it is, ``path`` where it is in the JSON."""

    label: str
    kind: str
    value: int
    path: str = ""
    parts: tuple[Portion, ...] = ()


class Divided(NamedTuple):
    """A ``whole``, divided into its parts, these into theirs, down to the last."""

    title: str
    whole: Portion
    unit: str
    units: str = "iec"

    def told(self, value: float) -> str:
        """``8.03B`` parameters, ``16.1 GiB``."""
        return amount(value, self.unit, self.units)


Picture = Chart | Bars | Divided


def side_by_side(title: str, pictures: Mapping[str, Picture]) -> Picture | None:
    """One picture of those of several models: each curve, mark and bar has its model's name before its own.

    None where they have not the same axes, or where each is divided by itself.
    """
    each = list(pictures.items())
    charts = [(name, picture) for name, picture in each if isinstance(picture, Chart)]
    bars = [(name, picture) for name, picture in each if isinstance(picture, Bars)]
    if len(charts) == len(each) and len({(one.x, one.y, one.unit, one.length) for _, one in charts}) == 1:
        curves = (one._replace(label=_of(name, one.label)) for name, chart in charts for one in chart.curves)
        marks = (one._replace(label=_of(name, one.label)) for name, chart in charts for one in chart.marks)
        return charts[0][1]._replace(title=title, curves=tuple(curves), marks=tuple(marks))
    if len(bars) == len(each) and len({one.unit for _, one in bars}) == 1:
        parts = tuple(dict.fromkeys(part for _, one in bars for part in one.parts))
        rows = tuple(
            (_of(name, label), tuple(dict(zip(one.parts, sizes, strict=True)).get(part, 0) for part in parts))
            for name, one in bars
            for label, sizes in one.rows
        )
        bands = tuple(band for _, one in bars for band in one.bands)
        return bars[0][1]._replace(title=title, parts=parts, rows=rows, bands=bands * (len(bands) == len(rows)))
    return None


def _of(name: str, label: str) -> str:
    return f"{name}: {label}" if label else name


def amount(value: float, unit: str, units: str = "iec") -> str:
    """An amount as people say it.

    >>> amount(2**30, "bytes"), amount(0.5, "share"), amount(8e9, "params"), amount(0.0065, "seconds")
    ('1.00 GiB', '50 %', '8B', '6.5 ms')
    """
    match unit:
        case "share":
            return f"{100 * value:.0f} %"
        case "bytes":
            return short_bytes(value, units)
        case "seconds":
            return short_seconds(value)
        case "params":
            return short(round(value), billion="B")
        case _:
            return short(round(value))
