"""The answer of ``explain``: everything that a number is the sum of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any

from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import (
    FORMULA,
    HEAD,
    LAST,
    Answer,
    Key,
    Record,
    Told,
    When,
    as_field,
    handed_in,
    integer,
    integers,
    number,
    records,
    shared,
    text,
    texts,
)
from tfcalc.report.opening import Constant, Same, Stated, found, ratio, total
from tfcalc.report.sheet import Cell, Column, Factors, InNumbers, Order, Sheet, for_people
from tfcalc.report.style import Style
from tfcalc.units import bytes_in_words

if TYPE_CHECKING:
    from tfcalc.report.concepts import Concept
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

Growth = Callable[[Polynomial], Polynomial]


class Line(NamedTuple):
    """Items of one size that are listed together: their factors in symbols and in numbers, ``value`` of all together.

    ``order`` is what their time grows like, where that is asked for.
    """

    where: str
    names: tuple[str, ...]
    symbols: Factors
    numbers: Factors
    formula: Polynomial
    value: int
    note: str
    order: Polynomial | None = None


def counted_in(unit: str, form: str) -> When:
    """An explanation, or an item of one, in this unit: the suffix of its JSON keys."""
    return When(lambda one: one.within.unit == unit, form=form)


PARAMS = counted_in("params", "in params")
TRAINABLE = counted_in("trainable", "in trained parameters")
FLOPS = counted_in("flops", "in flops")
STEPS = counted_in("steps", "growth of time")
BYTES = counted_in("bytes", "in bytes")
STEPS_MEANING = "FLOPs of all kinds and rows looked up"


class ExplainedItem(Record):
    """A line of an explanation."""

    where = text("the module below the target that it is in; empty for the target itself", lambda item: item.line.where)
    names = texts("matrices or tensors that are alike", lambda item: item.line.names)
    copies = integer("how many of them there are", lambda item: item.line.numbers.copies[0])
    factors = integers(
        "the factors of one: its shape, or the sizes of its product", lambda item: item.line.numbers.each
    )
    in_symbols = text("the product in symbols", lambda item: for_people(item.line.symbols, Style()))
    params = integer("parameters", lambda item: item.line.value, when=PARAMS)
    trainable = integer("trained parameters", lambda item: item.line.value, when=TRAINABLE)
    flops = integer("FLOPs", lambda item: item.line.value, when=FLOPS)
    bytes = integer("bytes", lambda item: item.line.value, when=BYTES)
    steps = integer(STEPS_MEANING, lambda item: item.line.value, when=STEPS)
    formula = shared("formula", lambda item: item.line.formula)
    note = text("a remark; may be empty", lambda item: item.line.note)
    order = text(
        "what its time grows like",
        lambda item: item.line.order,
        when=When(lambda item: item.line.order is not None, form=STEPS.form),
    )

    @property
    def source(self) -> ExplainedItem:
        """Item itself, as its answer has the unit."""
        return self

    @property
    def line(self) -> Line:
        """The line that it is."""
        return self._source  # type: ignore[no-any-return]  # what a record is about may be anything

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """Its value is the product of its factors, which are closed forms."""
        line = self.line
        match steps:
            case ("copies",):
                yield Stated("formula", "how many there are of it", _form(line.symbols.copies[0]))
            case ("factors", int(factor)):
                yield Stated("formula", f"a factor of {', '.join(line.names)}", _form(line.symbols.each[factor]))
            case (key,) if key == self.within.unit:
                yield self._product()

    def _product(self) -> Way:
        line = self.line
        copies, together = line.numbers.copies
        assert isinstance(together, int)
        if line.value != copies * together * prod(line.numbers.each):
            return total(Constant(line.value, f"{', '.join(line.names)}: {write(line.formula)}"))
        alike = (Constant(together, "tensors that are alike"),) if together != 1 else ()
        return ratio(".copies", *alike, *(f".factors.{place}" for place in range(len(line.numbers.each))))


def _form(symbols: object) -> str:
    return write(symbols) if isinstance(symbols, Polynomial) else str(symbols)


NAMED = When(lambda one: one.known_as is not None)
WITH_CONCEPT = NAMED._replace(anchor="concept", mutual=True)


@dataclass(frozen=True, kw_only=True, repr=False)
class Explained(Answer):
    """Answer of :func:`~tfcalc.explain`, with the keys that all of its forms have.

    ``known_as`` is the concept that was asked for, which this number stands for.
    """

    command, exclusive = "explain", True
    about = "One number: the matrices that it is the sum of, or the numbers that it follows from."

    heading: str = ""
    target = text("the target as it was asked for", lambda found: found.path, place=HEAD)
    path: Key[str] = text("path of the component, the term, or the number", place=HEAD)
    of: Key[str] = text(
        "quantity: params, trainable, flops, memory or time; of a number that follows from others its command",
        place=HEAD,
    )
    model: Key[dict[str, object]] = Key(
        {
            "description": "the model as it was read; empty of a number that is of several models, or of none",
            "anyOf": [
                {"$ref": "shared.json#/$defs/published_model"},
                {"$ref": "shared.json#/$defs/classic_model"},
                {"type": "object", "properties": {}, "additionalProperties": False},
            ],
        },
        handed_in,
        place=HEAD,
    )
    conventions: Key[dict[str, object]] = Key(
        {
            "description": "the definitions that the numbers were made by: those that bear on the question",
            "anyOf": [
                {"$ref": "shared.json#/$defs/conventions"},
                {"$ref": "shared.json#/$defs/conventions_of_overview"},
            ],
        },
        handed_in,
        place=HEAD,
    )
    formula: Key[Any] = shared("formula", place=FORMULA)
    substituted = text("the formula with numbers in the place of letters", lambda _: "", place=FORMULA)
    items = records(
        ExplainedItem,
        "the terms, which add up to the total; none of a number that follows from others",
        lambda _: (),
        place=LAST,
    )
    known_as: Concept | None = None
    concept = text("concept that was asked for: KV cache, 6ND", lambda one: one.known_as.name, when=NAMED, place=HEAD)
    meaning = text("what it is, in two sentences", lambda one: one.known_as.meaning, when=WITH_CONCEPT, place=HEAD)
    course = text("section of the course that derives it", lambda one: one.known_as.link, when=WITH_CONCEPT, place=HEAD)
    concept_value = number(
        "the number of the concept: the sum of the items that are it, or the total or the value",
        lambda one: one.of_concept,
        Told(lambda one: one.from_others()),
        when=WITH_CONCEPT,
        place=HEAD,
    )
    concept_of = text(
        "what the total or the value is of, where that is more than the concept or another thing; else empty",
        lambda one: one.of_what,
        when=WITH_CONCEPT,
        place=HEAD,
    )

    def has(self, needed: str) -> bool:
        """Return whether a line is called so, or has this in its formula."""
        lines: tuple[Line, ...] = getattr(self, "lines", ())
        return any(needed in line.names or needed in write(line.formula) for line in lines)

    @property
    def own(self) -> list[int]:
        """The places of the items that are the concept itself; none where its number is that of all."""
        row, lines = self.known_as.row if self.known_as else "", getattr(self, "lines", ())
        return [place for place, line in enumerate(lines) if any(re.fullmatch(row, name) for name in line.names)]

    @property
    def of_concept(self) -> int | float:
        """The number of the concept that was asked for."""
        assert self.known_as is not None
        lines: tuple[Line, ...] = getattr(self, "lines", ())
        whole: int | float = getattr(self, "answer", 0)
        return sum(lines[place].value for place in self.own) if self.own else self.known_as.times * whole

    @property
    def of_what(self) -> str:
        """Words for what the total, or the value, is of; "" where that is the concept itself."""
        assert self.known_as is not None
        if self.known_as.times != 1:
            return f"the concept's number is {self.known_as.times} times it"
        return f"all of {self.path}" if self.own else self.known_as.whole

    def from_others(self) -> Way:
        """Return the rule by which the concept's number follows from the total, or from the items that are it."""
        assert self.known_as is not None
        unit, times = getattr(self, "unit", ""), self.known_as.times
        whole = f"total_{unit}" if unit else "value"
        if self.own:
            return total(*(f".items.{place}.{unit}" for place in self.own))
        return ratio(whole, Constant(times, self.known_as.whole)) if times != 1 else Same(whole)

    def under_its_name(self, sheet: Sheet) -> Sheet:
        """The sheet under the name of the concept that was asked for, if one was, with what that is."""
        known = self.known_as
        if known is None:
            return sheet
        _, _, number = sheet.title.partition(": ")
        own = f"{self.of_concept:,}" if self.own or known.times != 1 else ""
        said = f" {known.whole}" if known.times != 1 else ""
        told = f"{own}{said} of {number}" if own else ", ".join(filter(None, (number, known.whole)))
        formula = [f"{known.name} = {known.formula}"] if known.formula else []
        return sheet._replace(
            title=f"{known.name}: {told}",
            quiet=self.of_concept if own else sheet.quiet,
            subtitle=". ".join(filter(None, (sheet.subtitle, known.meaning))),  # before a table that may be long
            notes=[*formula, *sheet.notes, f"Derived in: {known.link}"],
            see_also=(*sheet.see_also, *known.further),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation(Explained):
    """The answer of :func:`~tfcalc.explain`: one number, matrix by matrix.

    Attributes:
        heading: the model.
        target: the part, as it was asked for.
        path: its path in the tree.
        of: ``params``, ``flops`` or ``memory``.
        quantity: the same in words.
        unit: the suffix of its JSON key.
        lines: one per matrix or group of equal ones: names, factors in symbols and numbers, formula and value.
        formula: the sum of the lines' formulas.
        sizes: what each letter stands for.
        substituted: the formula with sizes instead of letters.
        answer: the exact sum.
        exact: where the lines leave out biases and norms, the count with them; else None.
        legend: the meaning of each letter.
    """

    target: Key[str] = as_field(Explained.target)
    quantity: str
    unit: str
    lines: tuple[Line, ...]
    sizes: Mapping[str, str]
    answer: int
    legend: Mapping[str, str]
    notes: tuple[str, ...]
    exact: int | None = None

    total_params = integer(
        "parameters; with --of params",
        lambda one: one.answer if one.exact is None else one.exact,
        total("items[].params"),
        found("all parameters of it, biases and norms too"),
        when=PARAMS,
    )
    approx_params = integer(
        "parameters without biases and norms, the sum of the items; with --approx",
        lambda one: one.answer,
        total("items[].params"),
        when=When(lambda one: one.exact is not None),
    )
    total_trainable = integer(
        "trained parameters; with --of trainable", lambda one: one.answer, total("items[].trainable"), when=TRAINABLE
    )
    total_flops = integer("FLOPs; with --of flops", lambda one: one.answer, total("items[].flops"), when=FLOPS)
    total_steps = integer(
        f"{STEPS_MEANING}; with --of time", lambda one: one.answer, total("items[].steps"), when=STEPS
    )
    total_bytes = integer("bytes; with --of memory", lambda one: one.answer, total("items[].bytes"), when=BYTES)
    substituted = Explained.substituted.made(lambda one: Style().in_numbers(one.formula, one.sizes))
    items = Explained.items.made(lambda one: one.lines)
    order: Key[Polynomial | None] = Key(
        {"type": "string", "description": "what the time grows like; with --of time"},
        handed_in,
        when=When(lambda one: one.order is not None, form=STEPS.form),
        place=LAST,
    )

    @property
    def subject(self) -> str:
        """The part of the model."""
        return f"{self.path} of {self.heading}"

    def growing(self, each: Growth, whole: Growth) -> Explanation:
        """Return a copy with what ``each`` line grows like, and the ``whole``."""
        lines = tuple(line._replace(order=each(line.formula)) for line in self.lines)
        order = whole(self.formula)
        letters = order.free_symbols.union(*(line.formula.free_symbols for line in lines))
        legend = {letter: meaning for letter, meaning in self.legend.items() if letter in letters}
        return replace(self, lines=lines, order=order, legend=legend)

    def sheet(self) -> Sheet:
        """A row per matrix, under a row for its module, and the sum."""
        rows: list[list[Cell]] = []
        depths = []
        for where, lines in groupby(self.lines, key=lambda line: line.where):
            if where:
                rows.append([where, "", "", "", ""])
                depths.append(0)
            for line in lines:
                rows.append([", ".join(line.names), line.symbols, line.numbers, line.formula, line.value])
                depths.append(1 if where else 0)
        rows.append(["sum", "", InNumbers(self.formula, self.sizes), self.formula, self.answer])
        if self.order is not None:
            return self._growth([*depths, 0])
        remarks = dict.fromkeys(f"{', '.join(line.names)}: {line.note}" for line in self.lines if line.note)
        number = f"{self.answer:,} {self.quantity}"
        if self.unit == "bytes":
            number = bytes_in_words(self.answer, str(self.conventions.get("units", "iec")))
        sheet = Sheet(
            title=f"{self.target}: {number}",
            subtitle=f"{self.path} of {self.heading}",
            columns=[
                Column("what", numeric=False, folds=True),
                Column("in symbols", numeric=False, spare=2),
                Column("in numbers", numeric=False, folds=True, spare=1),
                Column("formula", numeric=False, folds=True),
                Column("value"),
            ],
            rows=rows,
            quiet=self.answer,
            notes=[*remarks, *self.notes],
            legend=self.legend,
            depths=[*depths, 0],
        )
        return self.under_its_name(sheet)

    def _growth(self, depths: list[int]) -> Sheet:
        """A row per step: how often it runs, and what that grows like; the sum has only the dominant terms."""
        rows: list[list[Cell]] = []
        for where, lines in groupby(self.lines, key=lambda line: line.where):
            rows += [[where, "", "", ""]] if where else []
            rows += [[", ".join(line.names), line.symbols, line.formula, _order(line.order)] for line in lines]
        return Sheet(
            title=f"{self.target}: {for_people(_order(self.order), Style())}",
            subtitle=f"{self.path} of {self.heading}",
            columns=[
                Column("step", numeric=False, folds=True),
                Column("in symbols", numeric=False, spare=1),
                Column("formula", numeric=False, folds=True),
                Column("time", numeric=False),
            ],
            rows=[*rows, ["sum", "", self.formula, _order(self.order)]],
            quiet=_order(self.order),
            notes=self.notes,
            legend=self.legend,
            depths=depths,
        )


def _order(growth: Polynomial | None) -> Cell:
    return "" if growth is None else Order(growth)
