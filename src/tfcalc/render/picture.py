"""Pictures of a page as SVG: their colours are those of the page, light or dark, and each can be read out.

They are drawn here and not by vl-convert, which needs most of a second before its first picture (V8), makes 26 kB of
each and fixes its colours; Vega in the page would be 0.9 MB of script, which no mail and no pull request runs.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from math import log10
from urllib.parse import quote

from tfcalc.named_tuple import NamedTuple
from tfcalc.render.chart import ticks
from tfcalc.report.chart import Bars, Chart, Curve, Divided, Picture, Portion

WIDTH, NARROW, HEIGHT = 720, 360, 340
"""Width of a picture, and of the one that is shown in its place where there is less room; letters are as large."""
LEFT, RIGHT, TOP, BOTTOM = 74, 132, 16, 44
LETTER = 6.4
"""Width of a letter of the labels, about."""
ROW = 34
"""Height of a bar, or of a level of a divided whole."""
LINE = 18
"""Height of a line of text."""
NARROWEST = 26
"""Width from which on a portion has a label."""
COLORS = 8
KINDS = {
    "attention": 0,
    "ffn": 1,
    "experts": 2,
    "embedding": 3,
    "head": 4,
    "output": 4,
    "ssm": 5,
    "router": 6,
    "norm": 6,
}
"""Colour of each kind of block, the same in all pictures."""
STRUCTURE = COLORS - 1
"""Colour of what blocks are in."""
DASHED = 26
"""Length of a line in a legend, in which its dashes are seen."""
DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 4", "1 4")
"""Of each curve, so that colour carries no meaning."""

STYLE = """\
svg{background:var(--paper)}
.t{font:12px system-ui,sans-serif;fill:var(--ink)}
.t.h{paint-order:stroke;stroke:var(--paper);stroke-width:3px}
.t.q{fill:var(--quiet)}.t.e{text-anchor:end}.t.m{text-anchor:middle}
.g{stroke:var(--rule);stroke-width:1}.c{fill:none;stroke-width:2.2}.b{opacity:.18}
.x{fill:none;stroke:var(--ink);stroke-width:2}
.p{stroke:var(--paper);stroke-width:1}.on{fill:#111}"""
FILLS = ("#4aa8e0", "#f08a4b", "#3fc79a", "#dfa0c4", "#f0b93a", "#9fd8f7", "#d6cb4d", "#b4b4b4")
"""Colours of areas, light enough for dark letters on light pages and on dark ones: those of Okabe and Ito, which people
with any colour vision tell apart, and after them an olive and a grey."""
LINES = ("#0072b2", "#c04f00", "#007a59", "#a8467f", "#8a6000", "#2f7fae", "#6f6600", "#666666")
"""The same for lines on a light page, dark enough; on a dark page they are those of areas."""
FILLED = "".join(f"--f{place}:{color};" for place, color in enumerate(FILLS))
LIGHT = "--ink:#1b1b1b;--quiet:#595959;--rule:#d9d9d9;--paper:#ffffff;" + "".join(
    f"--s{place}:{color};" for place, color in enumerate(LINES)
)
DARK = "--ink:#ececec;--quiet:#b0b0b0;--rule:#444444;--paper:#16181c;" + "".join(
    f"--s{place}:{color};" for place, color in enumerate(FILLS)
)


def colours_of(selector: str) -> str:
    """Style sheet of the pictures within these elements, by the light or the dark of the reader.

    >>> colours_of("figure").startswith("figure{--f0:")
    True
    """
    return f"{selector}{{{FILLED}{LIGHT}}}@media(prefers-color-scheme:dark){{{selector}{{{DARK}}}}}{STYLE}"


OWN = colours_of("svg")
"""Style of a picture in a file of its own."""


class DrawnPicture(NamedTuple):
    """A picture as SVG, and what it shows in words."""

    svg: str
    words: str


def drawn(
    picture: Picture,
    name: str,
    *,
    alone: bool = False,
    links: Callable[[str], str] | None = None,
    wide: int = WIDTH,
) -> DrawnPicture:
    """Draw a picture. ``name`` tells it from the others of the page; one that is ``alone`` has its own colours.

    A portion of a whole is linked to where its number comes from: ``links`` make an address of the number's path.
    """
    match picture:
        case Chart():
            height, body, words = _curves_height(picture, wide), "".join(_curves(picture, wide)), _told_curves(picture)
        case Bars():
            height, body, words = _bars_height(picture, wide), "".join(_bars(picture, wide)), _told_bars(picture)
        case _:
            levels = _levels(picture.whole)
            height, words = levels * ROW + 8, _told_portions(picture)
            body = "".join(_portions(picture, wide, None if alone else links or anchor))
    own = f"<style>{OWN}</style>" if alone else ""
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    role = "group" if isinstance(picture, Divided) and not alone else "img"
    title, described = f"{name}-title", f"{name}-words"
    head = (
        f'<svg{space} viewBox="0 0 {wide} {height}" role="{role}" aria-labelledby="{title}" '
        f'aria-describedby="{described}">'
        f'<title id="{title}">{escape(picture.title)}</title><desc id="{described}">{escape(words)}</desc>{own}'
    )
    return DrawnPicture(f"{head}{body}</svg>", words)


def figure(picture: Picture, name: str, links: Callable[[str], str] | None = None) -> str:
    """The picture with its title below, drawn twice: style sheets show the narrow one where the other has no room."""
    title = escape(picture.title)
    both = {"full": drawn(picture, name, links=links), "narrow": drawn(picture, f"{name}-n", links=links, wide=NARROW)}
    made = "".join(f'<div class="{shown}">{one.svg}</div>' for shown, one in both.items())
    return f"<figure>{made}<figcaption>{title}</figcaption></figure>\n"


def image(picture: Picture, name: str) -> str:
    """The picture as an image in HTML that needs no other file, with what it shows as its text."""
    made = drawn(picture, name, alone=True)
    data = b64encode(made.svg.encode()).decode()
    said = escape(f"{picture.title}. {made.words}")
    return f'<img width="{WIDTH}" alt="{said}" src="data:image/svg+xml;base64,{data}"><br>'


class _Scale(NamedTuple):
    """A place on the picture for a number: by equal steps, or by equal factors."""

    low: float
    high: float
    begin: float
    end: float
    by_factors: bool

    def __call__(self, value: float) -> float:
        low, high, at = (log10(each) if self.by_factors else each for each in (self.low, self.high, value))
        return self.begin + (self.end - self.begin) * ((at - low) / (high - low) if high > low else 0.5)


def _scales(chart: Chart, wide: int) -> tuple[_Scale, _Scale]:
    xs, ys = chart.numbers
    by_factors = chart.logarithmic
    lowest = ys[0] if by_factors[1] or ys[0] < 0 else 0
    highest = 1.0 if chart.unit == "share" else ys[-1]
    return (
        _Scale(xs[0], xs[-1], LEFT, _right(chart, wide), by_factors[0]),
        _Scale(lowest, highest, HEIGHT - BOTTOM, TOP, by_factors[1]),
    )


def _named_below(chart: Chart, wide: int) -> bool:
    """Return whether the names of the curves are too long for the room behind their ends."""
    return wide < WIDTH or max(len(curve.label) for curve in chart.curves) * LETTER > RIGHT - 22


def _right(chart: Chart, wide: int) -> int:
    """Right end of the curves."""
    return wide - (LEFT // 2 if _named_below(chart, wide) else RIGHT)


def _curves_height(chart: Chart, wide: int) -> int:
    names = [curve.label for curve in chart.curves]
    if not _named_below(chart, wide) or not any(names):
        return HEIGHT
    return HEIGHT + 24 + LINE * max(line for line, _, _ in _placed(names, wide, LEFT, DASHED))


def _curves(chart: Chart, wide: int) -> Iterator[str]:
    at_x, at_y = _scales(chart, wide)
    xs, ys = chart.numbers
    right = _right(chart, wide)
    in_binary = chart.unit == "bytes" and chart.units == "iec"
    for value in ticks(ys, by_factors=at_y.by_factors, doubles=in_binary):
        y = at_y(value)
        yield f'<path class="g" d="M{LEFT} {y:.1f}H{right}"/>'
        yield _text(LEFT - 6, y + 4, chart.told_y(value), "q e")
    for value in ticks(xs, by_factors=at_x.by_factors, doubles=chart.length):
        yield _text(at_x(value), HEIGHT - BOTTOM + 18, chart.told_x(value), "q m")
    yield _text((LEFT + right) / 2, HEIGHT - 6, _axis(chart), "q m")
    for place, curve in enumerate(chart.curves):
        yield from _curve(curve, place, at_x, at_y, chart)
    taken: list[tuple[float, float, float]] = []
    for mark in sorted(chart.marks):
        x, y = at_x(mark.x), at_y(mark.y)
        yield f'<path class="x" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"/>'
        width = LETTER * len(mark.label)
        before = x + width + 12 > wide
        left, line = (x - 10 - width, y - 9) if before else (x + 10, y + 18)
        while any(left < end and begin < left + width and abs(other - line) < LINE for begin, end, other in taken):
            line += -LINE if before else LINE  # of two crossings side by side, one is named above the other
        taken.append((left, left + width, line))
        within = left >= 0  # a name that has room on neither side begins at the edge
        yield _text(
            x - 10 if before and within else max(left, 0), line, mark.label, "e h" if before and within else "h"
        )
    if _named_below(chart, wide):
        yield from _legend_of_curves([curve.label for curve in chart.curves], wide)
    else:
        yield from _labels(chart, at_y)


def _legend_of_curves(names: Sequence[str], wide: int) -> Iterator[str]:
    for place, (line, x, name) in enumerate(_placed(names, wide, LEFT, DASHED) if any(names) else ()):
        y = HEIGHT + 16 + LINE * line
        yield f'<path class="c" stroke="var(--s{place % COLORS})"{_dashed(place)} d="M{x:.1f} {y - 4}h{DASHED}"/>'
        yield _text(x + DASHED + 5, y, name)


def _dashed(place: int) -> str:
    dashes = DASHES[place % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' * bool(dashes)


def _curve(curve: Curve, place: int, at_x: _Scale, at_y: _Scale, chart: Chart) -> Iterator[str]:
    color = f"var(--s{place % COLORS})"
    if curve.band:
        there = [(x, high) for (x, _), (_, high) in zip(curve.points, curve.band, strict=True)]
        back = [(x, low) for (x, _), (low, _) in zip(curve.points, curve.band, strict=True)]
        yield f'<path class="b" fill="{color}" d="{_path((*there, *reversed(back)), at_x, at_y)}Z"/>'
    yield f'<path class="c" stroke="{color}"{_dashed(place)} d="{_path(curve.points, at_x, at_y)}"/>'
    for index, (x, y) in enumerate(curve.points):
        told = f"{curve.label}: " * bool(curve.label) + f"{chart.told_y(y)} at {chart.told_x(x)}"
        if curve.band:
            told += f" ({' to '.join(chart.told_y(end) for end in curve.band[index])})"
        circle = f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3.2" fill="{color}">'
        yield f"{circle}<title>{escape(told)}</title></circle>"


def _labels(chart: Chart, at_y: _Scale) -> Iterator[str]:
    """The name of each curve behind its end, none over another."""
    ends = sorted((at_y(curve.points[-1][1]), curve.label, place) for place, curve in enumerate(chart.curves))
    apart = [end for end, _, _ in ends]
    for place in range(1, len(apart)):
        apart[place] = max(apart[place], apart[place - 1] + 15)
    for y, (_, label, place) in zip(apart, ends, strict=True):
        if label:
            color = f"var(--s{place % COLORS})"
            yield f'<rect x="{WIDTH - RIGHT + 8}" y="{y - 5:.1f}" width="10" height="10" fill="{color}"/>'
            yield _text(WIDTH - RIGHT + 22, y + 4, label)


def _path(points: Iterable[tuple[float, float]], at_x: _Scale, at_y: _Scale) -> str:
    return "M" + "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in points)


def _axis(chart: Chart) -> str:
    return f"{chart.y} over {chart.x}" + ", in tokens" * chart.length


def _told_curves(chart: Chart) -> str:
    told = [
        f"{curve.label or chart.y} from {chart.told_y(curve.points[0][1])} at {chart.told_x(curve.points[0][0])} "
        f"to {chart.told_y(curve.points[-1][1])} at {chart.told_x(curve.points[-1][0])}"
        for curve in chart.curves
    ]
    return f"{_axis(chart)}. {'; '.join([*told, *(mark.label for mark in chart.marks)])}."


WHOLE = 66
"""Width of the number behind a bar, where it has no more room."""
SPACE, MOST_SPACE = 118, 330
"""Width of the names of bars, at least and at most."""


def _space(bars: Bars) -> float:
    longest = max((len(label) for label, _ in bars.rows), default=0)
    return min(MOST_SPACE, max(SPACE, LETTER * longest + 18))


def _bands(bars: Bars) -> Sequence[tuple[float, ...]]:
    """The band of each bar; of numbers that are exact the number 0 alone, which no bar ends before."""
    return bars.bands or [(0.0,)] * len(bars.rows)


def _bars_height(bars: Bars, wide: int) -> int:
    lines = max((line for line, _, _ in _placed(bars.parts, wide)), default=0)
    return len(bars.rows) * _apart(wide) + 30 + LINE * lines


def _apart(wide: int) -> int:
    """Height of a row of bars: in a narrow picture their names are above them."""
    return ROW + 8 + (LINE if wide < WIDTH else 0)


def _bars(bars: Bars, wide: int) -> Iterator[str]:
    ends = [max(sum(sizes), *band) for (_, sizes), band in zip(bars.rows, _bands(bars), strict=True)]
    longest = max(ends, default=0) or 1
    above = wide < WIDTH
    space = 0 if above else _space(bars)
    scale = (wide - space - (WHOLE if above else 90)) / longest
    for row, (label, sizes) in enumerate(bars.rows):
        y, x = row * _apart(wide), space
        yield _text(0, y + 13, label) if above else _text(space - 8, y + 22, label, "e")
        y += LINE if above else 0
        for place, (part, size) in enumerate(zip(bars.parts, sizes, strict=True)):
            if not size:
                continue
            told, width = bars.told(size), size * scale
            yield (
                f'<rect class="p" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" '
                f'fill="var(--f{place % COLORS})"><title>{escape(f"{label}, {part}: {told}")}</title></rect>'
            )
            if width > LETTER * (len(told) + 1):
                yield _text(x + width / 2, y + 22, told, "m on")
            x += width
        if bars.bands:
            low, high = (space + end * scale for end in bars.bands[row])
            told = " to ".join(bars.told(end) for end in bars.bands[row])
            whole = f"M{low:.1f} {y + ROW / 2}H{high:.1f}M{low:.1f} {y + 11}v12M{high:.1f} {y + 11}v12"
            yield f'<path class="x" d="{whole}"><title>{escape(f"{label}: {told}")}</title></path>'
        yield _text(space + ends[row] * scale + 6, y + 22, bars.told(sum(sizes)))
    yield from _legend(bars.parts, len(bars.rows) * _apart(wide) + 18, wide)


def _legend(names: Sequence[str], y: float, wide: int) -> Iterator[str]:
    for place, (line, x, name) in enumerate(_placed(names, wide)):
        top = y + LINE * line
        yield f'<rect x="{x:.1f}" y="{top - 10}" width="11" height="11" fill="var(--f{place % COLORS})"/>'
        yield _text(x + 16, top, name)


def _placed(names: Sequence[str], wide: int, begin: int = SPACE, sample: int = 11) -> Iterator[tuple[int, float, str]]:
    """The names of a legend, each behind a sample of its colour, with its line and where it begins."""
    begin = begin if wide == WIDTH else 0
    line, x = 0, float(begin)
    for name in names:
        width = sample + 5 + LETTER * len(name) + 18
        if x + width > wide and x > begin:
            line, x = line + 1, float(begin)
        yield line, x, name
        x += width


def _told_bars(bars: Bars) -> str:
    told = []
    for (label, sizes), band in zip(bars.rows, _bands(bars), strict=True):
        span = f" ({' to '.join(bars.told(end) for end in band)})" if bars.bands else ""
        parts = (f"{part} {bars.told(size)}" for part, size in zip(bars.parts, sizes, strict=True) if size)
        told.append(f"{label} {bars.told(sum(sizes))}{span}: {', '.join(parts)}")
    return "; ".join(told)


def _levels(portion: Portion) -> int:
    return 1 + max((_levels(part) for part in portion.parts if part.value), default=0)


def _portions(picture: Divided, wide: int, links: Callable[[str], str] | None) -> Iterator[str]:
    scale = wide / (picture.whole.value or 1)

    def placed(portion: Portion, x: float, level: int) -> Iterator[str]:
        width = portion.value * scale
        yield _portion(picture, portion, (x, level * ROW, width), links)
        for part in portion.parts:
            if part.value * scale >= 1:
                yield from placed(part, x, level + 1)
            x += part.value * scale

    yield from placed(picture.whole, 0, 0)


def _portion(
    picture: Divided, portion: Portion, place: tuple[float, float, float], links: Callable[[str], str] | None
) -> str:
    x, y, width = place
    color = KINDS.get(portion.kind, len(portion.kind) % STRUCTURE if portion.kind else STRUCTURE)
    told = f"{portion.label}: {picture.told(portion.value)}, {100 * portion.value / (picture.whole.value or 1):.1f} %"
    rect = (
        f'<rect class="p" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" '
        f'fill="var(--f{color % COLORS})"><title>{escape(told)}</title></rect>'
    )
    if width < NARROWEST:
        return rect
    room = int((width - 8) / LETTER)
    whole = len(portion.label) <= room
    text = _text(x + 4, y + 22, portion.label if whole else f"{portion.label[: room - 1]}…", "on")
    if links is None or not portion.path:
        return rect + text
    text *= whole  # what a link shows is within its name, for those who follow it by saying it
    return f'<a class="opens" href="#{escape(links(portion.path))}" aria-label="{escape(told)}">{rect}{text}</a>'


def _told_portions(picture: Divided) -> str:
    whole = picture.whole
    parts: list[Portion] = [whole]
    while len(parts) == 1 and parts[0].parts:
        parts = list(parts[0].parts)
    told = ", ".join(f"{part.label} {picture.told(part.value)}" for part in parts if part.value)
    return f"{picture.told(whole.value)} in all: {told}"


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text class="{f"t {more}".rstrip()}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def identity(path: str) -> str:
    """The id that the origin of a number has on the page, which has no spaces."""
    return "_".join(path.split())


def anchor(path: str) -> str:
    """Path of a number as an address has it.

    >>> anchor("memory.components.buffers and inputs.bytes")
    'memory.components.buffers_and_inputs.bytes'
    """
    return quote(identity(path), safe=".~-_[]")
