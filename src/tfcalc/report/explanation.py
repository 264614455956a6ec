"""The answer of ``explain``: everything that a number is the sum of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.report.report import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Sheet


class Line(NamedTuple):
    """Items of one size that stand side by side: ``factors`` in numbers and in symbols, ``value`` of all together."""

    where: str
    names: tuple[str, ...]
    factors: tuple[int, ...]
    symbols: tuple[Polynomial | int, ...]
    copies: tuple[int, Polynomial | int]
    formula: Polynomial
    value: int
    note: str

    def shape(self) -> str:
        """``3 × (h × h)``."""
        return self._spelt([write(factor) for factor in self.symbols], write(self.copies[1]))

    def sizes(self) -> str:
        """``3 × (768 × 768)``."""
        return self._spelt([str(factor) for factor in self.factors], str(self.copies[0]))

    def _spelt(self, factors: list[str], copies: str) -> str:
        each = " × ".join(f"({factor})" if " + " in factor else factor for factor in factors)
        outer = [copies] * (copies != "1") + [str(len(self.names))] * (len(self.names) > 1)
        return " × ".join([*outer, f"({each})" if outer and len(factors) > 1 else each])


@dataclass(frozen=True, slots=True)
class Explanation:
    """``quantity`` in words, ``unit`` as the suffix of its JSON key; ``substituted`` is the formula with its sizes."""

    heading: str
    target: str
    path: str
    of: str
    quantity: str
    unit: str
    lines: tuple[Line, ...]
    formula: Polynomial
    substituted: str
    answer: int
    model: dict[str, Any]
    conventions: dict[str, Any]
    notes: tuple[str, ...]

    def sheet(self) -> Sheet:
        """A row per matrix, under a row for the place where it stands, and the sum."""
        rows: list[list[Cell]] = []
        depths = []
        for where, lines in groupby(self.lines, key=lambda line: line.where):
            if where:
                rows.append([where, "", "", "", ""])
                depths.append(0)
            for line in lines:
                rows.append([", ".join(line.names), line.shape(), line.sizes(), line.formula, line.value])
                depths.append(1 if where else 0)
        rows.append(["sum", "", self.substituted, self.formula, self.answer])
        remarks = dict.fromkeys(f"{', '.join(line.names)}: {line.note}" for line in self.lines if line.note)
        return Sheet(
            title=f"{self.target}: {self.answer:,} {self.quantity}",
            subtitle=f"{self.path} of {self.heading}",
            columns=[
                Column("what", numeric=False),
                Column("in symbols", numeric=False),
                Column("in numbers", numeric=False, folds=True),
                Column("formula", numeric=False),
                Column("value"),
            ],
            rows=rows,
            quiet=self.answer,
            notes=[*remarks, *self.notes],
            depths=[*depths, 0],
        )

    def to_dict(self) -> dict[str, Any]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "explain",
            "target": self.target,
            "path": self.path,
            "of": self.of,
            "model": self.model,
            "conventions": self.conventions,
            f"total_{self.unit}": self.answer,
            "formula": write(self.formula),
            "substituted": self.substituted,
            "items": [
                {
                    "where": line.where,
                    "names": list(line.names),
                    "copies": line.copies[0],
                    "factors": list(line.factors),
                    self.unit: line.value,
                    "formula": write(line.formula),
                    "note": line.note,
                }
                for line in self.lines
            ],
        }

    def __str__(self) -> str:
        from tfcalc.render.plain import render
        from tfcalc.report.style import Style

        return render(self.sheet(), Style())
