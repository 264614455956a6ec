"""A number opened up: each matrix with its shape, its formula, the sizes put in, and the sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.conventions import DTYPES, Definitions
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.notation import UNICODE, write
from tfcalc.core.number import Num, ceil_div, product
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import UsageError, one_of
from tfcalc.questions.common import subject
from tfcalc.questions.quantities import QUANTITIES
from tfcalc.questions.stated import for_programs, in_words
from tfcalc.questions.targets import find
from tfcalc.report import BLOCKS, SCHEMA_VERSION, whole
from tfcalc.report.sheet import Cell, Column, Sheet
from tfcalc.symbols import values
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

OF = ("params", "flops", "memory")


class Item(NamedTuple):
    """One tensor, product or pass over elements: its name and the factors that multiply to its value."""

    name: str
    factors: tuple[Num, ...]
    value: Num


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
    """Everything that a number is the sum of. ``unit`` is the suffix of its JSON key."""

    heading: str
    target: str
    path: str
    of: str
    unit: str
    lines: tuple[Line, ...]
    formula: Polynomial
    substituted: str
    answer: int
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
                rows.append([" ".join(line.names), line.shape(), line.sizes(), line.formula, line.value])
                depths.append(1 if where else 0)
        rows.append(["sum", "", self.substituted, self.formula, self.answer])
        remarks = dict.fromkeys(f"{' '.join(line.names)}: {line.note}" for line in self.lines if line.note)
        return Sheet(
            title=f"{self.target}: {self.answer:,} {QUANTITIES[self.of]}",
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


def explain(
    target: str,
    model: Model,
    of: str = "params",
    run: Workload | None = None,
    definitions: Definitions | None = None,
) -> Explanation:
    """Open up one number: the params, flops or memory of one ``target`` (a name or a path of the tree).

    Raises UsageError for an unknown target or quantity, InvalidModel for a model that cannot be.

    >>> from tfcalc.families.transformer import Transformer
    >>> [line.shape() for line in explain("attention", Transformer(d_model=768, n_heads=12)).lines]
    ['3 × (h × h)', '3 × h', 'h × h', 'h']
    """
    by = definitions or Definitions()
    one_of("quantity", of, OF)
    asked = subject(model, run, by)
    run = asked.run
    node, twin = find(asked.node, target), find(asked.twin, target)
    lines = tuple(_lines(node.component, twin.component, of, run, by, values(asked.model, run)))
    if not lines:
        raise UsageError(f"{target} has no {of} of its own", "ask for another part, or --of flops --count all")
    closed = _sum(line.formula for line in lines)
    return Explanation(
        heading=asked.model.summary,
        target=target,
        path=node.path,
        of=of,
        unit="bytes" if of == "memory" else of,
        lines=lines,
        formula=closed,
        substituted=_substituted(closed, values(asked.model, run)),
        answer=sum(line.value for line in lines),
        conventions=for_programs(of, run, by),
        notes=tuple(in_words(of, run, by)),
    )


class _Leaf(NamedTuple):
    """A leaf with its twin, its parent's place, and how many of it the target has."""

    where: str
    leaf: Component
    twin: Component
    copies: tuple[Num, Num]


def _leaves(component: Component, twin: Component, where: str, copies: tuple[Num, Num]) -> Iterator[_Leaf]:
    if not component.parts:
        yield _Leaf(where, component, twin, copies)
    for part, part_twin in zip(component.parts, twin.parts, strict=True):
        has_place = part.parts or part.kind in BLOCKS
        below = f"{where}.{part.name}".lstrip(".") if has_place else where
        yield from _leaves(part, part_twin, below, (copies[0] * part.copies, copies[1] * part_twin.copies))


def _lines(
    target: Component, twin: Component, of: str, run: Workload, by: Definitions, sizes: dict[str, Num]
) -> Iterator[Line]:
    def alike(found: _Leaf) -> tuple[Any, ...]:
        return (found.where, found.leaf.kind, *((item.factors) for item in _items(found.twin.own, of, run, by)))

    for _, group in groupby(_leaves(target, twin, "", (1, 1)), key=alike):
        found = list(group)
        numbers = [_items(one.leaf.own, of, run, by) for one in found]
        letters = _items(found[0].twin.own, of, run, by)
        copies, copies_twin = found[0].copies
        for items, symbolic in zip(zip(*numbers, strict=True), letters, strict=True):
            yield Line(
                where=found[0].where,
                names=tuple(item.name for item in items),
                factors=tuple(whole(factor) for factor in items[0].factors),
                symbols=symbolic.factors,  # type: ignore[arg-type]  # the twin is made of symbols and ints
                copies=(whole(copies), copies_twin),  # type: ignore[arg-type]
                formula=_sum([copies_twin * symbolic.value * len(items)]),
                value=whole(copies * items[0].value) * len(items),
                note=_note(found[0], items[0].name, len(items), sizes),
            )


def _items(cost: Cost, of: str, run: Workload, by: Definitions) -> list[Item]:
    if of != "flops":
        stored = [weight for weight in cost.weights if weight.tied_to is None]
        if of == "params":
            return [Item(weight.name, weight.shape, weight.size) for weight in stored]
        whole_bytes, rest = divmod(DTYPES[by.dtype], 8)
        if rest:
            return [Item(w.name, w.shape, ceil_div(w.size * DTYPES[by.dtype], 8)) for w in stored]
        return [Item(w.name, (*w.shape, whole_bytes), w.size * whole_bytes) for w in stored]
    items = [
        Item(each.name, factors, product(factors))
        for each in cost.products
        for factors in [(*([1 + each.backward] if run.training else []), *each.factors)]
    ]
    if by.count == "all":
        for work in cost.elementwise:
            factors = (work.forward + work.backward * run.training, work.elements)
            items += [Item(work.name, factors, product(factors))] if factors[0] else []
    return items


def _sum(formulas: Any) -> Polynomial:
    result = Polynomial({})
    for one in formulas:
        result = result + one
    return result


def _substituted(closed: Polynomial, sizes: dict[str, Num]) -> str:
    """``4·768² + 4·768``."""
    return write(closed, script=UNICODE, letters={letter: str(size) for letter, size in sizes.items()})


def _note(found: _Leaf, name: str, together: int, sizes: dict[str, Num]) -> str:
    """What people ask about this tensor."""
    if found.leaf.own.products and name == found.leaf.own.weights[0].name if found.leaf.own.weights else False:
        if together > 1 and name == "W_Q" and sizes["h"] % sizes["a"] == 0:  # type: ignore[operator]
            heads, width = sizes["a"], sizes["h"]
            return f"the {heads} heads share each ({heads} × {width // heads} = {width})"  # type: ignore[operator]
        if name == "W_O":
            return "mixes the heads; the one people forget"
    return NOTES.get(name, "")


NOTES = {
    "γ": "scale",
    "β": "shift",
    "E": "a row per word; looking one up costs no FLOPs",
    "P": "a row per position",
}
