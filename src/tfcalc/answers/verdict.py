"""Verdict on whether a model fits into a budget of memory, how large it may get, and what would make it fit.

The tables for people are made here, too: the verdict, what would fit, and how much there could be of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from tfcalc.analysis.common import check_plans
from tfcalc.answers.memory import memory_of
from tfcalc.answers.memory_base import GRAPHS, Memory, WithChange, card_assumptions, card_line
from tfcalc.answers.training_memory import CONTEXT, FRAGMENTS, FUSED_TAKE_LESS, OTHER_PHASES, OWN_CODE
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_checkpointing, resolve_serving
from tfcalc.dimensions import Described
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.hardware import APPLE
from tfcalc.model import asked_run, default_run, own_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import COLOCATE, SFT, Training, training_preset
from tfcalc.report import Footer
from tfcalc.report.declared import WithSheet
from tfcalc.report.report import LINES, WIDE
from tfcalc.report.sheet import FIRST, NOT_YET, SECOND, Bytes, Cell, Column, InUnit, Sheet, later, of
from tfcalc.report.style import Style
from tfcalc.search.gpus import (
    FITTING,
    MARGIN,
    RISKY,
    SAID,
    TIGHT,
    Capacity,
    CardRule,
    Certain,
    Room,
    Simulated,
    of_card,
    runs_within,
    stated,
)
from tfcalc.search.largest import GrowingSize, Largest, largest_of
from tfcalc.search.remedies import (
    HARDWARE,
    Change,
    Options,
    Remedies,
    Remedy,
    StoredFormat,
    at_rest,
    of_serving,
    of_training,
    remedies,
)
from tfcalc.serving.caches import CELLS, PAGED
from tfcalc.training.methods import with_method, writes
from tfcalc.training.plan_checks import check_gpus, is_upper_bound
from tfcalc.units import short_bytes
from tfcalc.workload import AUTO, Conventions

if TYPE_CHECKING:
    from tfcalc.answers.serving_memory import ServingMemory
    from tfcalc.answers.serving_room import ServingRoom
    from tfcalc.answers.training_memory import TrainingMemory
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.serving.engine_rules import CacheLog, EngineRules, Profile
    from tfcalc.serving.memory import Served
    from tfcalc.serving.paging import PagedCache
    from tfcalc.training.measured import OnCard
    from tfcalc.training.peaks import Peaks
    from tfcalc.workload import Workload


SEE_ALSO = ("--assumptions", "--json (exact boundaries)")
AS_ASKED = "as asked"
TIGHTLY = " (tight)"
SEGMENTS = "less with --alloc-conf expandable_segments, which PyTorch reads from PYTORCH_ALLOC_CONF"
TOOLS = {"NVIDIA": "nvidia-smi", "AMD": "rocm-smi"}
CODE = {
    "AMD": "ROCm, as on CUDA",
    APPLE: "Metal (no such machine was compared)",
    **dict.fromkeys(("Google", "AWS", "Intel"), "as on CUDA (no such card was compared)"),
}
"""Tool that tells of a vendor's cards, and whose kernels are assumed to run on them."""
NO_EXPERT_PARALLELISM = "Expert parallelism is not among these changes"
LAYS_OUT = "lays experts out over GPUs"
"""What is said of a mixture that does not fit."""
INDENT = "  "
"""Of the further lines of a cell."""
BESIDE_ROWS = 5
"""Lines that are blank, or headings with their rule."""
LONGEST_NAME = 40
"""Characters of a name that is not folded."""
BESIDE_FLAGS = 21
"""Columns of the numbers and of the gaps between columns."""


class ChangeThatFits(NamedTuple):
    """A remedy, with the options to add for it."""

    remedy: Remedy
    flags: tuple[str, ...]


