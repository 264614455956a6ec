"""A condition with several unknowns: one of them is solved for at each of many values of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from tfcalc.errors import TfcalcError, UsageError
from tfcalc.report.sheet import Sheet
from tfcalc.solving.answer import head, row_to_dict, table
from tfcalc.solving.asked import Asked
from tfcalc.solving.single import Row, Single
from tfcalc.solving.unknowns import settled, unknown

if TYPE_CHECKING:
    from tfcalc.expressions import Condition
    from tfcalc.model import Model
    from tfcalc.solving.opened import OfSolved
    from tfcalc.solving.unknowns import Unknown

MOST_TRIED = 64
"""Values of the other unknowns at which the first is solved for; fewer where there is no closed form."""
MOST_TRIED_BY_SEARCH = 12
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Family:
    """The answer of :func:`~tfcalc.solve` for several sizes: ``rows`` are those nearest to the condition.

    ``tried`` are the values of the others at which the first was solved for.
    """

    condition: str
    of: str
    asked: Asked
    unknowns: Sequence[Unknown]
    rows: Sequence[Row]
    texts: Sequence[str]
    conditions: Sequence[Condition]
    tried: Mapping[str, Sequence[int]]

    @property
    def value(self) -> tuple[int, ...] | None:
        """The sizes that come nearest, in the order in which they were asked for; None where there are none."""
        return tuple(self.rows[0].sizes.values()) if self.rows else None

    @property
    def exit_code(self) -> int:
        """1 where no sizes meet the condition, nor come near."""
        return 0 if self.rows else 1

    def opener(self) -> OfSolved:
        """Where its numbers come from."""
        from tfcalc.solving.opened import OfSolved

        return OfSolved(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            **head(self.condition, self.of, self.asked, self.unknowns, self._model),
            "outcome": "family" if self.rows else "never",
            "value": None if self.value is None else list(self.value),
            "tried": {word: list(values) for word, values in self.tried.items()},
            "rows": [row_to_dict(row) for row in self.rows],
            "proof": self.proof,
        }

    @property
    def _model(self) -> Model:
        """The model, with the sizes that come nearest."""
        sizes = dict(zip(self.unknowns, self.value or (), strict=False))
        of_model = {each.name: size for each, size in sizes.items() if each.owner == "model"}
        model = self.asked.setting.model
        return model.replaced(**of_model) if of_model else model

    @property
    def proof(self) -> str:
        """What was looked through."""
        others = "; ".join(f"{word} {_listed(values)}" for word, values in self.tried.items())
        return f"{self.unknowns[0].word} solved for at each of {others}"

    def sheet(self) -> Sheet:
        """A line for each of the sizes."""
        words = ", ".join(each.word for each in self.unknowns)
        summary = f"{self.condition}: {self._model.summary}"
        if not self.rows:
            return Sheet(
                f"NEVER: no {words} of those tried meets {self.condition}", (), (), "none", summary, [self.proof]
            )
        equation = all(each.operator == "=" for each in self.conditions)
        columns, rows = table(self.rows, self.texts, self.conditions, self.asked, equation=equation)
        best = " ".join(f"{word} {size:,}" for word, size in self.rows[0].sizes.items())
        return Sheet(
            title=f"{best}, of {len(self.rows)} that come nearest",
            subtitle=summary,
            columns=columns,
            rows=rows,
            quiet=" ".join(str(size) for size in self.rows[0].sizes.values()),
            notes=[self.proof],
            see_also=("--json",),
        )


def family(
    asked: Asked, conditions: Sequence[Condition], unknowns: tuple[Unknown, ...], condition: str, texts: Sequence[str]
) -> Family:
    """The sizes nearest to a condition. Raises UsageError where one of them changes nothing."""
    first, others = unknowns[0], unknowns[1:]
    forms = asked.forms(unknowns)
    domains = [Single(asked, conditions, each, None).domain() for each in others]
    most = MOST_TRIED if forms is not None else MOST_TRIED_BY_SEARCH
    each_most = most if len(others) == 1 else int(most**0.5)
    tried = {
        each.word: [within.size(k) for k in _places(within.first, within.last, each_most, forms is not None)]
        for each, within in zip(others, domains, strict=True)
    }
    rows: list[Row] = []
    reason: TfcalcError | None = None
    for sizes in product(*tried.values()):
        setting = asked.setting
        for each, size in zip(others, sizes, strict=True):
            setting = setting.at(each, size)
        (one,), setting = settled([unknown(first.word, setting)], setting)
        try:
            single = Single(asked.with_setting(setting), conditions, one, forms, probed=False)
            found = single.found()
        except UsageError:
            raise
        except TfcalcError as error:
            reason = error
            continue
        beside = dict(zip(tried, sizes, strict=True))
        rows += _kept(found.rows, conditions, {first.word: 0, **beside})
    if not rows and reason is not None:
        raise reason
    rows.sort(key=lambda row: (_apart(row), *row.sizes.values()))
    return Family(condition, asked.of, asked, unknowns, rows[:SHOWN], texts, conditions, tried)


def _kept(rows: Sequence[Row], conditions: Sequence[Condition], sizes: Mapping[str, int]) -> Iterator[Row]:
    """Of one solution what is worth showing: of an equation the nearest, else all ends that meet the condition."""
    equation = all(each.operator == "=" for each in conditions)
    kept = [min(rows, key=_apart)] if equation and rows else [row for row in rows if row.holds]
    for row in kept:
        yield row._replace(sizes={**sizes, **row.sizes})


def _apart(row: Row) -> Fraction:
    """By how much the sides differ, of the right one where it is not 0."""
    left, right = row.sides[0], row.sides[-1]
    return abs(Fraction(left - right) / (right or 1))


def _places(first: int, last: int, most: int, dense: bool) -> list[int]:
    """The first so many; or their doubles, where each costs time."""
    if dense:
        return list(range(first, min(last, first + most - 1) + 1))
    found = [first]
    while len(found) < most and found[-1] * 2 <= last:
        found.append(found[-1] * 2)
    return found


def _listed(values: Sequence[int]) -> str:
    if len(values) > 4 and values[1] - values[0] == values[-1] - values[-2]:
        return f"{values[0]:,}, {values[1]:,} … {values[-1]:,}"
    return ", ".join(f"{each:,}" for each in values)
