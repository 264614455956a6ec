"""Rectangles, lines and text of an SVG file that is readable on a phone, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

WIDTH = 360
SHOWN = 480
"""Width in pixels where there is room; a narrower page scales it down."""
PAPER = ("#ffffff", "#0d1117")
INKS = {
    "ink": ("#1f2328", "#e6edf3"),
    "dim": ("#57606a", "#9da7b3"),
    "blue": ("#0969da", "#58a6ff"),
    "orange": ("#bc4c00", "#f0883e"),
    "green": ("#1a7f37", "#3fb950"),
    "purple": ("#8250df", "#bc8cff"),
}
"""Each colour in light and in dark."""

Point = tuple[float, float]


def _style() -> str:
    """Text in a colour, shapes filled with it lightly (``of-…``), lines of it (``by-…``)."""
    shared = (
        "text{font-family:sans-serif;white-space:pre}.mono{font-family:monospace}.strong{font-weight:600}"
        "[class^=of-]{fill-opacity:.32;stroke-width:1}[class^=by-]{fill:none;stroke-width:1.5}"
        ".dashed{stroke-dasharray:4 3}"
    )

    def scheme(at: int) -> str:
        colours = (
            f".{name}{{fill:{ink[at]}}}.of-{name}{{fill:{ink[at]};stroke:{ink[at]}}}.by-{name}{{stroke:{ink[at]}}}"
            for name, ink in INKS.items()
        )
        return f".paper{{fill:{PAPER[at]}}}" + "".join(colours)

    return f"<style>{shared}{scheme(0)}@media(prefers-color-scheme:dark){{{scheme(1)}}}</style>"


def number(value: float) -> str:
    """A coordinate with at most two decimals: the same text on every machine."""
    return f"{value + 0:.2f}".rstrip("0").rstrip(".")


class Picture:
    """An SVG that grows shape by shape; ``title`` and ``description`` are for those who do not see it."""

    def __init__(self, title: str, description: str, height: float) -> None:
        self.title, self.description, self.height = title, description, height
        self.shapes: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Add a rectangle with this upper left corner."""
        sides = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.shapes.append(f'<rect class="of-{colour}" {sides}/>')

    def sheet(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Add a rectangle that hides what is behind it."""
        sides = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.shapes.append(f'<rect class="paper" {sides}/>')
        self.rect(x, y, width, height, colour)

    def frame(self, x: float, y: float, width: float, height: float, colour: str = "dim") -> None:
        """Add a dashed outline."""
        sides = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" rx="4"'
        self.shapes.append(f'<rect class="by-{colour} dashed" {sides}/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 12,
        anchor: str = "start",
        colour: str = "ink",
        style: str = "",
    ) -> None:
        """Add a line of text whose baseline is at y; ``style`` is mono, strong, or both."""
        shape = f'class="{f"{colour} {style}".strip()}" x="{number(x)}" y="{number(y)}" font-size="{number(size)}"'
        placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.shapes.append(f"<text {shape}{placed}>{escape(words, quote=False)}</text>")

    def line(self, points: Iterable[Point], colour: str = "dim", *, dashed: bool = False) -> None:
        """Add a line through these points."""
        along = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.shapes.append(f'<polyline class="by-{colour}{" dashed" if dashed else ""}" points="{along}"/>')

    def arrow(self, points: Iterable[Point], colour: str = "dim") -> None:
        """Add a line with straight turns that ends in an arrow."""
        points = list(points)
        self.line(points, colour)
        (x0, y0), (x, y) = points[-2:]
        dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
        corners = [(x, y), (x - 6 * dx - 3 * dy, y - 6 * dy - 3 * dx), (x - 6 * dx + 3 * dy, y - 6 * dy + 3 * dx)]
        self.shapes.append(
            f'<polygon class="{colour}" points="{" ".join(f"{number(a)},{number(b)}" for a, b in corners)}"/>'
        )

    def area(self, points: Iterable[Point], colour: str) -> None:
        """Add a filled shape with these corners."""
        along = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.shapes.append(f'<polygon class="of-{colour}" points="{along}"/>')

    def cells(self, corners: Iterable[Point], side: float, colour: str) -> None:
        """Add equal squares with these upper left corners."""
        squares = "".join(
            f"M{number(x)},{number(y)}h{number(side)}v{number(side)}h-{number(side)}z" for x, y in corners
        )
        self.shapes.append(f'<path class="of-{colour}" d="{squares}"/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 3.5) -> None:
        """Add a full circle."""
        self.shapes.append(f'<circle class="{colour}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"/>')

    def svg(self) -> str:
        """The whole file."""
        height = number(self.height)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{SHOWN}" '
            f'height="{number(self.height * SHOWN / WIDTH)}" role="img" aria-labelledby="title desc">'
        )
        told = (
            f'<title id="title">{escape(self.title, quote=False)}</title>\n'
            f'<desc id="desc">{escape(self.description, quote=False)}</desc>'
        )
        paper = f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>'
        return "\n".join([head, told, _style(), paper, *self.shapes, "</svg>", ""])