class Fit(WithSheet):
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
        runs: whether PyTorch's caching allocator finds room for it in what a card has, as far as it is simulated.
        status: ``fits``, ``tight``, ``risky`` or ``no``.
    """

    def __init__(self, memory: Memory, case: Case[Any]) -> None:
        self.report, self.case, self.margin = memory, case, case.margin
        self.budget = case.budget
        self.in_a_line = False
        """Whether people are told the verdict alone."""
        self.strict = False
        """Whether what fits tightly is not enough."""
        self.further: tuple[str, ...] = ()
        """What more the command that was asked tells, by which options."""

    @property
    def room(self) -> int:
        """Bytes that may be allocated, so that it fits."""
        return self.case.room

    @property
    def on_card(self) -> OnCard | None:
        """Figures that the card shows."""
        return self.case.on_card

    @property
    def runs(self) -> bool:
        """Return whether the allocator finds room for what was asked, as far as it is simulated."""
        return self.case.runs(self.case.run, self.case.plan, self.budget.bytes)

    @cached_property
    def largest(self) -> tuple[Largest, ...]:
        """The largest sizes that fit, all else as asked."""
        return tuple(largest_of(size, self.room) for size in self.case.sizes())

    @cached_property
    def sizes(self) -> Mapping[str, Largest]:
        """Largest sizes that fit, by their names; each is found when it is read."""
        return LargestOf({size.name: size for size in self.case.sizes()}, self)

    @cached_property
    def _search(self) -> Remedies:
        return Remedies() if self.fits else self.case.remedies()

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Changes that would make it fit, the cheapest first; where nothing does, what comes closest."""
        return self._search.found

    @property
    def tried(self) -> int:
        """Number of changes, alone and together, that were tried."""
        return self._search.tried

    @property
    def searched(self) -> bool:
        """Return whether all changes and their combinations were tried, so that nothing else fits."""
        return self._search.ended

    @property
    def flags(self) -> tuple[tuple[str, ...], ...]:
        """The command-line options of each remedy."""
        return tuple(self.case.flags(each.change) for each in self.remedies)

    @property
    def changes(self) -> tuple[ChangeThatFits, ...]:
        """The remedies, as in the JSON."""
        return tuple(map(ChangeThatFits, self.remedies, self.flags))

    @cached_property
    def paged(self) -> PagedCache | None:
        """Room for the cache of an engine that pages it."""
        return self.case.paged()

    @cached_property
    def log(self) -> CacheLog | None:
        """Room for the cache by an engine's own numbers, as its log says it."""
        return self.case.log()

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Limits of the model at the largest sizes."""
        found = self.case.remarks_at(self.largest)
        return tuple(sorted(found)) if self.report.answer <= self.room else ()

    @property
    def subtitle(self) -> str:
        """Question that was asked, in words."""
        return self.report.subtitle

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of what a memory report does not count, and a card's verdict does: taken off the card, or simulated."""
        there = {
            CONTEXT: bool(self.budget.card),
            FRAGMENTS: self.on_card is not None,
            GRAPHS: self.case.counts_graphs or not self.budget.of_gpu,
        }
        return tuple(name for name, counts in there.items() if counts)

    @property
    def headroom(self) -> int:
        """Bytes to spare; below 0 the bytes that are short."""
        return self.budget.bytes - self.report.answer

    @cached_property
    def status(self) -> str:
        """Return ``fits``, ``tight`` (with less than the margin to spare), ``risky``, or ``no``."""
        return self.case.status(self.case.run, self.case.plan)

    @property
    def fits(self) -> bool:
        """Return whether it fits, tightly or with room to spare."""
        return self.status in FITTING

    @property
    def tight(self) -> bool:
        """Return whether it fits, but leaves less than the margin."""
        return self.status == TIGHT

    @property
    def holds(self) -> bool:
        """Return whether it fits, if asked for strictly with the margin to spare."""
        return later(lambda: self.fits and not (self.strict and self.tight), True, self.in_sight)

    @property
    def verdict(self) -> str:
        """``DOES NOT FIT: needs 75.4 GiB, RTX 4090 has 23.0 GiB usable (52.4 GiB short)``."""
        facts, left = f"{OWN_CODE} " * self.may_fit_fused + self._facts, self._left
        if self.status == RISKY:
            spare = f"{left}, {self._why_risky}"
        elif self.tight and self.on_card and self.on_card.reserved.high > self.budget.bytes:
            spare = f"{left}, which fragments may take"
        else:
            spare = left.replace("free", "to spare")
        return f"{SAID[self.status]}: {facts} ({spare})"

    def _as_many(self) -> str:
        """``, room for 55 requests of 8,192 tokens``: where requests are served, as many as fit at once."""
        if not self.fits or "concurrency" not in self.sizes:
            return ""
        most = self.sizes["concurrency"].value
        each = f" of {self.case.tokens_of_a_request:,} tokens" if self.case.tokens_of_a_request else ""
        return f", room for {most:,} {'request' if most == 1 else 'requests'}{each}" if most else ""

    @property
    def _facts(self) -> str:
        """``needs 75.4 GiB, RTX 4090 has 23.0 GiB usable``."""
        each = " per GPU" if self.report.definitions.get("gpus", 1) != 1 else ""
        return f"needs {self._short(self.report.answer)}{each}, {self.budget.has(self._units)}"

    @property
    def _left(self) -> str:
        return f"{self._short(abs(self.headroom))} {'short' if self.headroom < 0 else 'free'}"

    @property
    def may_fit_fused(self) -> bool:
        """Return whether it is too large in PyTorch's own code alone, which fused kernels take less than."""
        return self.status == RISKY and self.case.upper_bound and self.case.beyond(self.report.answer)

    def in_own_code_alone(self, found: Sequence[Remedy]) -> bool:
        """Return whether it does not fit in PyTorch's own code alone, as asked or with the closest that was ``found``.

        What is certain of it does fit.
        """
        return self.may_fit_fused or (self.case.upper_bound and any(one.status == RISKY for one in found))

    @property
    def _why_risky(self) -> str:
        if self.may_fit_fused:
            return FUSED_TAKE_LESS
        return "and published peaks were up to 8 % higher" if self.runs else "and fragments take more"

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object of ``--json``: the keys of the memory report, the verdict and what would fit."""
        return self.report.to_dict()

    def entries(self) -> Mapping[str, Any]:
        """Return that object, of which each entry is found when it is read."""
        return self.report.entries()

    @property
    def declared(self) -> Memory:
        """Memory report, which declares where the verdict's numbers come from."""
        return self.report

    def sheet(self) -> Sheet:
        """The verdict; what would fit, or how much there could be of it; what it rests on."""
        if self.in_a_line:
            return self._alone()
        if self.report.over_time:
            return self._beside_phases()
        return later(self._in_full, None) or self._before_the_rest()

    @property
    def in_sight(self) -> int:
        """The sight that has the verdict: the first, where no allocator has to be simulated for it."""
        return FIRST if self.case.told_at_once(self.report.answer) else SECOND

    def _before_the_rest(self) -> Sheet:
        """Return what is asked beside what there is, and the verdict as soon as it is in sight."""
        unit, asked = self._unit, VerdictLine(AS_ASKED, self.report.answer, keys=())
        fits = later(lambda: self.fits, True, self.in_sight)
        sizes = [[f"largest {size.words}", NOT_YET, NOT_YET] for size in self.case.sizes()]
        rest = sizes if fits else [[NOT_YET, NOT_YET, NOT_YET]]
        return Sheet(
            title=later(lambda: self.verdict, f"{NOT_YET} {self._facts} ({self._left})", self.in_sight),
            subtitle=self.subtitle,
            columns=(Column("", numeric=False), Column(f"peak {unit}"), Column("free")),
            rows=[[asked.name, *self._sizes(asked, lambda size: InUnit(size, unit))], *rest],
            quiet=self._quiet,
        )

    def _in_full(self) -> Sheet | None:
        """Return the verdict, and what would fit."""
        told, notes = list(self._told()), tuple(self._notes())
        footer = self._footer(tight=any(line.name.endswith(TIGHTLY) for line in told))
        above_and_below = (self.verdict, self.subtitle, *notes, *footer.lines())
        room = LINES - BESIDE_ROWS - sum(-(-len(line) // WIDE) for line in above_and_below)
        unit = self._unit
        first = "what fits" if self.fits else "what would fit" if self._cured else "what comes closest"
        sheet = Sheet(
            title=self.verdict + self._as_many(),
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
                    *self._sizes(line, lambda size: InUnit(size, unit)),
                    " ".join(line.flags),
                ]
                for line in (told if self.fits else _shown(told, room))
            ],
            quiet=self._quiet,
            notes=notes,
            **footer._asdict(),
        )
        return sheet._replace(
            detailed=lambda: sheet._replace(
                columns=(Column(first, numeric=False), Column("peak"), Column("free"), Column("add", numeric=False)),
                rows=[
                    [
                        line.name,
                        *self._sizes(line, Bytes),
                        " ".join(line.flags),
                    ]
                    for line in told
                ],
            )
        )

    def _beside_phases(self) -> Sheet:
        """Return the verdict without what would fit, for the phases of a step."""
        footer = self._footer()._asdict()
        return Sheet(self.verdict, (), (), self._quiet, self.subtitle, notes=tuple(self._on_card()), **footer)

    def _told(self) -> Iterator[VerdictLine]:
        """The rows: remedies where it does not fit; else what was asked, and as much as there could be of it."""
        if self.fits:
            yield VerdictLine(AS_ASKED, self.report.answer, keys=())
            for each in self.largest:
                flags = (each.flags,) if each.value and each.value != each.of.asked else ()
                tight = TIGHTLY if each.total is not None and each.of.tight(each.value or 0) else ""
                yield VerdictLine(f"largest {each.of.words}: {each.number}{tight}", each.total, flags)
        for place, (remedy, to_add) in enumerate(zip(self.remedies, self.flags, strict=True)):
            tight = TIGHTLY if remedy.tight else ""
            keys = (Memory.changes.name, str(place))
            yield VerdictLine(remedy.change.name + tight, remedy.total, to_add, keys)

    def _sizes(self, line: VerdictLine, shown: Callable[[int], Cell]) -> tuple[Cell, Cell]:
        """A row's peak, and what it leaves."""
        if line.total is None:
            return None, None
        peak, free = shown(line.total), shown(self.budget.bytes - line.total)
        if line.keys is None:
            return peak, free
        return of(peak, *line.keys, WithChange.total_bytes), of(free, *line.keys, WithChange.headroom_bytes)

    def _on_card(self) -> Iterator[str]:
        if self.budget.others:
            yield f"The card: {self.budget.others}"
        if self.on_card:
            tool = TOOLS.get(self.budget.vendor, TOOLS["NVIDIA"])
            there = (self.budget.bytes, max(self.budget.memory, self.budget.bytes)) if self.fits else None
            yield card_line(self.on_card, self._units, tool, there)

    def _notes(self) -> Iterator[str]:
        yield from self._on_card()
        yield from self.case.of_version()
        yield from self.case.by_own_rules()
        if self.on_card and self.fits and self.on_card.reserved.bytes > self.budget.bytes:
            wanted = f"PyTorch's cache would take {self._short(self.on_card.reserved.bytes)}"
            yield f"{wanted}; it gives blocks back instead, which costs time ({SEGMENTS})"
        if self.log is not None:
            yield f"{self.log.rules.called} would log: {'; '.join(self.log.lines)}"
        if not self.fits:
            yield from self._of_remedies()
            yield from self.case.other_layouts()
        if self.largest and not self.fits:
            names = " / ".join(each.of.words for each in self.largest)
            numbers = dict.fromkeys(each.number for each in self.largest)
            same = len(numbers) == 1 and "none" in numbers
            values = "none" if same else " / ".join(each.number for each in self.largest)
            where = "for this card" if self.budget.card else "within this budget"
            yield f"Largest {names} {where}{f' in {OWN_CODE}' * self.may_fit_fused}: {values}"
        yield from (f"No largest {each.of.words}: {each.reason}" for each in self.largest if each.reason)
        yield from self.remarks
        yield from (note for note in self.report.notes if not note.startswith(OTHER_PHASES))

    def _of_remedies(self) -> Iterator[str]:
        if not self._search.ended:
            yield f"The search stopped after {self.tried} changes, as layers that differ run long: others may fit"
        elif not self._cured:
            tried = ", ".join(self._search.furthest)
            what = OWN_CODE if self.in_own_code_alone(self.remedies) else "it"
            yield f"None of {self.tried} changes and combinations makes {what} fit. Tried up to: {tried}"
        elif all(len(remedy.changes) > 1 for remedy in self.remedies):
            first, *others = (remedy.changes for remedy in self.remedies)
            common = [change for change in first if others and all(change in other for other in others)]
            names = [change.name if len(common) == 1 else change.short or change.name for change in common]
            part = f"; {' and '.join(names)} {'is' if len(names) == 1 else 'are'} part of each" if names else ""
            yield f"No single change is enough{part}"

    def _footer(self, *, tight: bool = False) -> Footer:
        """Return the footer of the report, with the margin, and with what was assumed of the card.

        The meaning of tight is told where the verdict is, or one of the rows.
        """
        why = ", or fragments may take it" * self.case.simulates
        meaning = f" (tight: less is free{why})" * (tight or self.tight)
        footer = self.report.footer.counting(*self.counted)
        bands = card_assumptions() if self.on_card else []
        code = CODE.get(self.budget.vendor, "CUDA")
        assumes = [code if word == "CUDA" else word for word in footer.assumes]
        if not self.budget.of_gpu:
            assumes = [*assumes, *([] if code in assumes else [code])]
        return Footer(
            (
                *assumes,
                *self.budget.assumes,
                f"margin {self.margin} %{meaning}",
            ),
            footer.not_counted,
            (*self.further, *SEE_ALSO),
            (
                *self.budget.notes,
                *footer.assumptions,
                *bands,
                *self.case.of_engine(),
                *([self.paged.in_words] if self.paged and self.log is None else []),
                *self.case.without_blocks(),
            ),
        )

    @property
    def _cured(self) -> bool:
        """Return whether some change makes it fit."""
        return any(remedy.fits for remedy in self.remedies)

    @property
    def _unit(self) -> str:
        """Unit of the columns: that in which the budget is told."""
        return short_bytes(self.budget.bytes, self._units).split(" ")[1]

    @property
    def _units(self) -> str:
        return str(self.report.definitions["units"])

    def _short(self, size: int) -> str:
        return short_bytes(size, self._units)

    def _alone(self) -> Sheet:
        """Return the verdict alone, followed by the assumptions where they are asked for."""
        return Sheet(self.verdict, (), (), self._quiet, assumptions=self._footer().assumptions)

    @property
    def _quiet(self) -> Cell:
        return of(self.report.total_bytes, Memory.total_bytes)

    def __str__(self) -> str:
        from tfcalc.render.plain import render

        return render(self.sheet(), Style(units=self._units))


