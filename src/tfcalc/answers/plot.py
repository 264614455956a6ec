"""Growth of parts of a model with one size: amounts, shares of the whole, crossings, and where each comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from tfcalc.analysis.axes import MODEL, RUN, axes, placed
from tfcalc.analysis.common import check_arguments, model_of, refuse_idle_in_flops, run_tree
from tfcalc.analysis.pruned import together
from tfcalc.analysis.quantities import measure_of
from tfcalc.analysis.targets import TARGETS, find
from tfcalc.answers.conventions_text import as_json
from tfcalc.answers.explain import COUNTS, to_open
from tfcalc.core.measure import params
from tfcalc.defaults import resolve_dtype
from tfcalc.errors import InvalidModel, UsageError, one_of
from tfcalc.model import asked_run, own_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.chart import Chart, Curve, Mark
from tfcalc.report.declared import Answer, Record, Told, When, integer, integers, numbers, records, shared, text, texts
from tfcalc.report.opening import Way, found, given, ratio
from tfcalc.report.sheet import Bytes, Cell, Column, Share, Sheet, Short, Tokens, of
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.core.component import Node
    from tfcalc.model import Model
    from tfcalc.report.explanation import Explanation
    from tfcalc.workload import Workload

Runs = Callable[["Model"], "Workload"]
"""The workload that is run of a model."""
QUANTITIES = {"params": "parameters", "flops": "FLOPs", "memory": "bytes"}
MOST = 1_000
"""Values of the size: a model is built for each."""


class CountedPart(NamedTuple):
    """A part: its place among the parts, and its amount at each value; its shares where these are asked for."""

    place: int
    name: str
    amounts: tuple[int, ...]
    shares: list[float] | None


def _share(part: PartOverSize, place: int) -> Way:
    if not part.within.whole[place]:
        return given("0: the whole has nothing there")
    return ratio(f"parts.{part.source.place}.amounts.{place}", over=(f"whole.{place}",))


class PartOverSize(Record):
    """A part at each value of the size."""

    name = text("the part as it was asked for", lambda part: part.name)
    amounts = integers(
        "its amount at each value",
        lambda part: part.amounts,
        Told(lambda part, place: PartAmount(part.within, part.name, part.within.values[place])),
    )
    shares = numbers(
        "its share of the whole at each value, with --shares",
        lambda part: part.shares,
        Told(_share),
        when=When(lambda part: part.shares is not None),
    )


class CrossingPoint(NamedTuple):
    """Point where ``one`` part passes ``other``: at the number ``at`` it has as much or more, at ``after`` still less.

    These two numbers follow each other, unless there is no model at the numbers between them (heads that do not
    divide the width).
    """

    one: str
    other: str
    at: int
    after: int
    amounts: tuple[int, int]
    before: tuple[int, int]


def _found(crossing: PartCrossing) -> Way:
    one, other = crossing.amounts
    return found(f"bisection: {crossing.words}; there {one:,} and {other:,}")


class PartCrossing(Record):
    """Crossing at which one part passes another."""

    parts = texts("the part that passes, and the one that is passed", lambda each: (each.one, each.other))
    at = integer("the value at which it has as much or more", lambda each: each.at, Told(_found))
    after = integer("the value before it, at which it has less", lambda each: each.after, Told(_found))
    amounts = integers(
        "both amounts at the first of these",
        lambda each: each.amounts,
        Told(lambda each, which: PartAmount(each.within, each.parts[which], each.at)),
    )
    amounts_after = integers(
        "both amounts at the second",
        lambda each: each.before,
        Told(lambda each, which: PartAmount(each.within, each.parts[which], each.after)),
    )

    @property
    def words(self) -> str:
        """``attention equals ffn at 1,024``, or where it passes it."""
        one, other = self.parts
        if self.amounts[0] == self.amounts[1]:
            return f"{one} equals {other} at {self.at:,}"
        place = f"at {self.at:,}" if self.at - self.after == 1 else f"between {self.after:,} and {self.at:,}"
        return f"{one} passes {other} {place}"


class PartsOverSize(Answer):
    """The amounts of parts and of the whole at each value of a size.

    With shares, charts and tables show the shares of the whole alone, and JSON has them beside the amounts.
    """

    command = "plot"
    about = "Parts of a model at each value of one size, and where one part passes another; of sweep --parts, too."

    of = text("quantity: params, flops or memory", lambda plot: plot.counted.of)
    model = shared("model", lambda plot: plot.counted.model.described())
    conventions = shared("conventions", lambda plot: plot.definitions)
    over = text("the size that grows", lambda plot: plot.counted.over)
    values = integers(
        "its values", lambda plot: plot.sizes, Told(lambda plot, _: given(f"--over: a value of {plot.over}"))
    )
    unit = text("unit of all amounts: params, flops or bytes", lambda plot: "bytes" if plot.of == "memory" else plot.of)
    parts = records(PartOverSize, "the parts that were asked for", lambda plot: plot.by_part)
    whole = integers(
        "the amount of the whole model at each value",
        lambda plot: tuple(each[-1] for each in plot.amounts),
        Told(lambda plot, place: PartAmount(plot, "", plot.values[place])),
    )
    crossings = records(
        PartCrossing, "where a part that had less has as much as another, or more", lambda plot: plot.points
    )

    def __init__(
        self,
        counted: PartCounts,
        sizes: tuple[int, ...],
        amounts: list[tuple[int, ...]],
        points: tuple[CrossingPoint, ...],
        *,
        shares: bool = False,
    ) -> None:
        self.counted, self.sizes, self.amounts, self.points, self.shares = counted, sizes, amounts, points, shares

    @property
    def heading(self) -> str:
        """The model."""
        return self.counted.model.summary

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions that the amounts at all values were made by."""
        counted = self.counted
        ends = [
            as_json(self.of, counted.at(value)[1], counted.conventions) for value in (self.sizes[0], self.sizes[-1])
        ]
        return {name: value for name, value in ends[0].items() if name != self.over and ends[-1].get(name) == value}

    @property
    def by_part(self) -> list[CountedPart]:
        """Parts of the model, each with its amounts."""
        found = []
        for place, name in enumerate(self.counted.parts):
            amounts = tuple(each[place] for each in self.amounts)
            found.append(CountedPart(place, name, amounts, self._shares(amounts) if self.shares else None))
        return found

    @property
    def length(self) -> bool:
        """Return whether the size is a length, in tokens."""
        return self.counted.axes[0].length

    def sheet(self) -> Sheet:
        """The answer for people."""
        columns = [Column(self.over)]
        for part in self.parts:
            columns += [Column(part.name)] if self.shares else [Column(part.name), Column("share")]
        rows: list[list[Cell]] = []
        for place, (value, whole) in enumerate(zip(self.values, self.whole, strict=True)):
            row: list[Cell] = [Tokens(value) if self.length else value]
            for number, part in enumerate(self.parts):
                share = Share(part.amounts[place], whole)
                amount = of(self._cell(part.amounts[place]), PartsOverSize.parts, number, PartOverSize.amounts, place)
                row += [share] if self.shares else [amount, share]
            rows.append([*row, of(self._cell(whole), PartsOverSize.whole, place)])
        notes = [f"{each.words}{self._exactly(each)}" for each in self.crossings]
        return Sheet(
            title=f"{'shares of ' * self.shares}{QUANTITIES[self.of]} over {self.over}",
            subtitle=self.heading,
            columns=[*columns, Column("whole")],
            rows=rows,
            quiet=" ".join(str(each.at) for each in self.crossings) or "none",
            notes=notes or ["no part passes another here"],
        )

    def _cell(self, amount: int) -> Cell:
        return Bytes(amount) if self.of == "memory" else Short(amount, "B" if self.of == "params" else "G")

    def _exactly(self, crossing: PartCrossing) -> str:
        return f": {crossing.amounts[0]:,} and {crossing.amounts[1]:,}"

    def pictures(self) -> tuple[Chart]:
        """The curves."""
        return (self.chart(),)

    def chart(self) -> Chart:
        """A curve for each part, of its amounts or its shares of the whole; where amounts cross is marked."""
        shares = self.shares
        curves = [
            Curve(part.name, tuple(zip(self.values, part.shares if shares else part.amounts, strict=True)))
            for part in self.parts
        ]
        marks = [] if shares else [Mark(each.at, each.amounts[0], each.words) for each in self.crossings]
        return Chart(
            title=f"{self.heading}: {'shares of ' * shares}{QUANTITIES[self.of]}",
            x=self.over,
            y="share" if shares else self.unit,
            unit="share" if shares else self.unit,
            length=self.length,
            curves=tuple(curves),
            marks=tuple(marks),
            units=self.counted.conventions.units,
        )

    def _shares(self, amounts: Sequence[int]) -> list[float]:
        return [Share(amount, whole).fraction for amount, whole in zip(amounts, self.whole, strict=True)]


