"""Whether it fits, as an answer: the verdict, what would fit, and how much there could be of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.answers.memory_table import card_assumptions, card_line
from tfcalc.answers.training_memory import CONTEXT, FRAGMENTS, OTHER_PHASES
from tfcalc.report import Footer
from tfcalc.report.report import LINES, WIDE
from tfcalc.report.sheet import Bytes, Column, InUnit, Sheet
from tfcalc.search.largest import Largest, Size, largest_of
from tfcalc.search.remedies import Remedy, Room
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.answers.fits import Case
    from tfcalc.answers.memory import Memory
    from tfcalc.serving.paging import PagedCache
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


class ChangeThatFits(NamedTuple):
    """A remedy, with the options to add for it, and whether it fits then, or leaves little."""

    remedy: Remedy
    flags: tuple[str, ...]
    fits: bool
    tight: bool


class Fit:
    """The answer of :func:`~tfcalc.fits`: a verdict, and what else would fit. All is found when it is read.

    Attributes:
        report: the memory report of what was asked, whose JSON has the verdict, too.
        budget: the budget, in bytes and as it was given.
        margin: per cent of the budget that should stay free.
        largest: the largest sizes that fit, all else as asked.
        remedies: changes that would make it fit, with the peak of each in bytes.
        flags: the command-line options of each remedy.
        remarks: limits of the model at the largest sizes.
        paged: in serving with a paged cache, the room for it as vLLM logs it.
        room: bytes that may be allocated, so that it fits.
        on_card: in training on a card, what the card shows, each with its band.
        runs: whether the caching allocator ran in what a card has, as far as it was simulated.
    """

    def __init__(self, memory: Memory, case: Case[Any], margin: int) -> None:
        self.report, self.case, self.margin = memory, case, margin
        self.budget = case.budget
        self.in_a_line = False
        """Whether people are told the verdict alone."""

    @property
    def room(self) -> int:
        """Bytes that may be allocated, so that it fits."""
        return self.case.room

    @property
    def on_card(self) -> OnCard | None:
        """What the card shows."""
        return self.case.on_card

    @property
    def runs(self) -> bool:
        """Whether the caching allocator ran."""
        return self.case.runs

    @cached_property
    def largest(self) -> tuple[Largest, ...]:
        """The largest sizes that fit, all else as asked."""
        return tuple(largest_of(size, self.room) for size in self.case.sizes())

    @cached_property
    def sizes(self) -> Mapping[str, Largest]:
        """The same by their names; each is found when it is read."""
        return LargestOf({size.name: size for size in self.case.sizes()}, self)

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """Changes that would make it fit."""
        allowed = self.runs and self.report.total_bytes <= self.room
        return () if allowed else tuple(self.case.remedies(self.margin))

    @property
    def flags(self) -> tuple[tuple[str, ...], ...]:
        """The command-line options of each remedy."""
        return tuple(self.case.flags(each.change) for each in self.remedies)

    @property
    def changes(self) -> tuple[ChangeThatFits, ...]:
        """The remedies, as in the JSON."""
        return tuple(
            ChangeThatFits(remedy, flags, self._room.holds(remedy.total), self._room.tight(remedy.total))
            for remedy, flags in zip(self.remedies, self.flags, strict=True)
        )

    @cached_property
    def paged(self) -> PagedCache | None:
        """What an engine that pages its cache has room for."""
        return self.case.paged()

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Limits of the model at the largest sizes."""
        found = self.case.remarks_at(self.largest)
        return tuple(sorted(found)) if self._room.holds(self.report.answer) else ()

    @property
    def subtitle(self) -> str:
        """What was asked, in words."""
        return self.report.subtitle

    @property
    def headroom(self) -> int:
        """Bytes to spare; below 0 the bytes that are short."""
        return self.budget.bytes - self.report.answer

    @property
    def fits(self) -> bool:
        """Whether the peak is within the budget; on a card, with what fragments may take."""
        return self.runs and self._room.holds(self.report.answer)

    @property
    def tight(self) -> bool:
        """Whether it fits, but leaves less than the margin."""
        return self.fits and self._room.tight(self.report.answer)

    @property
    def verdict(self) -> str:
        """``DOES NOT FIT: needs 75.4 GiB, RTX 4090 has 23.0 GiB usable (52.4 GiB short)``."""
        each = " per GPU" if self.report.definitions.get("gpus", 1) != 1 else ""
        facts = f"needs {self._short(self.report.answer)}{each}, {self.budget.has(self._units)}"
        if self.headroom < 0:
            return f"DOES NOT FIT: {facts} ({self._short(-self.headroom)} short)"
        if not self.fits:
            return f"MAY NOT FIT: {facts} ({self._short(self.headroom)} free)"
        spare = f"{self._short(self.headroom)} to spare"
        return f"FITS{', TIGHTLY' if self.tight else ''}: {facts} ({spare})"

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the keys of the memory report, the verdict and what would fit."""
        return self.report.to_dict()

    def opener(self) -> Memory:
        """Where its numbers come from: the report says it."""
        return self.report

    def sheet(self) -> Sheet:
        """The verdict; what would fit, or how much there could be of it; what it rests on."""
        if self.in_a_line:
            return self._alone()
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
            quiet=self.report.total_bytes,
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
            yield Line("as asked", self.report.answer)
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
            yield card_line(self.on_card, self._units)
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
        yield from (note for note in self.report.notes if not note.startswith(OTHER_PHASES))

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
        footer = self.report.footer
        bands: list[str] = []
        if self.budget.card:
            footer = footer.counting(CONTEXT)
        if self.on_card:
            footer, bands = footer.counting(FRAGMENTS), card_assumptions()
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
        return Room(self.room, self.room * self.margin // 100)

    @property
    def _units(self) -> str:
        return str(self.report.definitions["units"])

    def _short(self, size: int) -> str:
        return short_bytes(size, self._units)

    def _alone(self) -> Sheet:
        """The verdict alone, below which the assumptions stand where they are asked for."""
        return Sheet(self.verdict, (), (), self.report.total_bytes, assumptions=self._footer().assumptions)

    def __str__(self) -> str:
        from tfcalc.render.plain import render
        from tfcalc.report.style import Style

        return render(self.sheet(), Style(units=self._units))


class LargestOf(Mapping[str, Largest]):
    """The largest values of sizes by their names, each found when it is read."""

    def __init__(self, sizes: Mapping[str, Size], fit: Fit) -> None:
        self._sizes, self._fit, self._found = sizes, fit, dict[str, Largest]()

    def __getitem__(self, name: str) -> Largest:
        if "largest" in self._fit.__dict__:
            return next(each for each in self._fit.largest if each.of.name == name)
        if name not in self._found:
            self._found[name] = largest_of(self._sizes[name], self._fit.room)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)


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