class LargestOf(Mapping[str, Largest]):
    """The largest values of sizes by their names, each found when it is read."""

    def __init__(self, sizes: Mapping[str, GrowingSize], fit: Fit) -> None:
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


class VerdictLine(NamedTuple):
    """A row: what it is, its bytes, what to add to the command line for it, and the keys that lead to its numbers.

    Without ``keys`` the answer has none of them.
    """

    name: str
    total: int | None
    flags: Sequence[str] = ()
    keys: tuple[str, ...] | None = None


def _shown(told: Sequence[VerdictLine], room: int) -> list[VerdictLine]:
    """Return the rows that there is room for at 80 columns, one of them at least; programs get all."""
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


P = TypeVar("P", bound=Described)
"""A plan: of training, of serving, or how a model at rest is stored."""


def capacity(budget: Capacity | str | int | None, gpu: str | None) -> Capacity:
    """Memory that there is, by the one that was given of the two. Raises UsageError for both, none, or no amount."""
    if gpu is not None:
        if budget is not None:
            raise UsageError("budget and gpu both say how much there is", "leave one of them out")
        return of_card(gpu)
    if budget is None:
        raise UsageError("there is no budget", 'give one, such as "80GB", or a gpu, such as "h100"')
    if isinstance(budget, str) and not re.fullmatch(AMOUNT, budget, re.ASCII):
        return of_card(budget, instead="")
    return budget if isinstance(budget, Capacity) else stated(budget)