def plot(
    model: Model | str,
    over: str,
    values: Sequence[int],
    parts: Sequence[str] = (),
    of: str = "flops",
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    shares: bool = False,
    runs: Runs | None = None,
) -> PartsOverSize:
    """Count parts of ``model`` at each of the ``values`` of one size.

    Args:
        model: as in :func:`~tfcalc.params`.
        over: the size that grows, of the model or the workload: ``seq_len``, ``d_model``, …
        values: whole numbers.
        parts: names or paths of parts, as in :func:`~tfcalc.formula`; all parts of that name together. By default
            attention and the feed-forward networks or experts.
        of: ``params``, ``flops`` or ``memory`` (bytes of the model at rest).
        workload: phase, sequences and their lengths in tokens, where these do not grow.
        conventions: which operations are counted, and the number format of the weights.
        shares: show the parts' shares of the whole.
        runs: what is run of a model with another size, where that is not the workload.

    Returns:
        The amounts of each part and of the whole, and where a part passes another: exactly, by bisection between two
        of the values. Two crossings between two neighbouring values are not seen.

    Raises:
        InvalidModel: there is no such model at one of the values.
        UsageError: a size or a part is not known, the size changes nothing, or there are too many values.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> grown = plot(Transformer(kind="encoder"), "seq_len", [512, 8192], ["attention", "ffn"])
    >>> grown.crossings[0].at, grown.parts[1].amounts[0]
    (1024, 12884901888)
    """
    model = model_of(model)
    check_arguments(model, workload, conventions)
    one_of("quantity", of, QUANTITIES)
    if not values or len(values) > MOST:
        raise UsageError(f"{len(values):,} values of {over}", f"give 1 to {MOST:,}")
    if of == "flops":
        refuse_idle_in_flops(model, asked_run(model, workload))
    runs = runs or (lambda other: own_run(other, workload))
    counted = PartCounts(model, runs, conventions or Conventions(), of, over, tuple(parts))
    amounts = [counted(value) for value in values]
    if len(values) > 1 and len(set(amounts)) == 1:
        raise UsageError(f"{over} has no effect on the {QUANTITIES[of]} of these parts", "choose another")
    points = tuple(_crossings(counted, values, amounts))
    return PartsOverSize(counted, tuple(values), amounts, points, shares=shares)


