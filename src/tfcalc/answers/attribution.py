"""Effect of each config field that differs between two models: changed by itself in the first of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from tfcalc.analysis.changed_fields import ABSENT, FieldChange, changed_fields, same_family, with_fields
from tfcalc.answers.compared import (
    ACTIVE,
    CACHE,
    CACHE_PER_TOKEN,
    FORWARD,
    TOTAL,
    WEIGHTS,
    ComparedModels,
    InOneRow,
    ModelNumbers,
    Row,
    asked,
)
from tfcalc.answers.training_memory import TrainingMemory
from tfcalc.configs.published import finite
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Key, Record, Told, boolean, choice, optional_number, records, text, texts
from tfcalc.report.opening import Constant, Same, given, ratio, total

MOST = 12
"""Fields that are tried one by one."""
MANY = f"more than {MOST} fields that are read"
OTHER_TYPE = "the models are of different types"
TRAINED = asked(
    "training",
    TrainingMemory.peak_bytes,
    "training memory",
    "peak of a training step; null where it is not known",
    "training_peak_bytes",
    unknown="not known",
)
FOLLOWS = {WEIGHTS.key: TOTAL.key, CACHE.key: CACHE_PER_TOKEN.key}
"""What has no line of its own where what it follows from has one."""
LISTED = 12
"""Fields that are listed for people; programs get all."""
QUANTITIES = (TOTAL, ACTIVE, FORWARD, TRAINED, CACHE_PER_TOKEN, WEIGHTS, CACHE)
"""The numbers that a change of a field may move."""
EFFECTS = ("moves", "nothing", "only together", "not attributed")
"""Whether a field moves a number by itself."""


class Moved(NamedTuple):
    """``fields`` of the first model changed without the others: the rows, or the ``reason`` why that is no model.

    Several fields are those that make a model only together.
    """

    fields: tuple[FieldChange, ...]
    rows: tuple[Row, ...] = ()
    reason: str = ""

    @property
    def moves(self) -> bool:
        """Return whether any number differs."""
        return any(row.differs for row in self.rows)


def rows_of(old: ModelNumbers, new: ModelNumbers) -> tuple[Row, ...]:
    """The numbers of two models beside each other. Raises InvalidModel."""
    rows = (Row.of(each, (old, new)) for each in QUANTITIES)
    return tuple(row for row in rows if any(value is not None for value in row.values))


class Attribution:
    """Effect of each field in which a second model differs from the ``first``; ``unsaid`` is why there is none.

    Those ``fields`` that nobody reads are changed at once: where nothing moves, none of them moves anything.
    """

    def __init__(self, first: ModelNumbers, second: ModelNumbers) -> None:
        self.first = first
        self.fields = fields = changed_fields(first.model, second.model)
        self.moved: tuple[Moved, ...] = ()
        self.unsaid = ""
        if not fields:
            return
        if not same_family(first.model, second.model):
            self.unsaid = OTHER_TYPE
            return
        unread = [field for field in fields if not field.read]
        together = self.changing(*unread)
        idle = [] if together.moves or together.reason else unread
        if len(fields) - len(idle) > MOST:
            self.unsaid = MANY
            return
        alone = [self._idle(field, together) if field in idle else self.changing(field) for field in fields]
        self.moved = tuple(self._joined(alone))

    def changing(self, *some: FieldChange) -> Moved:
        """Return the effect of changing these fields of the first model, and no others."""
        try:
            return Moved(some, rows_of(self.first, self._changed(*some)))
        except InvalidModel as error:
            return Moved(some, reason=error.message)

    def _changed(self, *some: FieldChange) -> ModelNumbers:
        first = self.first.operand
        name = f"{first.name} with {', '.join(field.said for field in some)}"
        return ModelNumbers(first._replace(name=name, model=with_fields(first.model, some)), self.first.workload)

    def _idle(self, field: FieldChange, together: Moved) -> Moved:
        """A field that moves nothing, as it does not with others together: that is not found once more."""
        models = self.first, self._changed(field)
        return Moved((field,), tuple(row._replace(columns=models) for row in together.rows))

    def _joined(self, alone: Sequence[Moved]) -> Iterator[Moved]:
        """The fields as before, but those that make no model alone with as many others as they need for one.

        That is all of those, or each of them with one other field; one that needs more stays as it is.
        """
        invalid = [one for one in alone if one.reason]
        joined = self.changing(*(one.fields[0] for one in invalid)) if len(invalid) > 1 else None
        if joined is not None and not joined.reason:
            groups = [joined]
        else:
            pairs = (self._paired(one, [other for other in alone if other is not one]) for one in invalid)
            groups = [pair for pair in pairs if not pair.reason]
        taken = {field.keys for group in groups for field in group.fields}
        yield from (one for one in alone if one.fields[0].keys not in taken)
        yield from groups

    def _paired(self, one: Moved, others: Sequence[Moved]) -> Moved:
        """The field with the first other one with which it makes a model; itself where there is none."""
        pairs = (self.changing(*one.fields, *other.fields) for other in others if other.fields[0].read)
        return next((pair for pair in pairs if not pair.reason), one)


class WithEffect(NamedTuple):
    """A field, and its effect."""

    field: FieldChange
    effect: str


def with_effects(attribution: Attribution) -> list[WithEffect]:
    """Return each field with its effect: whether it moves a number by itself."""
    return [WithEffect(field, _effect(field, attribution.moved)) for field in attribution.fields]


def _effect(field: FieldChange, moved: Sequence[Moved]) -> str:
    of = next((one for one in moved if field in one.fields), None)
    moves, nothing, only_together, not_attributed = EFFECTS
    if of is None:
        return not_attributed
    return only_together if of.reason or len(of.fields) > 1 else moves if of.moves else nothing


# --- keys


def given_by(place: int) -> Told:
    """The config of one of both."""
    return Told(lambda one, *_: given(f"{one.field} in the config of {one.within.names[place]}"))


def value_of_field(meaning: str, make: Callable[[Any], object], origin: Told) -> Key[object]:
    """A value in a config: of any type."""
    types = ["string", "number", "integer", "boolean", "null", "array", "object"]
    return Key({"type": types, "description": meaning}, make, origin)


class ChangedField(Record):
    """A field that differs: what it is in both configs, and whether it moves a number."""

    field = text("its path: text_config.hidden_size", lambda one: one.field.path)
    old = value_of_field(
        "its value in the first model; null where it is left out",
        lambda one: None if one.field.old is ABSENT else finite(one.field.old),
        given_by(0),
    )
    new = value_of_field(
        "the same in the second",
        lambda one: None if one.field.new is ABSENT else finite(one.field.new),
        given_by(1),
    )
    old_given = boolean("whether the first model's config has it", lambda one: one.field.old is not ABSENT)
    new_given = boolean("whether the second's has", lambda one: one.field.new is not ABSENT)
    effect = choice(EFFECTS, "whether it moves a number by itself", lambda one: one.effect, typed=True)

    @property
    def path(self) -> str:
        """Its path."""
        return self.field


def side(meaning: str, place: int, origin: Told) -> Key[Any]:
    """The value of one of both models."""
    return optional_number(meaning, lambda row: row.values[place], origin)


def in_model(place: int) -> Told:
    """Return the origin of a number that is the same as one among those of the first or the second model."""
    return Told(lambda row: Same(f"models.{place}.{row.key}"))


class RowOfTwo(InOneRow):
    """A number of both models."""

    unit = text("params, flops or bytes", lambda row: row.unit)
    old = side("of the first model; null where it is not known, or the model has none", 0, in_model(0))
    new = side("of the second", 1, in_model(1))
    difference = optional_number(
        "how much more that is; null where one is no number",
        lambda row: row.difference(1),
        total(".new", less=".old"),
    )
    percent: Key[float | None] = Key(
        {"type": ["number", "null"], "description": "the same in per cent of the first model's"},
        lambda row: per_cent(row),
        Told(lambda _: ratio(Constant(100, "per cent"), ".difference", over=(".old",))),
    )
    reasons = texts("why a value is not known; empty where it is", lambda row: row.reasons)


class RowOfMoved(RowOfTwo):
    """A number of the first model, and the same with some fields changed: a number of that model."""

    new = side("with these fields changed", 1, Told(lambda row: row.source.origin(1)))


class MovedFields(Record):
    """Effect of fields that are changed alone in the first model."""

    fields = texts("their paths", lambda one: [field.path for field in one.fields])
    reason = text("why that is no model; empty where it is one", lambda one: one.reason)
    rows = records(
        RowOfMoved,
        "the numbers of that model beside those of the first; none where it is no model",
        lambda one: one.rows,
    )

    @property
    def moves(self) -> bool:
        """Return whether any number differs."""
        return bool(self.source.moves)


def per_cent(row: Row) -> float | None:
    """Return by how many per cent the second exceeds the first; None without numbers, or where the first is 0."""
    difference, first = row.difference(1), row.values[0]
    return 100 * difference / first if difference is not None and isinstance(first, int | float) and first else None


class FieldsThatDiffer(ComparedModels):
    """Models of which the first differs from the second in some fields: the effect of each on its own."""

    fields = records(
        ChangedField,
        "the fields of the config that differ",
        lambda found: with_effects(found.attribution),
    )
    moved = records(
        MovedFields,
        "what each field moves that is changed alone in the first model, or several that make a model only together",
        lambda found: found.attribution.moved,
    )
    not_attributed = text(
        "why no number was attributed to single fields; empty where they were", lambda found: found.attribution.unsaid
    )

    @cached_property
    def attribution(self) -> Attribution:
        """The fields, and what each moves. Raises UsageError."""
        first, second, *_ = self.columns
        return Attribution(first, second)

    def moved_notes(self) -> Iterator[str]:
        """A line for what each field moves."""
        moving = [one for one in self.attribution.moved if one.moves]
        if len(moving) == 1 and all(row.values == self.row(row.key).values for row in moving[0].rows):
            together = ", only together" if len(moving[0].fields) > 1 else ""
            yield f"Changed: {_listed(moving[0].fields)}{together}"
        else:
            for one in moving:
                how = "alone" if len(one.fields) == 1 else "only together"
                yield f"{_listed(one.fields)}, {how}: {self._moves(one)}"
        for one in self.attribution.moved:
            if one.reason:
                yield f"{_listed(one.fields)}: only together with the others, for alone {one.reason}"
        idle = [field for one in self.attribution.moved if not one.moves and not one.reason for field in one.fields]
        if idle:
            yield f"Changes nothing that is counted: {_listed(idle)}"
        if self.attribution.unsaid:
            fields = counted(len(self.attribution.fields), "field")
            yield f"{fields} changed, not attributed ({self.attribution.unsaid}): {_listed(self.attribution.fields)}"

    def _moves(self, one: Moved) -> str:
        return ", ".join(f"{row.quantity.called} {self.change(row)}{in_brackets(row)}" for row in telling(one.rows))

    def change(self, row: Row) -> str:
        """``+268M``; empty where one side has no number."""
        difference = row.difference(1)
        return "" if difference is None else f"{'+' * (difference > 0)}{row.written(difference, self.units)}"


def telling(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that differ, without those that only follow from another of them."""
    by = {row.key: row for row in rows}
    return [
        row
        for row in rows
        if row.differs
        and not (row.key in FOLLOWS and by[FOLLOWS[row.key]].differs)
        and not (row.quantity == ACTIVE and row.values == by[TOTAL.key].values)
    ]


def percent(row: Row) -> str:
    """``+13.4 %``; two figures of what is less than 0.05 %."""
    share = per_cent(row)
    if share is None:
        return ""
    rounded = f"{share:+,.1f}"
    return f"{share:+.2g} %" if share and float(rounded.replace(",", "")) == 0 else f"{rounded} %"


def in_brackets(row: Row) -> str:
    """Return the difference in per cent in brackets, if there is one."""
    written = percent(row)
    return f" ({written})" if written else ""


def _listed(fields: Sequence[FieldChange]) -> str:
    more = f", and {len(fields) - LISTED} more (--json lists all)" if len(fields) > LISTED else ""
    given_in_both_first = sorted(fields, key=lambda field: field.old is ABSENT or field.new is ABSENT)
    return ", ".join(field.said for field in given_in_both_first[:LISTED]) + more


def counted(count: int, what: str) -> str:
    """``1 field``, ``12 fields``."""
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"
