"""Intermediate results of a part of a model, each with its name, its shape in letters and numbers, and what made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.common import check_arguments, model_of, refuse_idle_in_flops
from tfcalc.analysis.targets import find, others
from tfcalc.answers.conventions_text import as_json, as_text
from tfcalc.core.component import RUN, Component, Node
from tfcalc.core.measure import LAYERS, work
from tfcalc.core.notation import write
from tfcalc.core.number import Num, total
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import formula_of, value_of
from tfcalc.errors import UsageError
from tfcalc.model import Model, asked_run, legend, remembering
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.module import counted_by
from tfcalc.report.declared import (
    Answer,
    Record,
    Told,
    When,
    by_name,
    integer,
    integers,
    optional_record,
    records,
    shared,
    text,
    texts,
)
from tfcalc.report.opening import Constant, Rule, Stated, count, given, ratio
from tfcalc.report.opening import total as sum_of
from tfcalc.report.sheet import Cell, Column, Factors, Sheet, for_people, of
from tfcalc.report.style import Style
from tfcalc.tape.shaping import Result, Shaping
from tfcalc.tape.tensor import Group, Shape
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.report.opening import Way

M, K, N = (1, "rows of the left matrix"), (2, "what is summed over"), (3, "columns of the right matrix")
"""The sizes of a matrix product, each by its place behind how many there are."""
MATRICES = When(lambda product: product.matrices is not None)


def _size(*sizes: tuple[int, str]) -> Told:
    """The closed form of one of these sizes of a matrix product."""

    def told(product: MatrixProduct, axis: int = 0) -> Way:
        place, meaning = sizes[axis]
        return Stated("formula", f"{meaning}: {product.name}", write(formula_of(product.source.matrices[place])))

    return Told(told)


class MatrixProduct(Record):
    """A matrix product as it is written; how many there are, and its matrices, where these are said."""

    name = text("the product as it is written: X W_Q", lambda product: product.name)
    copies = integer(
        "how many products of such matrices: batch times heads",
        lambda product: value_of(product.matrices[0]),
        _size((0, "how many products")),
        when=MATRICES,
    )
    left = integers(
        "rows and columns of the left matrix",
        lambda product: tuple(map(value_of, product.matrices[1:3])),
        _size(M, K),
        when=MATRICES,
    )
    right = integers(
        "rows and columns of the right matrix",
        lambda product: tuple(map(value_of, product.matrices[2:])),
        _size(K, N),
        when=MATRICES,
    )

    @property
    def known(self) -> bool:
        """Return whether its matrices are known."""
        return self.source.matrices is not None

    @property
    def flops(self) -> int:
        """The FLOPs of all copies, where its matrices are said."""
        return 2 * self.copies * self.left[0] * self.left[1] * self.right[1]

    def __str__(self) -> str:
        """``Q Kᵀ: 16 × (5 × 64)(64 × 5)``."""
        if not self.known:
            return self.name
        many = f"{self.copies} × " if self.copies != 1 else ""
        return f"{self.name}: {many}({' × '.join(map(str, self.left))})({' × '.join(map(str, self.right))})"


def _axis(shaped: InputShape | Made, axis: int) -> Stated:
    """An axis: its closed form, and what its letters mean."""
    letters, meant = shaped.letters[axis], shaped.within.legend
    known = (f"{each}: {meant[each]}" for each in sorted(letters.free_symbols & set(meant)))
    return Stated("formula", "; ".join((f"axis {axis + 1} of {shaped.name}", *known)), write(letters))


class InputShape(Record):
    """The shape of what the part reads: a closed form and a number for each axis."""

    name = "what the part reads"

    axes = texts("the axes in letters", lambda one: [for_people(formula_of(axis), Style()) for axis in one.shape])
    sizes = integers("the axes in numbers", lambda one: tuple(map(value_of, one.shape)), Told(_axis))

    @property
    def letters(self) -> tuple[Polynomial, ...]:
        """The axes as closed forms."""
        return tuple(map(formula_of, self.source.shape))


def _counted(made: Made) -> Way:
    """Two for each multiplication and addition of its products, and one for each operation on elements."""
    if made.flops == 0:
        return given(f"0: {made.made_by} multiplies no matrices")
    known = [each for each in made.products if each.known]
    rest = made.flops - sum(made.copies * each.flops for each in known)
    every = len(known) == len(made.products)
    if not rest and every and len(known) == 1:
        sizes = (f".products.0.{size}" for size in ("copies", "left.0", "left.1", "right.1"))
        return ratio(Constant(2, "a multiplication and an addition"), ".copies", *sizes)
    parts = [Constant(made.copies * each.flops, f"{made.copies} × 2 × {each}") for each in known]
    further = made.operation if known and every else f"{made.made_by}: {made.formula}"
    return sum_of(*parts, *([Constant(rest, further)] if rest else []))


class Made(Record, in_order=True):
    """An intermediate result."""

    where = text(
        "the module or the operation below the target; empty for the target itself", lambda one: ".".join(one.modules)
    )
    name = text(
        "what the mathematics, or else the model, calls it",
        lambda one: one.result.name or (one.modules[-1] if one.modules else one.result.operation),
    )
    operation = text(
        "what made it besides matrix products; view for the same numbers in another shape",
        lambda one: (
            ", ".join(each.name for each in one.result.work.elementwise if each.forward) or one.result.operation
        ),
    )
    axes, sizes = InputShape.axes, InputShape.sizes
    products = records(MatrixProduct, "the matrix products that made it", lambda one: one.result.products)
    copies = integer(
        "how many of it the part makes",
        lambda one: value_of(one.copies),
        count("how many of it the part makes: the layers that are alike, each time that they run"),
    )
    flops = integer("FLOPs of all copies", lambda one: value_of(one.flops), Told(_counted))
    formula = shared("formula", lambda one: write(formula_of(one.flops)))

    @property
    def modules(self) -> tuple[str, ...]:
        """Names that lead from the target to the module, or the operation, that made it."""
        return tuple(self.source.modules)

    @property
    def letters(self) -> tuple[Polynomial, ...]:
        """The axes as closed forms."""
        return tuple(map(formula_of, self.source.shape))

    @property
    def closed(self) -> Polynomial:
        """The closed form of its FLOPs."""
        return formula_of(self.source.flops)

    @property
    def made_by(self) -> str:
        """The products that made it, or the operation."""
        return ", ".join(map(str, self.products)) or self.operation


def _sum_of_results(answer: Shapes) -> Rule:
    return sum_of(*(f"results.{place}.flops" for place in range(len(answer.results))))


class Shapes(Answer):
    """The intermediate results of a forward pass through one part of a model, in the order in which they are made."""

    command, about = "shapes", "What a part of a model makes on the way through a forward pass, in order."

    target = text("the target as it was asked for", lambda answer: answer.asked)
    path = text("path of the component", lambda answer: answer.node.path)
    model = shared("model", lambda answer: answer.of.described())
    conventions = shared("conventions", lambda answer: as_json("flops", answer.run, answer.by))
    total_flops = integer(
        "FLOPs of the forward pass through the part",
        lambda answer: sum(made.flops for made in answer.results),
        Told(_sum_of_results),
    )
    input = optional_record(
        InputShape, "what the part reads; null where it reads nothing", lambda answer: answer.placed.reads
    )
    results = records(
        Made, "the intermediate results, in the order in which they are made", lambda answer: answer.placed.results
    )
    legend = by_name("string", "what each letter means", lambda answer: dict(answer.meanings))

    def __init__(self, target: str, model: Model, run: Workload, by: Conventions) -> None:
        self.asked, self.of, self.run, self.by = target, model, run, by
        self.trace = Shaping()
        self.root = counted_by(self.trace, remembering(model, widths=True).module(), remembering(run)).root()
        self.node = find(self.root, target)

    @cached_property
    def placed(self) -> _Within:
        """The results within the part."""
        places = _Places(self.root.component, self.node, self.trace)
        inside = [each for each in self.trace.named if places.find(each.modules) is not None]
        reads = _Read(inside[0].reads) if inside and inside[0].reads is not None else None
        return _Within(reads, tuple(_placed(inside, places, everything=self.by.count == "all")))

    @property
    def answer(self) -> int:
        """The FLOPs of the forward pass, those of all results."""
        return self.total_flops

    @property
    def meanings(self) -> Mapping[str, str]:
        """The meaning of each letter of an axis."""
        letters = frozenset[str]().union(*(axis.free_symbols for made in self.results for axis in made.letters))
        return legend(letters, self.of, self.run)

    @property
    def heading(self) -> str:
        """The model."""
        return self.of.summary

    @property
    def subject(self) -> str:
        """The part of the model."""
        return f"{self.path} of {self.heading}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the part and the model that should be known."""
        by = as_text("flops", self.run, self.by)
        return (*others(self.root, self.asked, self.node), *self.of.remarks(self.run), *by)

    def sheet(self) -> Sheet:
        """A row for each result, under a row for its module."""
        rows: list[list[Cell]] = []
        depths = []
        several = any(made.copies != 1 for made in self.results)
        if self.input is not None:
            rows.append(["input", "", *_shown(self.input), "", ""])
            depths.append(0)
        place = -1
        for where, results in groupby(self.results, key=self._module):
            if where:
                rows.append([where, *[""] * 5])
                depths.append(0)
            for made in results:
                at = (Shapes.results, place := place + 1)
                times = of(made.copies, *at, Made.copies) if made.copies != 1 else ""
                flops = of(made.flops, *at, Made.flops) if made.flops else ""
                rows.append([made.name, made.made_by, *_shown(made), times, flops])
                depths.append(1 if where else 0)
        rows.append(["sum", *[""] * 4, of(self.answer, Shapes.total_flops)])
        sheet = Sheet(
            title=f"{self.target}: {len(self.results):,} results, {self.answer:,} FLOPs",
            subtitle=self.subject,
            columns=[
                Column("result", numeric=False),
                Column("made by", numeric=False, folds=True),
                Column("axes", numeric=False),
                Column("sizes", numeric=False),
                Column("times"),
                Column("FLOPs", spare=1),
            ],
            rows=rows,
            quiet=_shown(self.results[-1])[1] if self.results else "",  # the last result is that of the part
            notes=self.notes,
            legend=self.legend,
            depths=[*depths, 0],
        )
        return sheet if several else sheet.without([4])

    def _module(self, made: Made) -> str:
        """Return the path of a result: without the operation or the matrix itself, unless others are in it, too."""
        return ".".join(made.modules if made.modules in self._modules else made.modules[:-1])

    @cached_property
    def _modules(self) -> frozenset[tuple[str, ...]]:
        """The modules that have others in them."""
        return frozenset(made.modules[:depth] for made in self.results for depth in range(len(made.modules)))