AMOUNT = r"\s*[-+\d.,_]*\s*[A-Za-z]*\s*"
"""Amount of memory, right or wrong, and no name of a GPU: these have numbers behind letters."""


def memory_within(
    model: Model,
    budget: Capacity | str | int | None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    margin: int = MARGIN,
    utilization: float | None = None,
    engine: str = "",
    profile: Profile | None = None,
    peaks: Peaks | None = None,
) -> Memory:
    """Return the answer of :func:`memory`, compared with a budget: with the verdict, and what would fit.

    ``peaks`` are those of the model that other answers have found, as on other cards.
    The number of GPUs of the budget is that of the training; of a card that serves, the usable part counts. Raises as
    :func:`fits`.
    """
    budget = capacity(budget, None)
    check_plans(training, serving)
    check_margin(margin)
    if training is not None or (workload is not None and workload.training):
        workload = asked_run(model, own_run(model, workload).replaced(phase="train"))
        training = on_gpus(training or Training(), budget)
    elif budget.gpus != 1 and not serving:
        raise UsageError(f"{budget.gpus} GPUs hold no model at rest together", "give one, or add --serve or --train")
    elif serving:
        serving = served_on_gpus(serving, budget)
        rules = _rules(engine, budget)
        if rules is not None:
            rules.check_cache(serving.kv)
        if rules is not None and rules.cache != PAGED:
            if utilization is not None or profile is not None:
                rules.check_profiles()
            serving = _by_cache(serving, rules, budget)
    by, run = conventions or Conventions(), own_run(model, workload)
    room = plan = None
    if serving:
        from tfcalc.answers.serving_room import ServingRoom  # which loads what engines split

        room = ServingRoom(model, budget, rules, profile, utilization, by.dtype)
        plan = room.laid_out(run, serving)
        budget = room.usable(plan)
    found = memory_of(model, workload, by, training=training, serving=plan, weights=weights, peaks=peaks)
    case = _case(found, budget, run, training, serving, weights)
    case.margin = margin
    if isinstance(case, _Serving) and room is not None:
        case.within(room)
    found.judge = Fit(found, case)
    return found


def check_margin(margin: int) -> None:
    """Raise UsageError for what is no percentage."""
    if not 0 <= margin <= 100:
        raise UsageError(f"--margin {margin} is not from 0 to 100 per cent", "leave it out for 5")


