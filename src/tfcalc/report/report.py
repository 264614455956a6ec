"""An answer: the total, the tree it is the sum of, the formulas, and the definitions it was made by."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tfcalc.core.component import Measure, Node
from tfcalc.core.notation import write
from tfcalc.core.number import Num, total
from tfcalc.core.polynomial import Polynomial
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import FIRST, FORMULA, HEAD, LAST, Answer, Entries, Key, When, shared
from tfcalc.report.opening import Rule, Stated, given, told_apart
from tfcalc.units import in_full, short, short_bytes

if TYPE_CHECKING:
    from tfcalc.report.chart import Picture, Portion
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step
    from tfcalc.report.sheet import Cell, Column, Sheet

BLOCKS = (
    "attention",
    "ffn",
    "router",
    "experts",
    "ssm",
    "norm",
    "embedding",
    "position",
    "pooler",
    "head",
    "output",
    "weights",
    "master weights",
    "gradients",
    "optimizer",
    "temporary",
)
"""What a breakdown shows unless it is asked to go deeper."""


LINES = 20
"""Lines that an answer has at most, unless more is asked for."""
AROUND = 6
"""Lines of an answer beside its rows and the lines below: two above, headings with their rule, two blank ones."""
WIDE = 80
LEAST_SHARE = 0.0005
"""Of the whole, that is said by kind: what rounds to 0.1 % or more."""

WORTH_SAYING = ("embedding", "output")
"""What is shown even where it adds nothing."""


class Entry(NamedTuple):
    """One component in a breakdown: ``value`` and ``formula`` are those of all copies that are ``counted``, together.

    In a mixture of experts, ``copies`` are stored and fewer run; where layers share weights, it is the other way round.
    """

    name: str
    path: str
    depth: int
    kind: str
    copies: int
    counted: int
    value: int
    formula: Polynomial
    extra: Mapping[str, int]
    parts: "tuple[Entry, ...]"

    @property
    def each(self) -> int:
        """The value of a single copy."""
        return self.value // self.counted if self.counted else 0

    def pruned(self, depth: int | None) -> "Entry":
        """Return this entry with ``depth`` levels below the root; without a number, down to the layers."""
        ends = self.kind in BLOCKS if depth is None else self.depth >= depth
        return self._replace(parts=() if ends else tuple(part.pruned(depth) for part in self.parts))

    def upto(self, depth: int) -> "Entry":
        """Return this entry with ``depth`` levels below the root at most."""
        return self._replace(parts=() if self.depth >= depth else tuple(part.upto(depth) for part in self.parts))

    def walk(self) -> "Iterator[Entry]":
        """Yield this entry and all below it, parents first."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def written(self) -> str:
        """Its formula in text, for all copies together: ``n(4h² + 4h)``."""
        return write(self.formula)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object of the entry, as in ``--json``."""
        return {
            "name": self.name,
            "path": self.path,
            "kind": self.kind,
            "copies": self.copies,
            **self.extra,
            "formula": self.written(),
            "parts": [part.to_dict() for part in self.parts],
        }


class Summary(NamedTuple):
    """A table that says more at a glance than the breakdown does: the terms of a peak."""

    columns: "tuple[Column, ...]"
    rows: "tuple[tuple[Cell, ...], ...]"
    subtitle: str = ""


NOT_COUNTED = "not counted: "


def without(listed: str, parts: tuple[str, ...]) -> str:
    """Return what is listed, but for what begins with one of these."""
    return ", ".join(one for one in listed.split(", ") if not one.startswith(parts))


class Footer(NamedTuple):
    """The lines below an answer: what it ``assumes`` and what is ``not_counted``, in few words, and what to ask next.

    ``assumptions`` are the same in full.
    """

    assumes: tuple[str, ...] = ()
    not_counted: str = ""
    see_also: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def counting(self, *parts: str) -> "Footer":
        """Return a copy of the footer where these are counted after all.

        >>> Footer((), "graphs, rest", (), ("not counted: graphs (0.5 GB), rest",)).counting("graphs")[1::2]
        ('rest', ('not counted: rest',))
        """
        told = (
            NOT_COUNTED + without(line.removeprefix(NOT_COUNTED), parts) if line.startswith(NOT_COUNTED) else line
            for line in self.assumptions
        )
        return self._replace(not_counted=without(self.not_counted, parts), assumptions=tuple(told))

    def lines(self) -> list[str]:
        """Return the lines that are printed below an answer, without the full assumptions."""
        told = (("Assumes", ", ".join(self.assumes)), ("Not counted", self.not_counted))
        return [f"{what}: {text}" for what, text in (*told, ("See also", "  ".join(self.see_also))) if text]


class Report(Answer):
    """The answer of :func:`~tfcalc.params`, :func:`~tfcalc.flops` or :func:`~tfcalc.memory`, found as it is read.

    Attributes:
        command: the command that gives the same answer.
        heading: the model, with what was asked of it.
        title: the quantity, in words.
        unit: what ``answer`` counts: ``params``, ``flops`` or ``bytes``.
        answer: the exact number.
        totals: the numbers at the top of the JSON, each with its unit in the name.
        model: the model's fields, as in the JSON.
        conventions: the definitions behind the numbers, as in the JSON.
        whole: the breakdown, each entry with its path, copies, value and formula.
        depth: levels of the breakdown that are shown; None for down to the layers.
        limit: the most that there may be, where that was asked (``--max``).
        notes: remarks about this answer.
        footer: what the answer assumes, what it does not count, and what to ask next.
        summary: the table that is shown instead of the breakdown, if any.
    """

    unit: ClassVar[str] = ""
    depth: int | None = None
    limit: int | None = None

    model = shared("model", lambda report: dict(report.described), place=HEAD)
    conventions = shared("conventions", lambda report: dict(report.definitions), place=HEAD)
    formula = shared("formula", lambda report: report.whole.written(), place=FORMULA)
    components: Key[list[dict[str, object]]] = Key(
        {
            "type": "array",
            "items": {"$ref": "shared.json#/$defs/component"},
            "description": "the tree that the table shows: the parts of the model, which add up to it",
        },
        lambda report: [part.to_dict() for part in report.root.parts],
        place=LAST,
    )

    @property
    def described(self) -> Mapping[str, object]:
        """The model, as in the JSON."""
        raise NotImplementedError

    @property
    def definitions(self) -> Mapping[str, object]:
        """The definitions that the numbers follow, as in the JSON."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The quantity, in words."""
        raise NotImplementedError

    @property
    def answer_key(self) -> str:
        """The key of the number that answers the question."""
        return f"total_{self.unit}"

    @property
    def answer(self) -> int:
        """The exact number."""
        found: int = getattr(self, self.answer_key)
        return found

    @cached_property
    def whole(self) -> Entry:
        """The breakdown, as deep as the tree is."""
        raise NotImplementedError

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        return {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about this answer."""
        return ()

    @property
    def footer(self) -> Footer:
        """The lines below it."""
        return Footer()

    @property
    def summary(self) -> "Summary | None":
        """The table that is shown instead of the breakdown, if any."""
        return None

    @property
    def totals(self) -> Mapping[str, Any]:
        """The numbers at its top, each found when it is read."""
        return Entries(self, _is_total)

    @property
    def more(self) -> Mapping[str, Any]:
        """Lists and groups beside them: phases, and figures of a card."""
        return Entries(self, lambda key: key.place == FIRST and not _is_total(key))

    # --- the limit

    def held_to(self, limit: int) -> Self:
        """Return a copy of the answer, which is to be at most ``limit``."""
        found = copy(self)
        found.limit = limit
        return found

    @property
    def fits(self) -> bool:
        """Return whether it is within its limit."""
        return self.limit is None or self.answer <= self.limit

    def verdict_on_limit(self) -> str:
        """``OVER BUDGET: 8.03B parameters (8,030,261,248), at most 1.4B (6.63B too many)``."""
        assert self.limit is not None
        billion = "B" if self.unit == "params" else "G"
        apart = short(abs(self.limit - self.answer), billion=billion)
        beyond = f"{apart} to spare" if self.fits else f"{apart} too many"
        verdict = "WITHIN" if self.fits else "OVER"
        return f"{verdict} BUDGET: {self.headline()}, at most {in_full(self.limit, billion)} ({beyond})"

    # --- the breakdown

    @cached_property
    def root(self) -> Entry:
        """The breakdown as far as it is shown: to the depth that was asked for, or as deep as 20 lines allow."""
        found = self.whole.pruned(self.depth)
        if self.depth is not None or self.summary:
            return found
        lines = [self._kinds(), *self.labelled(), *self.notes, *self.footer.lines()]
        room = LINES - AROUND - sum(-(-len(line) // WIDE) for line in lines)
        deepest = max(entry.depth for entry in found.walk())
        fits = (tree for depth in range(deepest, 1, -1) if len(list((tree := found.upto(depth)).walk())) <= room)
        return next(fits, found.upto(1))

    def walk(self) -> Iterator[Entry]:
        """The entries of the breakdown, parents first."""
        return self.root.walk()

    def numbered(self) -> "Iterator[tuple[tuple[str, ...], Entry]]":
        """Yield the entries of the breakdown, parents first, each with the keys of its number in the JSON."""
        (_, whole), *parts = _named(self.root, ("components",))
        yield (self.answer_key,), whole
        for keys, entry in parts:
            yield (*keys, self.answer_key.removeprefix("total_")), entry

    def by_kind(self) -> dict[str, int]:
        """The total by what it is spent on (attention, feed-forward, norms, …), the largest first."""
        sums: dict[str, int] = {}
        for entry in _blocks(self.whole):
            if entry.value:
                sums[entry.kind] = sums.get(entry.kind, 0) + entry.value
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def sheet(self) -> "Sheet":
        """The verdict on the limit; the summary; or the breakdown as rows, with definitions and legend below."""
        from tfcalc.report.sheet import Sheet, of

        if self.limit is not None:
            quiet = of(self.answer, self.answer_key)
            return Sheet(self.verdict_on_limit(), (), (), quiet, assumptions=self.footer.assumptions)
        summary = self.summary  # first what finds most: then nothing is found twice
        if summary is None:
            return self.breakdown()
        return Sheet(
            title=self.headline(),
            subtitle=summary.subtitle or self.heading,
            columns=summary.columns,
            rows=summary.rows,
            quiet=of(self.answer, self.answer_key),
            notes=(*self.labelled(), *self.notes),
            **self.footer._asdict(),
            detailed=self.breakdown,
        )

    def pictures(self) -> "Sequence[Picture]":
        """The whole, divided down to the last parts that are shown; each has the colour of the block that it is in."""
        if not self.answer or self.limit is not None:
            return ()
        chart = charts()
        names = {entry.path: ".".join((self.command, *keys)) for keys, entry in self.numbered()}

        def portion(entry: Entry, kind: str) -> "Portion":
            kind = kind or (entry.kind if entry.kind in BLOCKS else "")
            copies = f"{entry.counted} × " * (entry.counted > 1 and entry.kind == "layer")
            parts = tuple(portion(part, kind) for part in entry.parts)
            made: Portion = chart.Portion(f"{copies}{entry.name}", kind, entry.value, names[entry.path], parts)
            return made

        title = f"{self.headline()}, divided into parts"
        return (chart.Divided(title, portion(self.root, ""), self.unit, str(self.definitions.get("units", "iec"))),)

    def breakdown(self) -> "Sheet":
        """A row for each entry that is shown."""
        from tfcalc.report.sheet import Bytes, Column, Share, Sheet, Times, of

        entries = list(self.numbered())  # first what finds most: then nothing is found twice
        amount = Bytes if self.unit == "bytes" else int
        return Sheet(
            title=self.headline(),
            subtitle=self.heading,
            columns=[
                Column("component", numeric=False),
                Column("formula", numeric=False, folds=True, spare=3, formula=True),
                Column("each", spare=2),
                Column("total"),
                Column("share", spare=1),
            ],
            rows=[
                [
                    entry.name,
                    entry.formula,
                    Times(entry.counted, entry.each, self.unit),
                    of(amount(entry.value), *keys),
                    Share(entry.value, self.answer),
                ]
                for keys, entry in entries
            ],
            quiet=of(self.answer, self.answer_key),
            notes=[self._kinds(), *self.labelled(), *self.notes],
            **self.footer._asdict(),
            legend=self.legend,
            depths=[entry.depth for _, entry in entries],
            paths=[entry.path for _, entry in entries],
        )

    def labelled(self) -> list[str]:
        """A line for each number that has a label: ``Norms: 38,400``."""
        return [f"{key.label}: {self._told(key)}" for key in self.keys.values() if key.label and key.holds(self)]

    def _told(self, key: Key[Any]) -> str:
        value = getattr(self, key.name)
        if not key.name.endswith("_bytes"):
            return f"{value:,}"
        return short_bytes(value, str(self.definitions["units"]))

    def _kinds(self) -> str:
        """Return a line of what the answer is spent on, as far as it shows in per mille."""
        shares = {kind: value / self.answer for kind, value in self.by_kind().items()} if self.answer else {}
        shown = [f"{kind} {share:.1%}" for kind, share in shares.items() if abs(share) >= LEAST_SHARE]
        return f"By kind: {', '.join(shown)}" if shown else "By kind: nothing"

    def headline(self) -> str:
        """The number as people say it, and what it is: ``75.4 GiB peak, in backward``."""
        said = self.rounded()
        if self.unit == "flops" and said[-1].isalpha():
            return f"{said[:-1]} {said[-1]}{self.title}"
        exact_too = f" ({self.answer:,})" if self.unit == "params" and said != f"{self.answer:,}" else ""
        return f"{said} {self.title}{exact_too}"

    def rounded(self) -> str:
        """The answer as people say it: ``44.1M``, ``7.82T``, ``168 MiB``."""
        if self.unit == "bytes":
            return short_bytes(self.answer, str(self.definitions["units"]))
        return short(self.answer, billion="B" if self.unit == "params" else "G")

    # --- where its numbers come from

    def origins(self, steps: tuple["Step", ...]) -> "Iterator[Way]":
        """Yield a number's origins: of a component its items and its parts, of others those that their keys declare."""
        if steps[0] == "components":
            return self.origins_of_part(steps)
        return super().origins(steps)

    def origins_of_part(self, steps: tuple["Step", ...]) -> "Iterator[Way]":
        """Yield the origins of a component's number: how many there are, the sum of its parts, its closed form."""
        entry = self.root
        for step in steps[1:-1]:
            entry = entry.parts[step] if isinstance(step, int) else entry
        key = str(steps[-1])
        if key == "copies":
            yield given(f"how many there are of {entry.path}, by the model's structure")
            return
        yield from self.folds_of_part(entry, key)
        if entry.parts:
            yield Rule("sum", tuple(f".{part.name}.{key}" for part in entry.parts))
        yield Stated("formula", "its closed form", entry.written())

    def folds_of_part(self, _entry: Entry, _key: str) -> "Iterator[Way]":
        """The items that a number of a component is the sum of."""
        return iter(())


def charts() -> ModuleType:
    """The pictures, which few ask for."""
    from tfcalc.report import chart

    return chart


def _is_total(key: Key[Any]) -> bool:
    """Return whether it is a single value that comes with no other."""
    return key.scalar and key.place == FIRST and not (key.when and key.when.anchor)


VERDICT, LIMIT, WITHIN, HEADROOM = (
    "the verdict on --max in words",
    "that there may be: --max",
    "whether there are no more",
    "to spare; below 0 those that are too many",
)
LIMITED = When(lambda report: report.limit is not None, "within_limit")
"""What an answer has beside a limit."""


def breakdown(
    node: Node, twin: Node, measure: Measure, extras: Mapping[str, Measure], *, inside_blocks: bool = False
) -> Entry:
    """The entries of a tree for one measure, with formulas from its symbolic twin; ``extras`` go into the JSON too.

    What adds nothing to the measure is left out, except an embedding and an output: that a lookup costs nothing, or
    that an output is tied and stores nothing, is worth saying.
    """
    component, parts = node.component, []
    if inside_blocks or component.kind not in BLOCKS:
        below = zip(node.below(), twin.below(), strict=True)
        parts = [breakdown(*both, measure, extras, inside_blocks=inside_blocks) for both in below]

    def amount(one: Measure, of_parts: Iterable[int]) -> int:
        return exact(node.times[one.counts] * one(component.own)) + sum(of_parts) if parts else exact(node.total(one))

    value = amount(measure, (part.value for part in parts))
    formulas = [twin.times[measure.counts] * measure(twin.component.own), *(part.formula for part in parts)]
    return Entry(
        name=component.name,
        path=node.path,
        depth=len(node.names) - 1,
        kind=component.kind,
        copies=exact(node.times.stored),
        counted=exact(node.times[measure.counts]),
        value=value,
        formula=polynomial(total(formulas) if parts else twin.total(measure)),
        extra={
            name: value if one is measure else amount(one, (part.extra[name] for part in parts))
            for name, one in extras.items()
        },
        parts=tuple(part for part in parts if part.value or part.kind in WORTH_SAYING),
    )


def _named(entry: Entry, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Yield each entry with the keys that lead to it, parents first: parts by name, where these tell them apart."""
    yield keys, entry
    names = told_apart([part.name for part in entry.parts])
    for name, part in zip(names, entry.parts, strict=True):
        yield from _named(part, (*keys, name))


def _blocks(entry: Entry) -> Iterator[Entry]:
    """The outermost entries that are blocks, or that have nothing below them."""
    if entry.kind in BLOCKS or not entry.parts:
        yield entry
    else:
        for part in entry.parts:
            yield from _blocks(part)


def exact(number: Num) -> int:
    """``number`` as the int that it is in a tree of ints."""
    assert isinstance(number, int), "a report is made of exact integers"
    return number


def polynomial(number: Num) -> Polynomial:
    """``number`` as the closed form that it is in a tree of symbols, a constant one included."""
    return number if isinstance(number, Polynomial) else Polynomial({(): exact(number)})