def _shown(shaped: InputShape | Made) -> list[Cell]:
    """A shape in letters and in numbers; what has no axes is one number."""
    return [Factors((), shaped.letters), Factors((), shaped.sizes)] if shaped.sizes else ["number", "number"]


def shapes(
    target: str = "complete",
    model: Model | str | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
) -> Shapes:
    """List every intermediate result of a forward pass through one part of a model, in the order in which it is made.

    Args:
        target: a part of the model: a name (``attention``, ``sdpa``, ``layer``, ``complete``, …) or a path of the tree.
        model: as in :func:`~tfcalc.params`; by default the classic Transformer.
        workload: sequences, lengths in tokens and phase; by default one of the model's usual length.
        conventions: ``count="all"`` counts passes over elements beside matrix products.

    Returns:
        Shapes: ``results`` with ``name``, ``axes`` (in letters), ``sizes``, ``made_by`` and ``flops`` each, and
        ``answer``, the FLOPs of all of them.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the target is not known, a training step is asked for, or the workload has another way of a part
            that this model does not have.

    >>> [(made.name, made.sizes) for made in shapes("sdpa", workload=Workload(batch_size=2, seq_len=5)).results]
    [('scores', (2, 8, 5, 5)), ('scaled scores', (2, 8, 5, 5)), ('weights', (2, 8, 5, 5)), ('heads', (2, 8, 5, 64))]
    """
    by, model = conventions or Conventions(), Transformer() if model is None else model_of(model)
    check_arguments(model, workload, conventions)
    run = asked_run(model, workload)
    model.check(run)
    if run.training:
        raise UsageError("shapes are those of a forward pass", "leave out --train, or choose --phase prefill or decode")
    refuse_idle_in_flops(model, run)
    return Shapes(target, model, run, by)