def _case(
    memory: Memory,
    budget: Capacity,
    run: Workload,
    training: Training | None,
    serving: Serving | None,
    weights: str | None,
) -> Case[Any]:
    """Return the case of what was asked, which also finds what might be asked in its place."""
    if training is not None:
        return _Training(memory, budget, resolve_checkpointing(memory.model_, run), with_method(training))
    if serving is not None:
        served = _Serving(memory, budget, *resolve_serving(memory.model_, run, serving))
        served.kernel, served.asked = run.kernel, serving
        return served
    return _AtRest(memory, budget, default_run(memory.model_), StoredFormat(weights or "", memory.dtype_asked))


def plan_command(model: Model, card: str, gpus: int, length: int, batch: int) -> str | None:
    """Return the search over layouts of a named model as it is typed; of one GPU that over their number."""
    name = getattr(model, "name", None)
    if not name or getattr(model, "changed", False):
        return None
    words, card, seq = f"tfcalc plan {shlex.quote(name)}", shlex.quote(card), f"--seq {length}"
    if gpus == 1:
        return f"{words} --gpu {card} {seq}"
    return f"{words} --gpu {gpus}x{card} {seq} --global-batch-size {batch}"


def _rules(engine: str, budget: Capacity) -> EngineRules | None:
    """Return the rules of an engine, if one is asked for on a card. Raises UsageError."""
    if not engine:
        return None
    from tfcalc.serving.engine_rules import engine as named_engine

    if not budget.memory:
        raise UsageError(f"--engine {engine} has no effect but on a card", "give --gpu NAME")
    return named_engine(engine)


def _by_cache(plan: Serving, rules: EngineRules, budget: Capacity) -> Serving:
    """The plan with the engine's cache; in llama.cpp all layers are on the card unless fewer were asked for."""
    if rules.cache != CELLS or plan.gpu_layers is not None or budget.vendor == APPLE:
        return plan.replaced(cache=rules.cache)
    return plan.replaced(cache=rules.cache, gpu_layers=ALL_LAYERS)


ALL_LAYERS = 999
"""``-ngl 999``, as people type it for all."""


def served_on_gpus(plan: Serving, budget: Capacity) -> Serving:
    """The plan on as many GPUs as the budget is of."""
    if budget.gpus == 1:
        return plan
    if plan.gpus not in (None, budget.gpus):
        raise UsageError(f"--gpus {plan.gpus} contradicts {budget.gpus}x{budget.card}", "leave one of them out")
    return plan.replaced(gpus=budget.gpus)


def on_gpus(plan: Training, budget: Capacity) -> Training:
    """The plan on as many GPUs as the budget is of, and on such ones."""
    if budget.capability and not plan.capability:
        plan = plan.replaced(capability=budget.capability)
    if budget.memory and plan.vllm_mode == COLOCATE:
        plan = plan.replaced(card_memory=str(budget.memory))
    if budget.gpus == 1:
        return plan
    of_preset = training_preset(plan.preset).options.get("gpus") if plan.preset else None
    if plan.gpus not in (None, of_preset, budget.gpus):
        raise UsageError(f"--gpus {plan.gpus} contradicts {budget.gpus}x{budget.card}", "leave one of them out")
    plan = plan.replaced(gpus=budget.gpus)
    check_gpus(plan, budget.card)
    return plan


