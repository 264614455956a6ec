"""Whether it fits, as an answer: the verdict, what would fit, and how much there could be of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.budget import Budget
from tfcalc.analysis.remedies import Remedy, Room
from tfcalc.analysis.sizes import Largest
from tfcalc.analysis.training_report import CONTEXT, FRAGMENTS, OTHER_PHASES
from tfcalc.report import Footer, Outline, Report
from tfcalc.report.report import LINES, WIDE
from tfcalc.report.sheet import Bytes, Column, InUnit, Sheet
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.analysis.paged import PagedCache
    from tfcalc.training.card import OnCard

SEE_ALSO = ("--assumptions", "--json (exact boundaries)")
TIGHT = " (tight)"
INDENT = "  "
"""Of the further lines of a cell."""
BESIDE_ROWS = 5
"""Lines that are blank, or headings with their rule."""
LONGEST_NAME = 40
"""Characters of a name that is not folded."""
BESIDE_FLAGS = 21
"""Columns of the numbers and of the gaps between columns."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer of :func:`~tfcalc.fits`: a verdict, and what else would fit.

    Attributes:
        told: what the memory report of what was asked says beside its breakdown.
        find: finds that report.
        budget: the budget, in bytes and as it was given.
        largest: the largest sizes that fit, all else as asked.
        remedies: changes that would make it fit, with the peak of each in bytes.
        flags: the command-line options of each remedy.
        subtitle: what was asked, in words.
        margin: per cent of the budget that should stay free.
        remarks: limits of the model at the largest sizes.
        paged: in serving with a paged cache, the room for it as vLLM logs it.
        room: bytes that may be allocated, so that it fits; None: all of the budget.
        on_card: in training on a card, what the card shows, each with its band.
        runs: whether the caching allocator ran in what a card has, as far as it was simulated.
    """

    told: Outline
    find: Callable[[], Report]
    budget: Budget
    margin: int
    subtitle: str
    largest: tuple[Largest, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    flags: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()
    paged: PagedCache | None = None
    room: int | None = None
    on_card: OnCard | None = None
    runs: bool = True

    @property
    def report(self) -> Report:
        """The memory report of what was asked, whose breakdown is found when somebody asks for it."""
        return self.find()

    @property
    def headroom(self) -> int:
        """Bytes to spare; below 0 the bytes that are short."""
        return self.budget.bytes - self.told.answer

    @property
    def fits(self) -> bool:
        """Whether the peak is within the budget; on a card, with what fragments may take."""
        return self.runs and self._room.holds(self.told.answer)

    @property
    def tight(self) -> bool:
        """Whether it fits, but leaves less than the margin."""
        return self.fits and self._room.tight(self.told.answer)

    @property
    def verdict(self) -> str:
        """``DOES NOT FIT: needs 75.4 GiB, RTX 4090 has 23.0 GiB usable (52.4 GiB short)``."""
        each = " per GPU" if self.told.conventions.get("gpus", 1) != 1 else ""
        facts = f"needs {self._short(self.told.answer)}{each}, {self.budget.has(self._units)}"
        if self.headroom < 0:
            return f"DOES NOT FIT: {facts} ({self._short(-self.headroom)} short)"
        if not self.fits:
            return f"MAY NOT FIT: {facts} ({self._short(self.headroom)} free)"
        spare = f"{self._short(self.headroom)} to spare"
        return f"FITS{', TIGHTLY' if self.tight else ''}: {facts} ({spare})"

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the keys of the memory report, the verdict and what would fit."""
        found = self.report.to_dict()
        components = found.pop("components")
        return {**found, **self.judged(), "components": components}

    def judged(self) -> dict[str, object]:
        """What of it the memory report has not."""
        return {
            "verdict": self.verdict,
            "budget_bytes": self.budget.bytes,
            "budget": self.budget.stated,
            "budget_notes": list(self.budget.notes),
            "fits": self.fits,
            "tight": self.tight,
            "margin_percent": self.margin,
            "headroom_bytes": self.headroom,
            "allocatable_bytes": self._room.budget,
            **{key: value for each in self.largest for key, value in each.to_dict().items()},
            **({"paged_cache": self.paged._asdict()} if self.paged else {}),
            "changes": [
                {
                    "change": remedy.change.name,
                    "flags": " ".join(flags),
                    "total_bytes": remedy.total,
                    "headroom_bytes": self.budget.bytes - remedy.total,
                    "fits": self._room.holds(remedy.total),
                    "tight": self._room.tight(remedy.total),
                }
                for remedy, flags in zip(self.remedies, self.flags, strict=True)
            ],
        }

    def sheet(self) -> Sheet:
        """The verdict; what would fit, or how much there could be of it; what it rests on."""
        footer, told, notes = self._footer(), list(self._told()), tuple(self._notes())
        above_and_below = (self.verdict, self.subtitle, *notes, *footer.lines())
        room = LINES - BESIDE_ROWS - sum(-(-len(line) // WIDE) for line in above_and_below)
        unit = short_bytes(self.budget.bytes, self._units).split(" ")[1]
        first = "what fits" if self.fits else "what would fit" if self._cured else "what comes closest"
        sheet = Sheet(
            title=self.verdict,
            subtitle=self.subtitle,
            columns=(
                Column(first, numeric=False, folds=any(len(line.name) > LONGEST_NAME for line in told)),
                Column(f"peak {unit}"),
                Column("free"),
                Column("add", numeric=False, folds=True),
            ),
            rows=[
                [
                    line.name,
                    *(size if size is None else InUnit(size, unit) for size in self._sizes(line)),
                    " ".join(line.flags),
                ]
                for line in _shown(told, room)
            ],
            quiet=self.told.answer,
            notes=notes,
            **footer._asdict(),
        )
        return sheet._replace(
            detailed=sheet._replace(
                columns=(Column(first, numeric=False), Column("peak"), Column("free"), Column("add", numeric=False)),
                rows=[
                    [
                        line.name,
                        *(size if size is None else Bytes(size) for size in self._sizes(line)),
                        " ".join(line.flags),
                    ]
                    for line in told
                ],
            )
        )

    def _told(self) -> Iterator[Line]:
        """The rows: remedies where it does not fit; else what was asked, and as much as there could be of it."""
        if self.fits:
            yield Line("as asked", self.told.answer)
            for each in self.largest:
                flags = (each.flags,) if each.value and each.value != each.of.asked else ()
                yield Line(f"largest {each.of.words}: {each.number}", each.total, flags)
        for remedy, to_add in zip(self.remedies, self.flags, strict=True):
            tight = TIGHT if self._room.tight(remedy.total) else ""
            yield Line(remedy.change.name + tight, remedy.total, to_add)

    def _sizes(self, line: Line) -> tuple[int | None, int | None]:
        """A row's peak, and what it leaves."""
        return (None, None) if line.total is None else (line.total, self.budget.bytes - line.total)

    def _notes(self) -> Iterator[str]:
        if self.on_card:
            from tfcalc.analysis.card import in_a_line

            yield in_a_line(self.on_card, self._units)
        if not self.fits:
            yield from self._of_remedies()
        if self.largest and not self.fits:
            names = " / ".join(each.of.words for each in self.largest)
            numbers = dict.fromkeys(each.number for each in self.largest)
            same = len(numbers) == 1 and "none" in numbers
            values = "none" if same else " / ".join(each.number for each in self.largest)
            yield f"Largest {names} {'for this card' if self.budget.card else 'within this budget'}: {values}"
        yield from (f"No largest {each.of.words}: {each.reason}" for each in self.largest if each.reason)
        yield from self.remarks
        yield from (note for note in self.told.notes if not note.startswith(OTHER_PHASES))

    def _of_remedies(self) -> Iterator[str]:
        if not self._cured:
            yield "No change that tfcalc knows makes it fit, nor do all of them together"
        elif all(len(remedy.changes) > 1 for remedy in self.remedies):
            first, *others = (remedy.changes for remedy in self.remedies)
            common = [change for change in first if others and all(change in other for other in others)]
            names = [change.name if len(common) == 1 else change.short or change.name for change in common]
            part = f"; {' and '.join(names)} {'is' if len(names) == 1 else 'are'} part of each" if names else ""
            yield f"No single change is enough{part}"

    def _footer(self) -> Footer:
        """That of the report, with the margin, and with what was assumed of the card."""
        footer = self.told.footer
        bands: list[str] = []
        if self.budget.card:
            footer = footer.counting(CONTEXT)
        if self.on_card:
            from tfcalc.analysis.card import assumptions

            footer, bands = footer.counting(FRAGMENTS), assumptions()
        return Footer(
            (*footer.assumes, *self.budget.assumes, f"margin {self.margin} %"),
            footer.not_counted,
            SEE_ALSO,
            (
                *self.budget.notes,
                *footer.assumptions,
                *bands,
                *([self.paged.in_words] if self.paged else []),
            ),
        )

    @property
    def _cured(self) -> bool:
        """Whether some change makes it fit."""
        return any(self._room.holds(remedy.total) for remedy in self.remedies)

    @property
    def _room(self) -> Room:
        budget = self.budget.bytes if self.room is None else self.room
        return Room(budget, budget * self.margin // 100)

    @property
    def _units(self) -> str:
        return str(self.told.conventions["units"])

    def _short(self, size: int) -> str:
        return short_bytes(size, self._units)

    def __str__(self) -> str:
        from tfcalc.render.plain import render
        from tfcalc.report.style import Style

        return render(self.sheet(), Style(units=self._units))


class Line(NamedTuple):
    """A row: what it is, its bytes, and what to add to the command line for it."""

    name: str
    total: int | None
    flags: Sequence[str] = ()


def _shown(told: Sequence[Line], room: int) -> list[Line]:
    """As many rows as there is room for at 80 columns, one of them at least; programs get all."""
    name = max((len(line.name) for line in told), default=0)
    width = WIDE - BESIDE_FLAGS - min(name, LONGEST_NAME)
    heights = accumulate(max(_height(line.flags, width), -(-len(line.name) // LONGEST_NAME)) for line in told)
    return [line for place, (line, height) in enumerate(zip(told, heights, strict=True)) if height <= room or not place]


def _height(flags: Sequence[str], width: int) -> int:
    """Lines of a cell with these flags, none of which is broken."""
    lines, left = 1, width
    for flag in flags:
        if len(flag) > left and left < width:
            lines, left = lines + 1, width - len(INDENT)
        left -= len(flag) + 1
    return lines