class _Read(NamedTuple):
    """Input of the part."""

    shape: Shape


class _Placed(NamedTuple):
    """A result, with the names that lead to it from the target, how many of it the target makes, and their FLOPs."""

    result: Result
    modules: tuple[str, ...]
    copies: Num
    flops: Num

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.result.shape


class _Within(NamedTuple):
    """Input of a part, and its results."""

    reads: _Read | None
    results: tuple[_Placed, ...]


def _placed(results: list[Result], places: _Places, *, everything: bool) -> Iterator[_Placed]:
    for result in results:
        if (place := places.find(result.modules)) is not None:
            names, times = place
            each: Num = total(item.value for item in work(result.work, training=False, everything=everything))
            yield _Placed(result, names, times, times * each)


class _Places:
    """Places of results in the tree, in which layers that turned out equal are one."""

    def __init__(self, root: Component, target: Node, trace: Shaping) -> None:
        self.root = root
        self.target = target
        self.groups = trace.groups
        self.listed: dict[tuple[str, ...], str] = {}
        """Of such layers, those that ran first, by the path of what they are in the tree."""

    def find(self, modules: tuple[str, ...]) -> tuple[tuple[str, ...], Num] | None:
        """The names that lead there from the target, and how often it runs in it; None where it is not listed."""
        part, times, depth = self.root, cast("Num", 1), len(self.target.names)
        names: tuple[str, ...] = (self.root.name,)
        for place in range(2, len(modules) + 1):
            inside = self._part(part, modules[:place])
            if inside is None:
                return None
            part, names = inside, (*names, inside.name)
            if self.listed.setdefault(names, modules[place - 1]) != modules[place - 1]:
                return None
            times = times * part.times[RUN] if place > depth else times
        return (names[depth:], times) if names[:depth] == self.target.names else None

    def _part(self, above: Component, modules: tuple[str, ...]) -> Component | None:
        """The part that a module is, or that layers are in."""
        for part in above.parts:
            if part.name == modules[-1]:
                return part
        group = self.groups.get(modules)
        return None if group is None else next((part for part in above.parts if _has(part, group)), None)


def _has(part: Component, group: Group) -> bool:
    """Return whether these layers are among those of a component."""
    alike = LAYERS.sub("", part.name) == LAYERS.sub("", group.name)
    return alike and (part.places is None or set(group.places or ()) <= set(part.places))
