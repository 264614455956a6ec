"""What an answer looks like before it has a format: columns, rows of typed cells, and lines above and below."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.report.style import Style
from tfcalc.units import grouped, short, short_bytes


class Share(NamedTuple):
    """A part of a whole, shown in per cent."""

    part: int
    whole: int

    @property
    def fraction(self) -> float:
        """0 where the whole is nothing."""
        return self.part / self.whole if self.whole else 0.0


class Bytes(NamedTuple):
    """An amount of memory: exact in the formats for programs, rounded with its unit in those for people."""

    size: int


class Times(NamedTuple):
    """So many copies of so much each; ``unit`` is params, flops or bytes."""

    copies: int
    each: int
    unit: str


class Factors(NamedTuple):
    """What multiplies to a size, ``n × 3 × (h × h)``: how many, and the factors of each."""

    copies: tuple[Polynomial | int, ...]
    each: tuple[Polynomial | int, ...]


class Rounded(NamedTuple):
    """A number that is not counted but divided or measured: four figures for people, all of them for programs."""

    value: float


class Order(NamedTuple):
    """A growth, written O(…)."""

    growth: Polynomial


Cell = str | int | float | Polynomial | Share | Bytes | Times | Factors | Rounded | Order | None


class Column(NamedTuple):
    """A heading; whether its cells are numbers (set flush right); what becomes of them where room is short.

    Those that ``folds`` marks fold first; the ``spare`` are left out, with a word about it, before a table falls apart.
    """

    heading: str
    numeric: bool = True
    folds: bool = False
    spare: bool = False


class Sheet(NamedTuple):
    """One table under a ``title`` and a ``subtitle``, with ``notes`` and the ``legend`` of its letters below.

    ``quiet`` is what ``-q`` prints: the answer alone. ``depths`` indent the first column, and ``paths`` say in full
    what the indentation means, for programs.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    quiet: Cell
    subtitle: str = ""
    notes: Sequence[str] = ()
    legend: Mapping[str, str] = MappingProxyType({})
    depths: Sequence[int] = ()
    paths: Sequence[str] = ()

    def depth(self, row: int) -> int:
        """How far the first cell of a row is indented."""
        return self.depths[row] if row < len(self.depths) else 0

    def above(self) -> list[str]:
        """The lines over the table."""
        return [line for line in (self.title, self.subtitle) if line]

    def below(self, style: Style) -> list[str]:
        """The notes, and the legend in the letters of this style."""
        meanings = ", ".join(f"{style.formula(symbol(letter))} {meaning}" for letter, meaning in self.legend.items())
        return [*self.notes, meanings] if meanings else list(self.notes)


def for_people(cell: Cell, style: Style) -> str:
    """``44,140,544``, ``n(4h² + 4h)``, ``42.8 %``, ``168.38 MiB``."""
    match cell:
        case None:
            return ""
        case str():
            return cell
        case Polynomial():
            return style.formula(cell)
        case Factors():
            return _spelt(cell, style)
        case Order():
            return f"O({style.formula(cell.growth, factored=False)})"
        case Share():
            return f"{cell.fraction:.1%}".replace("%", " %")
        case Bytes():
            return short_bytes(cell.size, style.units)
        case Rounded():
            return f"{cell.value:,.4g}"
        case Times():
            return f"{cell.copies:,} × {_rounded(cell, style)}" if cell.copies != 1 else ""
        case _:
            return grouped(cell)


def for_programs(cell: Cell, style: Style) -> str:
    """``44140544``; a share as a fraction, bytes as a whole number, a formula in ASCII."""
    match cell:
        case None:
            return ""
        case Polynomial() | Order() | Factors():
            return for_people(cell, style.plain())
        case Share():
            return f"{cell.fraction:.6f}"
        case Bytes():
            return str(cell.size)
        case Rounded():
            return str(cell.value)
        case _:
            return str(cell)


def _spelt(cell: Factors, style: Style) -> str:
    """``3 × (h × h)``."""
    copies = [count for count in cell.copies if count != 1]
    if not copies or len(cell.each) == 1:
        return style.product([*copies, *cell.each])
    return style.product([*copies, 1]).removesuffix("1") + f"({style.product(cell.each)})"


def _rounded(cell: Times, style: Style) -> str:
    """Parameters in full, as people check them; FLOPs and bytes to three figures, as they are too long."""
    match cell.unit:
        case "bytes":
            return short_bytes(cell.each, style.units)
        case "flops":
            return short(cell.each)
        case _:
            return grouped(cell.each)
