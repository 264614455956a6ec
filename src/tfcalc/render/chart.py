"""Curves in the terminal: plotext draws them in characters."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2, log10
from textwrap import wrap
from typing import TYPE_CHECKING

from tfcalc.errors import Unavailable

if TYPE_CHECKING:
    from tfcalc.report.chart import Chart
    from tfcalc.report.style import Style

WIDTH, HEIGHT = 80, 20
NARROWEST = 40
MARKERS = "*+xo#%@&=~"
"""One for each curve, so that colour carries no meaning."""
CROSS, END = "X", "."
TICKS, FEW = 5, 2
RULERS = {"x": ("x", "lower"), "y": ("y", "left")}
PLAIN = str.maketrans("┌┐└┘├┤┬┴┼─│", "+++++++++-|")


def render(chart: Chart, style: Style) -> str:
    """The chart as wide as the terminal, at most 80 columns where there is none. Raises Unavailable without plotext."""
    try:
        import plotext
    except ImportError:
        raise Unavailable("plotext is not installed", "pip install 'tfcalc[plot]', or give --format csv") from None

    figure = plotext.figure
    figure.clear()
    if not style.color:
        figure.theme("colorless")
    width = max(style.width or WIDTH, NARROWEST)
    figure.plot_size(width, HEIGHT)
    xs, ys = chart.numbers
    at_x, at_y = (log10 if by_factors else float for by_factors in chart.logarithmic)
    for curve, marker in zip(chart.curves, MARKERS, strict=False):
        places = [at_x(x) for x, _ in curve.points], [at_y(y) for _, y in curve.points]
        for ends in zip(*curve.band, strict=True):
            figure.draw(figure.signal(places[0], [at_y(end) for end in ends], marker=END).lines())
        figure.draw(figure.signal(*places, marker=marker).lines())
    for mark in chart.marks:
        figure.draw(figure.signal([at_x(mark.x)], [at_y(mark.y)], marker=CROSS))
    for axis, numbers, place, told in (("x", xs, at_x, chart.told_x), ("y", ys, at_y, chart.told_y)):
        chosen = ticks(numbers, by_factors=place is log10, doubles=axis == "x" and chart.length)
        figure.ruler(*RULERS[axis]).ticks([place(each) for each in chosen], [told(each) for each in chosen])
    drawn = figure.build().string(not style.color)
    figure.clear()
    rows = [line.rstrip() for line in drawn.split("\n") if line.strip()]
    legend = [f"{marker} {curve.label}" for curve, marker in zip(chart.curves, MARKERS, strict=False) if curve.label]
    legend += [f"{END} what it may be"] * any(curve.band for curve in chart.curves)
    marked = [f"{CROSS} {mark.label}" for mark in chart.marks]
    lines = [*wrap(chart.title, width), f"{chart.y} over {chart.x}", "", *rows, *legend, *marked]
    text = "\n".join(lines)
    return style.text(text.translate(PLAIN) if style.script == "ascii" else text)


def ticks(numbers: Sequence[float], *, by_factors: bool, doubles: bool = False) -> list[float]:
    """A few places of an axis: of the numbers themselves where there are few, else round ones between the ends.

    Lengths, of which 1k are 1,024, are round as multiples or powers of 2 (``doubles``).

    >>> ticks([1024, 2048, 4096], by_factors=True), ticks([0, 95], by_factors=False)
    ([1024, 2048, 4096], [0, 20, 40, 60, 80])
    >>> ticks([1, 3, 40, 90, 354, 5000], by_factors=True), ticks([3, 4, 5, 6, 7, 90], by_factors=True)
    ([1, 10, 100, 1000], [5, 10, 20, 50])
    >>> ticks([1024, 4096, 10000], by_factors=False, doubles=True)
    [2048, 4096, 6144, 8192]
    """
    if len(numbers) <= TICKS and by_factors:
        return list(numbers)
    low, high = numbers[0], numbers[-1]
    if doubles and low > 0 and high >= 2 * low:
        exponents = range(ceil(log2(low)), floor(log2(high)) + 1)
        if by_factors:
            return [2**each for each in exponents[:: ceil(len(exponents) / TICKS)]]
        size: float = 2 ** ceil(log2(high / TICKS))
        return [size * place for place in range(ceil(low / size), floor(high / size) + 1)]
    if by_factors:
        return _round_factors(low, high)
    if low == high:
        return [low]
    rough = (high - min(low, 0) if low < 0 else high) / TICKS
    unit = 10 ** floor(log10(rough))
    step = next(unit * size for size in (1, 2, 5, 10) if unit * size >= rough)
    return [step * place for place in range(ceil(low / step), floor(high / step) + 1)]


def _round_factors(low: float, high: float) -> list[float]:
    """Powers of ten between the ends, some of them where there are many; 1, 2 and 5 times these where there are few."""
    exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
    powers = [10**each for each in exponents if low <= 10**each <= high]
    if len(powers) > FEW:
        return powers[:: ceil(len(powers) / TICKS)]
    finer = [unit * 10**each for each in exponents for unit in (1, 2, 5) if low <= unit * 10**each <= high]
    return finer if FEW <= len(finer) <= TICKS + 1 else finer[:: ceil(len(finer) / TICKS)] or [low, high]