class PartCounts:
    """The amounts of the parts, and that of the whole, at a value of the size; each is counted once."""

    def __init__(
        self, model: Model, runs: Runs, conventions: Conventions, of: str, over: str, parts: tuple[str, ...]
    ) -> None:
        self.model, self.of, self.runs, self.over = model, of, runs, over
        self.conventions = resolve_dtype(model, conventions) if of == "memory" else conventions
        try:
            self.axes = axes([over], model, runs(model), False, False)
        except UsageError as error:
            raise UsageError(f"{over!r} is not a size", error.hint) from None
        root = run_tree(model, asked_run(model, runs(model))).root()
        self.parts = parts or tuple(_usual(root))
        for part in self.parts:
            find(root, part)
        self.known: dict[int, tuple[int, ...]] = {}
        self.opened: dict[int, Tree] = {}

    def __call__(self, value: int) -> tuple[int, ...]:
        """Return the amounts of the parts, then that of the whole. Raises InvalidModel where there is no such model."""
        if value not in self.known:
            model, run = self.at(value)
            model.check(run)
            root = run_tree(model, run).root()
            measure = params if self.of == "params" else measure_of(self.of, run, self.conventions)
            found = [sum(int(str(node.total(measure))) for node in named(root, part)) for part in self.parts]
            self.known[value] = (*found, int(str(root.total(measure))))
        return self.known[value]

    def to_open(self, value: int) -> Tree:
        """The tree that explain opens where the size has this value; it is built once for all parts."""
        if value not in self.opened:
            model, run = self.at(value)
            self.opened[value] = to_open(model, self.of, run if self.of == "flops" else None, self.conventions)
        return self.opened[value]

    def at(self, value: int) -> tuple[Model, Workload]:
        """The model and the workload, of which one has this size."""
        sizes = {axis.name: value for axis in self.axes}
        model = self.model.replaced(**placed(self.axes, MODEL, sizes))
        return model, asked_run(model, self.runs(model).replaced(**placed(self.axes, RUN, sizes)))


