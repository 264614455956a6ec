"""The answer of ``shapes``: what is made on the way through a part of a model, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.report.declared import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Factors, Sheet, for_people
from tfcalc.report.style import Style

if TYPE_CHECKING:
    from tfcalc.report.opened_shapes import OfShapes


class Axes(NamedTuple):
    """A shape: a closed form and a number for each axis."""

    letters: tuple[Polynomial, ...]
    sizes: tuple[int, ...]


class MatrixProduct(NamedTuple):
    """A matrix product as it is written, with how many there are, M, K and N, where these are said."""

    name: str
    sizes: Axes | None

    def __str__(self) -> str:
        """``Q Kᵀ: 16 × (5 × 64)(64 × 5)``."""
        if self.sizes is None:
            return self.name
        count, m, k, n = self.sizes.sizes
        many = f"{count} × " if count != 1 else ""
        return f"{self.name}: {many}({m} × {k})({k} × {n})"


class Made(NamedTuple):
    """An intermediate result.

    Attributes:
        modules: names that lead from the target to the module, or the operation, that made it.
        name: what the mathematics, or else the model, calls it.
        operation: what made it besides; ``view`` where the numbers are those of the result before.
        products: the matrix products that made it.
        axes: its shape, in letters and in numbers.
        copies: how many of it the target makes.
        flops: of all copies.
        formula: the closed form of these.
    """

    modules: tuple[str, ...]
    name: str
    operation: str
    products: tuple[MatrixProduct, ...]
    axes: Axes
    copies: int
    flops: int
    formula: Polynomial

    @property
    def where(self) -> str:
        """The module or the operation below the target; empty for the target itself."""
        return ".".join(self.modules)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its shape in numbers."""
        return self.axes.sizes

    @property
    def made_by(self) -> str:
        """The products that made it, or the operation."""
        return ", ".join(map(str, self.products)) or self.operation


@dataclass(frozen=True, slots=True)
class Shapes:
    """The answer of :func:`~tfcalc.shapes`: the intermediate results of a forward pass through one part.

    Attributes:
        heading: the model.
        target: the part, as it was asked for.
        path: its path in the tree.
        reads: the shape of what it reads.
        results: one entry for each result, in the order in which they are made.
        answer: the FLOPs of the forward pass, those of all results.
        legend: the meaning of each letter.
    """

    heading: str
    target: str
    path: str
    reads: Axes | None
    results: tuple[Made, ...]
    answer: int
    legend: Mapping[str, str]
    model: dict[str, object]
    conventions: dict[str, object]
    notes: tuple[str, ...]

    def sheet(self) -> Sheet:
        """A row for each result, under a row for its module."""
        rows: list[list[Cell]] = []
        depths = []
        several = any(made.copies != 1 for made in self.results)
        if self.reads is not None:
            rows.append(["input", "", *_shape(self.reads), "", ""])
            depths.append(0)
        for where, results in groupby(self.results, key=self._module):
            if where:
                rows.append([where, *[""] * 5])
                depths.append(0)
            for made in results:
                count = made.copies if made.copies != 1 else ""
                rows.append([made.name, made.made_by, *_shape(made.axes), count, made.flops or ""])
                depths.append(1 if where else 0)
        rows.append(["sum", *[""] * 4, self.answer])
        sheet = Sheet(
            title=f"{self.target}: {len(self.results):,} results, {self.answer:,} FLOPs",
            subtitle=f"{self.path} of {self.heading}",
            columns=[
                Column("result", numeric=False),
                Column("made by", numeric=False, folds=True),
                Column("axes", numeric=False),
                Column("sizes", numeric=False),
                Column("times"),
                Column("FLOPs", spare=1),
            ],
            rows=rows,
            quiet=self._last,
            notes=self.notes,
            legend=self.legend,
            depths=[*depths, 0],
        )
        return sheet if several else sheet.without([4])

    @property
    def _last(self) -> Cell:
        """The shape of the last result, which is that of the part."""
        return _shape(self.results[-1].axes)[1] if self.results else ""

    def _module(self, made: Made) -> str:
        """Where a result stands: without the operation or the matrix itself, unless others stand there, too."""
        return ".".join(made.modules if made.modules in self._modules else made.modules[:-1])

    @property
    def _modules(self) -> frozenset[tuple[str, ...]]:
        """The modules that have others in them."""
        return frozenset(made.modules[:depth] for made in self.results for depth in range(len(made.modules)))

    def opener(self) -> OfShapes:
        """Where its numbers come from."""
        from tfcalc.report.opened_shapes import OfShapes

        return OfShapes(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "shapes",
            "target": self.target,
            "path": self.path,
            "model": self.model,
            "conventions": self.conventions,
            "total_flops": self.answer,
            "input": None if self.reads is None else _in_json(self.reads),
            "results": [
                {
                    "where": made.where,
                    "name": made.name,
                    "operation": made.operation,
                    **_in_json(made.axes),
                    "products": [_product(each) for each in made.products],
                    "copies": made.copies,
                    "flops": made.flops,
                    "formula": write(made.formula),
                }
                for made in self.results
            ],
            "legend": dict(self.legend),
        }

    def __str__(self) -> str:
        from tfcalc.render import rendered

        return rendered(self.sheet(), "plain", Style())


def _shape(axes: Axes) -> list[Cell]:
    """In letters and in numbers; what has no axes is one number."""
    return [Factors((), axes.letters), Factors((), axes.sizes)] if axes.sizes else ["number", "number"]


def _in_json(axes: Axes) -> dict[str, object]:
    return {"axes": [for_people(letter, Style()) for letter in axes.letters], "sizes": list(axes.sizes)}


def _product(product: MatrixProduct) -> dict[str, object]:
    if product.sizes is None:
        return {"name": product.name}
    count, m, k, n = product.sizes.sizes
    return {"name": product.name, "copies": count, "left": [m, k], "right": [k, n]}
