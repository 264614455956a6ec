"""A diff of two models as an answer: what changed, what that moved, and the same in a pull-request comment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.analysis.changed_fields import ABSENT
from tfcalc.analysis.numbers import Unknown
from tfcalc.analysis.side_by_side import Row, plain, said
from tfcalc.analysis.totals import ACTIVE, CACHE, FORWARD, KV, PEAK, TOTAL, WEIGHTS
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Sheet

if TYPE_CHECKING:
    from tfcalc.analysis.changed_fields import Field
    from tfcalc.analysis.diff import Moved
    from tfcalc.analysis.opened_diff import OfDiff
    from tfcalc.analysis.totals import Operand
    from tfcalc.workload import Workload

ASKED = (TOTAL, FORWARD, PEAK, KV)
"""What is said also where it stays the same."""
FOLLOWS = {WEIGHTS: TOTAL, CACHE: KV}
"""What has no line of its own where what it follows from has one."""
LISTED = 12
"""Fields that are listed for people; programs get all."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two models: a row for each number, in exact values; the fields that differ; and what each of them moved alone.

    ``unsaid`` is why nothing was attributed to single fields, where nothing was. ``trained`` says what is trained how.
    """

    operands: tuple[Operand, Operand]
    workload: Workload
    rows: tuple[Row, ...]
    fields: tuple[Field, ...]
    moved: tuple[Moved, ...]
    unsaid: str = ""
    trained: tuple[str, ...] = ()
    units: str = "iec"

    @property
    def changed(self) -> bool:
        """Whether anything differs: a field, or a number."""
        return bool(self.fields) or any(row.differs for row in self.rows)

    @property
    def path(self) -> str:
        """The path of both, at whichever revisions; empty where they are of different names."""
        from tfcalc.revisions import at_ref

        paths = {name if (found := at_ref(name)) is None else found[1] for name in self._names}
        return paths.pop() if len(paths) == 1 else ""

    @property
    def _names(self) -> tuple[str, str]:
        first, second = self.operands
        return first.name, second.name

    def row(self, key: str) -> Row:
        """The row of this key."""
        return next(row for row in self.rows if row.key == key)

    def opener(self) -> OfDiff:
        """Where its numbers come from."""
        from tfcalc.analysis.opened_diff import OfDiff

        return OfDiff(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: both models, what differs, and what each field moved."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "diff",
            "changed": self.changed,
            "conventions": {
                "flops": "multiply-add = 2, matrix products only, masked pairs counted",
                "weights": "in the checkpoint's own format",
                "kv_cache": "of one request, paged, in the format computed in",
                "training": ", ".join(self.trained),
                "difference": "to the first model",
            },
            "models": [
                {
                    "name": operand.name,
                    "model": dict(operand.model.described()),
                    "batch_size": self.workload.batch_size,
                    "seq_len": self.workload.seq_len,
                    **{row.key: plain(row.values[place]) for row in self.rows},
                }
                for place, operand in enumerate(self.operands)
            ],
            "rows": [_described(row) for row in self.rows],
            "fields": [{**field.to_dict(), "effect": self._effect(field)} for field in self.fields],
            "moved": [
                {
                    "fields": [field.path for field in one.fields],
                    "reason": one.reason,
                    "rows": [_described(row) for row in one.rows],
                }
                for one in self.moved
            ],
            "not_attributed": self.unsaid,
        }

    def _effect(self, field: Field) -> str:
        """Whether it moves a number by itself: "moves", "nothing", "only together", or "not attributed"."""
        of = next((one for one in self.moved if field in one.fields), None)
        if of is None:
            return "not attributed"
        return "only together" if of.reason or len(of.fields) > 1 else "moves" if of.moves else "nothing"

    def sheet(self) -> Sheet:
        """A row for each number that moved, and below the table a line for each field."""
        return Sheet(
            title=self._sentence(),
            subtitle=" -> ".join(self._names),
            columns=[
                Column("", numeric=False, folds=True),
                Column("before"),
                Column("after"),
                Column("change"),
                Column("%", spare=1),
            ],
            rows=[self._cells(row) for row in self._shown()],
            quiet=_number(self.row(TOTAL.key)),
            notes=tuple(self._notes()),
            assumes=self._assumes(),
            see_also=("--format markdown", "--json"),
            detailed=self._detailed(),
        )

    def _shown(self) -> list[Row]:
        return _telling(self.rows)

    def _sentence(self) -> str:
        """``configs/model.json: parameters 8.03B -> 9.1B (+13.4 %)``: the first number that moved."""
        path, shown = f"{self.path}: " if self.path else "", self._shown()
        if not self.changed:
            return f"{path}nothing changed"
        if not shown:
            return f"{path}{_count(len(self.fields), 'field')} changed, and nothing that is counted"
        row = shown[0]
        old, new = (said(row.unit, value, self.units) for value in row.values)
        return f"{path}{row.quantity.called} {old} -> {new}{_in_brackets(row)}"

    def _cells(self, row: Row) -> list[Cell]:
        old, new = (said(row.unit, value, self.units) for value in row.values)
        return [row.quantity.called, old, new, self._change(row), _percent(row)]

    def _change(self, row: Row) -> str:
        """``+268M``; empty where one side has no number."""
        difference = row.difference(1)
        return "" if difference is None else f"{'+' * (difference > 0)}{said(row.unit, difference, self.units)}"

    def _notes(self) -> Iterator[str]:
        moving = [one for one in self.moved if one.moves]
        if len(moving) == 1 and all(row.values == self.row(row.key).values for row in moving[0].rows):
            together = ", only together" if len(moving[0].fields) > 1 else ""
            yield f"Changed: {_listed(moving[0].fields)}{together}"
        else:
            for one in moving:
                how = "alone" if len(one.fields) == 1 else "only together"
                yield f"{_listed(one.fields)}, {how}: {self._moves(one)}"
        for one in self.moved:
            if one.reason:
                yield f"{_listed(one.fields)}: only together with the others, for alone {one.reason}"
        idle = [field for one in self.moved if not one.moves and not one.reason for field in one.fields]
        if idle:
            yield f"Changes nothing that is counted: {_listed(idle)}"
        if self.unsaid:
            yield f"{_count(len(self.fields), 'field')} changed, not attributed ({self.unsaid}): {_listed(self.fields)}"
        yield from self._unknown()
        same = [row for row in self.rows if row.quantity in ASKED and not row.differs]
        numbers = [row for row in same if isinstance(row.values[0], int | float)]
        if numbers:
            listed = (f"{row.quantity.called} {said(row.unit, row.values[0], self.units)}" for row in numbers)
            yield f"Same: {', '.join(listed)}"

    def _moves(self, one: Moved) -> str:
        return ", ".join(f"{row.quantity.called} {self._change(row)}{_in_brackets(row)}" for row in _telling(one.rows))

    def _unknown(self) -> Iterator[str]:
        """A line for what cannot be said of a model."""
        for row in self.rows:
            if row.quantity not in ASKED:
                continue
            reasons = dict.fromkeys(value.reason for value in row.values if isinstance(value, Unknown))
            for reason in reasons:
                yield f"{row.quantity.called}: {reason}"

    def _assumes(self) -> tuple[str, ...]:
        run = self.workload
        trained = (f"training: {', '.join(self.trained)}",) if self.trained else ()
        return (f"FLOPs at {run.batch_size:,} x {run.seq_len:,} tokens", *trained)

    def _detailed(self) -> Sheet:
        """The same for programs: all numbers in full, and those of each field alone."""
        rows: list[list[Cell]] = [["", *_exactly(row)] for row in self.rows]
        for one in self.moved:
            name = "; ".join(field.path for field in one.fields)
            rows += [[name, *_exactly(row)] for row in one.rows if row.differs]
        return Sheet(
            title=self._sentence(),
            columns=[
                Column("changed alone", numeric=False),
                Column("quantity", numeric=False),
                Column("unit", numeric=False),
                *map(Column, ("before", "after", "difference", "percent")),
            ],
            rows=rows,
            quiet=_number(self.row(TOTAL.key)),
        )

    def __str__(self) -> str:
        from tfcalc.render import rendered
        from tfcalc.report.style import Style

        return rendered(self.sheet(), "plain", Style())

    def _repr_html_(self) -> str:
        from tfcalc.render import rendered
        from tfcalc.report.style import Style

        return rendered(self.sheet(), "html", Style())


def _telling(rows: Sequence[Row]) -> list[Row]:
    """Those that differ, without what only follows from another of them."""
    by = {row.quantity: row for row in rows}
    return [
        row
        for row in rows
        if row.differs
        and not (row.quantity in FOLLOWS and by[FOLLOWS[row.quantity]].differs)
        and not (row.quantity == ACTIVE and row.values == by[TOTAL].values)
    ]


def _described(row: Row) -> dict[str, object]:
    return {
        "key": row.key,
        "unit": row.unit,
        "old": plain(row.values[0]),
        "new": plain(row.values[1]),
        "difference": row.difference(1),
        "percent": _per_cent(row),
        "reasons": [value.reason if isinstance(value, Unknown) else "" for value in row.values],
    }


def _exactly(row: Row) -> list[Cell]:
    return [row.key, row.unit, plain(row.values[0]), plain(row.values[1]), row.difference(1), _per_cent(row)]


def _number(row: Row) -> int:
    difference = row.difference(1)
    assert isinstance(difference, int)
    return difference


def _per_cent(row: Row) -> float | None:
    """By how many per cent of the first the second is more; None where they are no numbers, or the first is 0."""
    difference, first = row.difference(1), row.values[0]
    return 100 * difference / first if difference is not None and isinstance(first, int | float) and first else None


def _percent(row: Row) -> str:
    """``+13.4 %``; two figures of what is less than 0.05 %."""
    share = _per_cent(row)
    if share is None:
        return ""
    rounded = f"{share:+,.1f}"
    return f"{share:+.2g} %" if share and float(rounded.replace(",", "")) == 0 else f"{rounded} %"


def _in_brackets(row: Row) -> str:
    percent = _percent(row)
    return f" ({percent})" if percent else ""


def _listed(fields: Sequence[Field]) -> str:
    more = f", and {len(fields) - LISTED} more (--json lists all)" if len(fields) > LISTED else ""
    given_in_both_first = sorted(fields, key=lambda field: field.old is ABSENT or field.new is ABSENT)
    return ", ".join(field.said for field in given_in_both_first[:LISTED]) + more


def _count(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"
