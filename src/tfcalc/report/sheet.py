"""Layout of an answer before it has a format: columns, rows of typed cells, and lines above and below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TypeVar, overload

from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.opening import Declared
from tfcalc.report.style import Style
from tfcalc.units import grouped, parse_bytes, rounded, short, short_bytes, short_tokens


class Share(NamedTuple):
    """A part of a whole, shown in per cent with this many ``digits``."""

    part: int
    whole: int
    digits: int = 1

    @property
    def fraction(self) -> float:
        """0 where the whole is nothing."""
        return self.part / self.whole if self.whole else 0.0


class Bytes(NamedTuple):
    """An amount of memory: exact in the formats for programs, rounded with its unit in those for people."""

    size: int


class InUnit(NamedTuple):
    """An amount of memory in a ``unit`` that the heading names: exact in the formats for programs."""

    size: int
    unit: str


class Times(NamedTuple):
    """Number of copies, and the size of each; ``unit`` is params, flops or bytes."""

    copies: int
    each: int
    unit: str


class Factors(NamedTuple):
    """Factors that multiply to a size, ``n × 3 × (h × h)``: how many there are, and the factors of each."""

    copies: tuple[Polynomial | int, ...]
    each: tuple[Polynomial | int, ...]


class InNumbers(NamedTuple):
    """A formula with ``sizes`` in the place of its letters, ``12·768² + 13·768``."""

    formula: Polynomial
    sizes: Mapping[str, str]


class Matrices(NamedTuple):
    """A sum of which each matrix is a term of its own, ``h(ad) + 2h(gd) + (ad)h``."""

    terms: tuple[Factors, ...]


class Rounded(NamedTuple):
    """A number that is not counted but divided or measured: some ``figures`` for people, all of them for programs."""

    value: float
    figures: int = 4


class Short(NamedTuple):
    """A whole number of which three figures tell enough; ``billion`` is the prefix of 10⁹ (B of parameters)."""

    value: int | float
    billion: str = "G"


class Tokens(NamedTuple):
    """A length in tokens, where k is 1,024 as people say it: ``128k``, ``1M``, ``514``."""

    length: int


class Order(NamedTuple):
    """A growth, written O(…)."""

    growth: Polynomial


class NumberOf(NamedTuple):
    """A cell that is a number of the answer: ``shown`` as any other, and found at these ``keys`` of its JSON."""

    shown: Cell
    keys: tuple[str, ...]


Cell = (
    str
    | int
    | float
    | Polynomial
    | Share
    | Bytes
    | InUnit
    | Times
    | Factors
    | InNumbers
    | Matrices
    | Rounded
    | Short
    | Tokens
    | Order
    | NumberOf
    | None
)


@overload
def of(cell: None, *keys: Declared | str | int) -> None: ...


@overload
def of(cell: Cell, *keys: Declared | str | int) -> Cell: ...


def of(cell: Cell, *keys: Declared | str | int) -> Cell:
    """Return the cell as the number at these keys of the answer, each as it is declared, or a name or place in a list.

    An empty cell is no number.

    >>> of(Bytes(12), "stages", 0, "weights_bytes")
    NumberOf(shown=Bytes(size=12), keys=('stages', '0', 'weights_bytes'))
    """
    if cell is None or cell == "":
        return cell
    return NumberOf(cell, tuple(str(key) if isinstance(key, str | int) else key.name for key in keys))


T = TypeVar("T")
NOT_YET = "…"
"""Stands in the place of what is found later."""
FIRST, SECOND, WHOLE = 1, 2, 3
"""Sights of an answer: numbers that are there at once, then the verdict on them, then all of it."""


class Sight:
    """A sight of an answer, by its number, and the ``next`` one that has more; 0 where there is none."""

    def __init__(self, number: int) -> None:
        self.number, self.next = number, 0


_SIGHT: ContextVar[Sight | None] = ContextVar("_SIGHT", default=None)


@contextmanager
def at_sight(number: int) -> Iterator[None]:
    """Within it, what takes longer than this sight is left out of a sheet: a page shows the rest at once."""
    before = _SIGHT.set(Sight(number))
    try:
        yield
    finally:
        _SIGHT.reset(before)


def later(find: Callable[[], T], meanwhile: T, sight: int = WHOLE) -> T:
    """Return what is found, which takes long; before that ``sight`` something else ``meanwhile``.

    >>> with at_sight(FIRST):
    ...     print(later(lambda: "FITS", NOT_YET, SECOND), next_sight())
    … 2
    >>> with at_sight(SECOND):
    ...     print(later(lambda: "FITS", NOT_YET, SECOND), next_sight())
    FITS 0
    >>> later(lambda: "FITS", NOT_YET), next_sight()
    ('FITS', 0)
    """
    now = _SIGHT.get()
    if now is None or now.number >= sight:
        return find()
    now.next = min(now.next or sight, sight)
    return meanwhile


def next_sight() -> int:
    """The next sight that has more than was found at this one; 0 where nothing was left out."""
    now = _SIGHT.get()
    return now.next if now else 0


At = tuple[int, int]
"""Row and column of a cell."""
TITLE: At = (-1, 0)
"""What stands over the rows: the number that ``-q`` prints."""

LONGEST_FORMULA = 25
"""Characters of a formula that a table shows unasked, if none of its formulas has more."""


class Column(NamedTuple):
    """A heading; whether its cells are numbers (set flush right); what becomes of them where room is short.

    Those that ``folds`` marks are wrapped between words. The ``spare`` are left out, the highest number first, before a
    table is wider than the terminal. A ``formula`` column is there where all formulas are short, or with --formulas.
    The lines that it is ``explained`` by follow the table, unless the column is left out.
    """

    heading: str
    numeric: bool = True
    folds: bool = False
    spare: int = 0
    formula: bool = False
    explained: Sequence[str] = ()


class Sheet(NamedTuple):
    """One table under a ``title`` and a ``subtitle``, and the lines below it.

    ``title`` is the verdict or the number. ``quiet`` is what ``-q`` prints: the answer alone. ``depths`` indent the
    first column, and ``paths`` say in full what the indentation means, for programs. Below the table come ``notes``
    (what belongs to the answer), then a line each of what it ``assumes``, what is ``not_counted``, and commands to
    ``see_also``; the full ``assumptions`` follow with --assumptions, the ``legend`` where there are formulas.
    ``detailed`` makes the same answer with everything opened: for --formulas, and for programs. ``letters`` are those
    that the user has for some of the formulas' letters.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    quiet: Cell
    subtitle: str = ""
    notes: Sequence[str] = ()
    assumes: Sequence[str] = ()
    not_counted: str = ""
    see_also: Sequence[str] = ()
    assumptions: Sequence[str] = ()
    legend: Mapping[str, str] = MappingProxyType({})
    depths: Sequence[int] = ()
    paths: Sequence[str] = ()
    detailed: Callable[[], Sheet] | None = None
    letters: Mapping[str, str] = MappingProxyType({})

    def depth(self, row: int) -> int:
        """Return how far the first cell of a row is indented."""
        return self.depths[row] if row < len(self.depths) else 0

    def numbers(self) -> dict[At, tuple[str, ...]]:
        """Keys of the numbers of the answer that its cells are, by the places of these; the title is one, too."""
        cells = ((at, cell) for at, cell in self._cells() if isinstance(cell, NumberOf))
        return {at: cell.keys for at, cell in cells}

    def bare(self) -> Sheet:
        """Return a copy as the formats print it: its cells do not say which numbers they are, and nothing is opened."""
        rows = [[bare(cell) for cell in row] for row in self.rows]
        return self._replace(quiet=bare(self.quiet), rows=rows, detailed=None)

    def _cells(self) -> Iterator[tuple[At, Cell]]:
        yield TITLE, self.quiet
        for row, cells in enumerate(self.rows):
            yield from (((row, place), cell) for place, cell in enumerate(cells))

    def above(self) -> list[str]:
        """The lines over the table."""
        return [line for line in (self.title, self.subtitle) if line]

    def as_asked(self, style: Style) -> Sheet:
        """Without the formulas, or with all of them, as the style asks for and as they are short enough for."""
        sheet = self.detailed() if style.formulas and self.detailed else self
        if style.formulas:
            return sheet._replace(columns=[c._replace(spare=0) if c.formula else c for c in sheet.columns])
        if not any(column.formula for column in sheet.columns):
            return sheet
        formulas = [place for place, column in enumerate(sheet.columns) if column.formula]
        if all(len(for_people(row[place], style)) <= LONGEST_FORMULA for row in sheet.rows for place in formulas):
            return sheet
        return sheet.without(formulas)

    def without(self, places: Sequence[int]) -> Sheet:
        """Return a copy without these columns, and without the legend where these were the formulas."""
        left = [place for place in range(len(self.columns)) if place not in places]
        columns = [self.columns[place] for place in left]
        legend = {} if any(self.columns[place].formula for place in places) else self.legend
        return self._replace(columns=columns, rows=[[row[place] for place in left] for row in self.rows], legend=legend)

    def below(self, style: Style) -> list[str]:
        """The lines below the table, with the legend in the letters of this style."""
        lines = [*(line for column in self.columns for line in column.explained), *self.notes]
        if self.legend:
            lines.append(", ".join(f"{style.formula(symbol(letter))} {what}" for letter, what in self.legend.items()))
        if self.assumes:
            lines.append(f"Assumes: {', '.join(self.assumes)}")
        if self.not_counted:
            lines.append(f"Not counted: {self.not_counted}")
        if style.assumptions:
            lines += self.assumptions
        asked = {"--formulas": style.formulas, "--assumptions": style.assumptions}
        further = [command for command in self.see_also if not asked.get(command)]
        if further:
            lines.append(f"See also: {'  '.join(further)}")
        return lines