def _usual(root: Node) -> Iterator[str]:
    """Yield attention, and the part beside it in a layer."""
    kinds = {node.component.kind for node in root.walk()}
    yield from ["attention"] * ("attention" in kinds)
    yield from ["moe"] if "moe" in kinds else ["ffn"] * ("ffn" in kinds)
    if not kinds & {"attention", "moe", "ffn"}:
        yield "complete"


def named(root: Node, target: str) -> list[Node]:
    """Return all parts of this name that are not inside another such part; of a path the one that it names."""
    fits = TARGETS.get(target)
    if fits is None:
        return [find(root, target)]
    found: list[Node] = []
    for node in root.walk():
        inside = any(node.names[: len(each.names)] == each.names for each in found)
        if fits(node) and not inside:
            found.append(node)
    return found


def _crossings(
    counted: PartCounts, values: Sequence[int], amounts: Sequence[tuple[int, ...]]
) -> Iterator[CrossingPoint]:
    """Yield where a part that had less has as much as another, between each two values that follow each other."""
    steps = sorted(zip(values, amounts, strict=True))
    for left, right in combinations(range(len(counted.parts)), 2):
        for (low, at_low), (high, at_high) in pairwise(steps):
            for one, other in ((left, right), (right, left)):
                if at_low[one] < at_low[other] and at_high[one] >= at_high[other]:
                    yield _bisected(counted, one, other, low, high)


def _bisected(counted: PartCounts, one: int, other: int, low: int, high: int) -> CrossingPoint:
    while high - low > 1:
        middle = (low + high) // 2
        try:
            at = counted(middle)
        except InvalidModel:  # nothing is known of the numbers around it, either
            break
        low, high = (middle, high) if at[one] < at[other] else (low, middle)
    at, before = counted(high), counted(low)
    names = counted.parts[one], counted.parts[other]
    return CrossingPoint(*names, high, low, (at[one], at[other]), (before[one], before[other]))


class PartAmount:
    """The amount of a part, or of the whole (""), at a value of the size."""

    def __init__(self, answer: PartsOverSize, part: str, value: int) -> None:
        self.answer, self.part, self.value = answer, part, value

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation:
        """Explain all parts of this name, matrix by matrix. Raises UsageError, as nothing lies behind it."""
        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        counted, of = self.answer.counted, self.answer.of
        tree = counted.to_open(self.value)
        kept = {node.path for node in named(tree.node, self.part)} if self.part else {tree.node.path}
        note = f"{self.part or 'the whole'} at {self.answer.over} {self.value:,}"
        return together(prefix, of, tree, lambda node: node.path in kept, COUNTS[of], (note,))