class Case(Generic[P]):
    """Case that was asked for, and the bytes of other workloads and plans."""

    plan_alone: ClassVar[Sequence[str]] = ("max_completion_length",)
    """Sizes of a plan that the workload has no other name for."""

    on_card: OnCard | None = None

    def __init__(self, memory: Memory, budget: Capacity, run: Workload, plan: P) -> None:
        self.memory, self.model, self.budget = memory, memory.model_, budget
        self.run, self.plan = run, plan
        self.margin = MARGIN
        self.peak, self.runs = cache(self._peak), cache(self.runs_with)

    @property
    def room(self) -> int:
        """Bytes that may be allocated, so that it fits."""
        return self.budget.bytes

    def _peak(self, run: Workload, plan: P) -> int:
        """The bytes of a workload and a plan. Raises TfcalcError."""
        raise NotImplementedError

    def status(self, run: Workload, plan: P) -> str:
        """Return the state of the verdict on a workload and a plan. Raises TfcalcError."""
        return self._room.status(self.peak(run, plan))

    @property
    def _room(self) -> Room:
        return Room(self.room, self.room * self.margin // 100)

    def tight(self, total: int) -> bool:
        """Return whether ``total`` bytes fit, but leave less than the margin."""
        return self._room.tight(total)

    simulates: bool = False
    """Whether PyTorch's allocator is simulated."""
    tokens_of_a_request: int = 0
    """Tokens of each request, in serving."""
    upper_bound: bool = False
    """Whether the bytes are those of code that other code takes less than."""

    def beyond(self, total: int) -> bool:
        """Return whether ``total`` bytes do not fit, whatever their error."""
        return not self._room.holds(total)

    def told_at_once(self, _total: int) -> bool:
        """Return whether the verdict on ``total`` bytes rests on these alone, and on no simulated allocator."""
        return True

    def runs_with(self, _run: Workload, _plan: P, _within: int) -> bool:
        """Return whether an allocator finds room for it in this many bytes."""
        return True

    def bounds(self) -> Sequence[Callable[[Workload, P], int]]:
        """Bytes that it takes at least, those that are found soonest first."""
        return ()

    def _peak_of_size(self, run: Workload, plan: P) -> int:
        """The bytes with another size. Raises TfcalcError."""
        return self.peak(run, plan)

    def _roughly(self, _run: Workload, _plan: P) -> int | None:
        """A guess of them, where something is known."""
        return None

    def ways(self) -> Options:
        """Return the changes that could be made."""
        raise NotImplementedError

    def sizes(self) -> list[GrowingSize]:
        """Return the sizes that may grow."""
        return []

    def paged(self) -> PagedCache | None:
        """Return the room for the cache of an engine that pages it, if that is asked for."""
        return None

    def log(self) -> CacheLog | None:
        """Return what an engine's log says, if its own numbers are given."""
        return None

    def without_blocks(self) -> Iterator[str]:
        """Yield why no blocks of a paged cache are told, where an engine would have some."""
        yield from ()

    def of_version(self) -> Iterator[str]:
        """Yield whose rules are taken for an engine's version that has none of its own."""
        yield from ()

    def by_own_rules(self) -> Iterator[str]:
        """Yield what an engine leaves to its cache by its own rules, where that differs; or the least share."""
        yield from ()

    @property
    def counts_graphs(self) -> bool:
        """Return whether CUDA graphs are counted."""
        return False

    def of_engine(self) -> Iterator[str]:
        """Yield where an engine's rules are from, and which of its defaults were not taken."""
        yield from ()

    @property
    def whole_mixture(self) -> bool:
        """Return whether all of a mixture is trained on GPUs of a card."""
        return False

    def layouts_of_experts(self) -> str:
        """``tfcalc plan … lays experts out over GPUs``, with the words of this question where they are known."""
        return f"tfcalc plan {LAYS_OUT}"

    def other_layouts(self) -> Iterator[str]:
        """Yield what tries layouts that no change leads to."""
        if self.whole_mixture:
            yield f"{NO_EXPERT_PARALLELISM}: tfcalc plan {LAYS_OUT}, and finds the fewest"

    def remedies(self) -> Remedies:
        """Changes that would make it fit, the cheapest first."""
        return self._remedies(self.ways())

    def cheapest(self, *, grows: bool) -> Remedies:
        """The cheapest of these changes, without further ones; more GPUs are one if their number ``grows``."""
        ways = self.ways()
        return self._remedies(ways if grows else ways.without(HARDWARE), cheapest=True)

    def _remedies(self, ways: Options, *, cheapest: bool = False) -> Remedies:
        least = [self._with_change(bound) for bound in self.bounds()]
        status = lambda change: self.status(change.applied(self.run), change.applied(self.plan))  # noqa: E731
        need = self._with_change(self.peak)
        return remedies(ways, need, self._room, *least, status=status, cheapest=cheapest)

    def remarks_at(self, largest: Sequence[Largest]) -> set[str]:
        """Return the remarks on the model at its largest sizes that neither the report nor their rows have already."""
        runs = [self._at(each.of.name, each.value) for each in largest if each.value and not each.beyond]
        return {remark for run in runs for remark in self.model.remarks(run)} - set(self.memory.notes)

    def _with_change(self, peak: Callable[[Workload, P], int]) -> Callable[[Change], int | None]:
        """The bytes with a change; None where it does not go with the rest."""

        def need(change: Change) -> int | None:
            try:
                return peak(change.applied(self.run), change.applied(self.plan))
            except TfcalcError:
                return None

        return need

    def flags(self, change: Change) -> tuple[str, ...]:
        """Return the options to add to the command line; the number of GPUs as it was given, before the card."""
        flags = change.flags(self.plan, self.run)
        if self.budget.gpus == 1:
            return flags
        name = self.budget.card if " " not in self.budget.card else f"'{self.budget.card}'"
        return tuple(f"--gpu {flag.split()[1]}x{name}" if flag.startswith("--gpus ") else flag for flag in flags)

    def _size(self, described: Described, name: str) -> GrowingSize:
        """A size of the workload or of the plan, with what it needs."""

        @cache
        def need(value: int) -> int:
            return (
                self.memory.total_bytes
                if value == asked
                else self._peak_of_size(*self._of_size(described, name, value))
            )

        known, longest, asked = described.dimensions()[name], self.model.longest, getattr(described, name)
        limit = longest if known.length and isinstance(longest, int) else None
        roughly = lambda value: self._roughly(*self._of_size(described, name, value))  # noqa: E731
        runs = lambda value: self.runs(*self._of_size(described, name, value), self.budget.bytes)  # noqa: E731
        tight = lambda value: self.status(*self._of_size(described, name, value)) == TIGHT  # noqa: E731
        found = GrowingSize(name, known.flags[0], asked, need, known.length, limit)
        return found._replace(roughly=roughly, runs=runs, tight=tight)

    def _of_size(self, described: Described, name: str, value: int) -> tuple[Workload, P]:
        """The workload and the plan, one of which has this size."""
        if described is self.run:
            return self.run.replaced(**{name: value}), self.plan
        return self.run, self.plan.replaced(**{name: value})

    def _at(self, name: str, value: int) -> Workload:
        """The workload at a size of its own, or of the plan."""
        if name in self.plan_alone:
            return self.run
        field = {"context": "seq_len", "concurrency": "batch_size", "gpu_layers": ""}.get(name, name)
        return self.run.replaced(**{field: value}) if field else self.run


class StepCase(Case["Training"]):
    """A training step within a budget, by the one rule of all verdicts on one."""

    @cached_property
    def room(self) -> int:
        """Bytes of the card that PyTorch can use."""
        return self.budget.allocatable

    @property
    def rule(self) -> CardRule:
        """Rule of the verdict, with the margin that was asked for."""
        return CardRule(self.budget, self.margin)

    @property
    def _room(self) -> Room:
        return self.rule.room

    def status(self, run: Workload, plan: Training) -> str:
        """Return the state of the verdict on a workload and a plan. Raises TfcalcError."""
        return self.rule.status(self.peak(run, plan), self.simulated(run, plan), self.certain(run, plan))

    def certain(self, _run: Workload, _plan: Training) -> Certain | None:
        """Bytes that it takes whatever code runs it, where the peak is an upper bound."""
        return None

    def simulated(self, run: Workload, plan: Training) -> Simulated | None:
        """PyTorch's allocator on a card of some bytes, as far as it is simulated."""
        raise NotImplementedError

    def beyond(self, total: int) -> bool:
        """Return whether ``total`` bytes do not fit, even if published peaks were lower."""
        return self.rule.beyond(total)

    def told_at_once(self, total: int) -> bool:
        """Return whether no allocator decides on ``total`` bytes."""
        return not self.simulates or self.rule.decides_alone(total)

    def runs_with(self, run: Workload, plan: Training, within: int) -> bool:
        """Return whether the caching allocator finds room for it, as far as it is simulated."""
        return not self.simulates or runs_within(self.peak(run, plan), within, self.simulated(run, plan))


class _Training(StepCase):
    memory: TrainingMemory

    @property
    def whole_mixture(self) -> bool:
        """Return whether all of a mixture is trained on GPUs of a card."""
        plan = self.plan
        if not self.budget.card or plan.method != SFT or plan.lora is not None or plan.base_weights:
            return False
        tree = self.memory.model_.tree(self.run.replaced(recompute="none"))
        return any(node.component.kind == "experts" for node in tree.walk())

    def layouts_of_experts(self) -> str:
        """``tfcalc plan mixtral-8x22b --gpu 16xh100 … lays experts out over GPUs``: over these, for the same batch.

        Of one GPU, which is too small, the fewest are searched for.
        """
        gpus = value_of(self.plan.gpus or 1)
        batch = gpus * value_of(self.run.batch_size) * value_of(self.plan.grad_accum)
        found = plan_command(self.memory.model_, self.budget.card, gpus, value_of(self.run.seq_len), batch)
        if found is None:
            return f"tfcalc plan {LAYS_OUT}"
        return f"{found} {LAYS_OUT}{', and finds the fewest' * (gpus == 1)}"

    @property
    def peaks(self) -> Peaks:
        """Peaks that the answer has found, and more of the same model."""
        return self.memory.peaks

    @cached_property
    def on_card(self) -> OnCard | None:  # type: ignore[override]  # found when it is read
        """Figures that a card shows of the training step."""
        return self.memory.on_card if self.simulates else None

    @cached_property
    def simulates(self) -> bool:  # type: ignore[override]  # found when it is read
        """Return whether PyTorch's allocator is simulated; of TPUs and others than GPUs nothing is known."""
        return self.room < self.budget.bytes and self.budget.of_gpu and self.memory.simulates

    def certain(self, run: Workload, plan: Training) -> Certain | None:
        return (lambda: self.peaks.least(run, plan)) if self.upper_bound else None

    @cached_property
    def upper_bound(self) -> bool:  # type: ignore[override]  # found when it is read
        """Return whether PyTorch's own loops are counted, which fused kernels take less than."""
        return is_upper_bound(self.model, self.plan)

    def simulated(self, run: Workload, plan: Training) -> Simulated | None:
        if not self.simulates:
            return None
        return lambda within: self.peaks.reserved_within(run, plan, within)

    def _peak(self, run: Workload, plan: Training) -> int:
        return self.peaks.peak(run, plan, noting=self.simulates)

    def _peak_of_size(self, run: Workload, plan: Training) -> int:
        return self.peaks.peak_of_size(run, plan, self.room)

    def _roughly(self, run: Workload, plan: Training) -> int | None:
        return self.peaks.roughly(run, plan)

    def bounds(self) -> Sequence[Callable[[Workload, Training], int]]:
        return self.peaks.possible, self.peaks.whole_weights, self.peaks.least, self.peaks.least_with_logits

    def ways(self) -> Options:
        return of_training(self.model, self.memory.run, self.memory.plan)

    def sizes(self) -> list[GrowingSize]:
        length = self._completions() if writes(self.plan) else self._size(self.run, "seq_len")
        return [self._size(self.run, "batch_size"), length]

    def _completions(self) -> GrowingSize:
        """Length of completions: the model's longest sequence has a prompt before it."""
        found = self._size(self.plan, "max_completion_length")
        limit = None if found.longest is None else found.longest - value_of(self.plan.size("max_prompt_length"))
        return found._replace(longest=limit)


class _Serving(Case["Serving"]):
    there: ServingRoom
    """Room of a card, by the rules of the engine that was asked for."""

    def __init__(self, memory: Memory, budget: Capacity, run: Workload, plan: Serving) -> None:
        super().__init__(memory, budget, run, plan)
        self.served = cache(self._serve)
        self.kernel = run.kernel
        """Kernel of attention that was asked for."""
        self.tokens_of_a_request = value_of(cast("ServingMemory", memory).requests.size("cached"))
        self.asked = plan
        """Plan as it was asked for: "auto" stands for other formats in an engine with a paged cache."""

    def within(self, room: ServingRoom) -> None:
        """Take the room of a card: what an engine leaves to its cache decides, given its profile run or the usual one.

        Sizes are tried in the layout that was asked for, changes in the layout that they would have.
        """
        self.there = room
        if room.profile is not None:
            budget = self.budget
            left = self._left(self.run, self.plan)
            self.budget = budget._replace(bytes=left, assumes=(*budget.assumes, *room.in_words()))

    @property
    def counts_graphs(self) -> bool:
        """Return whether CUDA graphs are counted."""
        return self.there.counts_graphs

    def _left(self, run: Workload, plan: Serving) -> int:
        """Bytes of a card for all that is counted."""
        return self.there.left(self.there.laid_out(run, plan), self.served(run, plan).beside_cache)

    def _of_size(self, described: Described, name: str, value: int) -> tuple[Workload, Serving]:
        run, plan = super()._of_size(described, name, value)
        return run, plan.replaced(replicas=self.there.laid_out(self.run, self.plan).replicas or "1")

    def _serve(self, run: Workload, plan: Serving) -> Served:
        if plan.cache != self.plan.cache:
            formats = {
                name: getattr(self.asked, name)
                for name in ("weights", "kv")
                if getattr(plan, name) == getattr(self.plan, name)
            }
            asked = run.replaced(kernel=self.kernel), plan.replaced(**formats)
            run, plan = resolve_serving(self.model, *asked)
        return self.there.served(run, plan)

    def _peak(self, run: Workload, plan: Serving) -> int:
        return self.served(run, plan).total

    def status(self, run: Workload, plan: Serving) -> str:
        """Return the state of the verdict, within what the engine takes of a card that has such a cache."""
        if plan.cache == self.plan.cache:
            if self.there.profile is None:
                return super().status(run, plan)
            left = self._left(run, plan)
            return Room(left, left * self.margin // 100).status(self.peak(run, plan))
        room = self.budget.serving(plan).bytes
        return Room(room, room * self.margin // 100).status(self.peak(run, plan))

    def _peak_of_size(self, run: Workload, plan: Serving) -> int:
        least = self._least(run, plan)
        return least if least > self.room else self.peak(run, plan)

    def bounds(self) -> Sequence[Callable[[Workload, Serving], int]]:
        return (self._least,)

    def _least(self, run: Workload, plan: Serving) -> int:
        return self.served(run, plan).least(self.room)

    def paged(self) -> PagedCache | None:
        from tfcalc.serving.paging import paged_cache

        if not self.budget.of_gpu:
            return None
        beside: dict[str, Any] = {"card": self.budget.memory, "temporary": self.memory.temporary_bytes}
        if self.there.profile is not None:
            beside = {"card": 0 if self.there.given else self.budget.memory, "outside": self.there.outside}
            beside["temporary"] = self.there.profile.profiled
        room = self.budget.bytes - self.memory.temporary_bytes
        ranks = self.served(self.run, self.plan).ranks
        if not ranks:
            left = self.budget.bytes - self.memory.total_bytes + self.memory.kv_cache_bytes
            return paged_cache(self.model, self.run, self.plan, left, **beside)
        each = [
            paged_cache(self.model, self.run, self.plan, room - rank.bytes_beside_cache, **beside, here=rank.tree)
            for rank in ranks
        ]
        found = [one for one in each if one is not None]
        return min(found, key=lambda one: one.blocks) if len(found) == len(each) else None

    def without_blocks(self) -> Iterator[str]:
        if (
            self.plan.cache == PAGED
            and self.budget.of_gpu
            and self.memory.total_bytes <= self.room
            and not self.paged()
        ):
            yield "how engines page such a cache is not known: no line of their log is told"

    def of_version(self) -> Iterator[str]:
        if self.there.rules is not None and self.there.rules.instead:
            yield self.there.rules.instead

    def by_own_rules(self) -> Iterator[str]:
        found = self.served(self.run, self.plan)
        if not (self.budget.card and self.budget.of_gpu and found.caches and self.plan.cache == PAGED):
            return
        if not self.there.by_default:
            least = self.there.least_share(self.memory.total_bytes, self.budget.bytes)
            if least is not None:
                yield f"It fits from --gpu-memory-utilization {least:.2f} on"
            return
        if self.memory.total_bytes > self.room:  # what would fit has the lines that there are
            return
        here = self.budget.bytes - found.beside_cache - self.memory.temporary_bytes
        rules, by, there = self.there.by_own_rules(self.there.laid_out(self.run, self.plan), found)
        if max(here, there) > 0 and abs(there - here) * 100 > max(here, there) * MARGIN:
            each = 0 if self.plan.shared else self.memory.kv_cache_bytes // value_of(self.plan.concurrency)
            many = f", {max(0, there) // each:,} such requests" if each else ""
            rooms = f"{self._amount(there)} for the cache{many}; as a step is counted here it is {self._amount(here)}"
            yield f"{by}: {rooms} (its rules: memory with --engine {rules.name}, and serve)"

    def _amount(self, size: int) -> str:
        return short_bytes(max(0, size), str(self.memory.definitions["units"]))

    def of_engine(self) -> Iterator[str]:
        rules = self.there.rules
        if rules is None:
            return
        own, asked = rules.batches(self.budget.memory, self.budget.card), value_of(self.plan.batched)
        if own is not None and own != asked:
            yield f"{rules.called} reads {own} prompt tokens at once on this card: --max-num-batched-tokens {own}"
        yield f"rules of {rules.called}, read {rules.dated}: {'; '.join(rules.sources)}"

    def log(self) -> CacheLog | None:
        return self.there.log(self.run, self.plan)

    def ways(self) -> Options:
        _, count = self.served(self.run, self.plan).on_card or (0, 0)
        pages = self.kernel == AUTO and self.budget.of_gpu
        return of_serving(self.run, self.plan, pages=pages, count=count)

    def sizes(self) -> list[GrowingSize]:
        step = value_of(self.plan.block) if self.plan.cache == PAGED else 1
        sizes = [self._size(self.plan, "context")._replace(step=step), self._size(self.plan, "concurrency")]
        return [*sizes, *self._layers()]

    def _layers(self) -> Iterator[GrowingSize]:
        """Yield the number of layers on the card, where the others may be in RAM."""
        there = self.served(self.run, self.plan).on_card
        if there is None:
            return
        asked, count = there
        size = self._size(self.plan, "gpu_layers")
        yield size._replace(asked=max(asked, 1), need=lambda value: size.need(value) if value <= count else BEYOND)


BEYOND = 2**62
"""Bytes that no card has."""


class _AtRest(Case[StoredFormat]):
    def _peak(self, _run: Workload, plan: StoredFormat) -> int:
        return memory_of(self.model, None, Conventions(dtype=plan.dtype), weights=plan.weights or None).answer

    def ways(self) -> Options:
        return at_rest(self.plan)