def bare(cell: Cell) -> Cell:
    """Return what a cell shows, without the number that it is."""
    return cell.shown if isinstance(cell, NumberOf) else cell


def for_people(cell: Cell, style: Style) -> str:
    """``44,140,544``, ``n(4h² + 4h)``, ``42.8 %``, ``168 MiB``."""
    match cell:
        case None:
            return ""
        case str():
            return cell
        case NumberOf():
            return for_people(cell.shown, style)
        case Polynomial():
            return style.formula(cell)
        case Factors():
            return _spelt(cell, style)
        case InNumbers():
            return style.in_numbers(cell.formula, cell.sizes)
        case Matrices():
            return " + ".join(style.tensor([*term.copies, *term.each]) for term in cell.terms)
        case Order():
            return f"O({style.formula(cell.growth, factored=False)})"
        case Share():
            return f"{cell.fraction:.{cell.digits}%}".replace("%", " %")
        case Bytes():
            return short_bytes(cell.size, style.units)
        case InUnit():
            return f"{cell.size / parse_bytes(f'1{cell.unit}'):,.1f}"
        case Rounded():
            return rounded(cell.value, cell.figures)
        case Short():
            return short(cell.value, billion=cell.billion)
        case Tokens():
            return short_tokens(cell.length)
        case Times():
            return f"{cell.copies:,} × {_rounded(cell, style)}" if cell.copies != 1 else ""
        case _:
            return grouped(cell)


def for_programs(cell: Cell, style: Style) -> str:
    """``44140544``; a share as a fraction, bytes as a whole number, a formula in ASCII."""
    match cell:
        case None:
            return ""
        case Polynomial() | Order() | Factors() | InNumbers() | Matrices():
            return for_people(cell, style.plain())
        case NumberOf():
            return for_programs(cell.shown, style)
        case Share():
            return f"{cell.fraction:.6f}"
        case Bytes() | InUnit():
            return str(cell.size)
        case Tokens():
            return str(cell.length)
        case Rounded() | Short():
            return str(cell.value)
        case _:
            return str(cell)


def heading_for_programs(heading: str, cells: Iterable[Cell]) -> str:
    """The heading of a column of these cells in the formats for programs, whose memory is in bytes: ``peak bytes``."""
    unit = next((cell.unit for cell in cells if isinstance(cell, InUnit)), "")
    return f"{heading.removesuffix(unit).strip()} bytes" if unit else heading


def _spelt(cell: Factors, style: Style) -> str:
    """``3 × (h × h)``; a single number is 1."""
    copies = [count for count in cell.copies if count != 1]
    if not copies or len(cell.each) <= 1:
        return style.product([*copies, *cell.each] or [1])
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
