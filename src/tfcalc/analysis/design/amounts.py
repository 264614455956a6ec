"""Cost of a shape, by a closed form that is evaluated in microseconds; memory has none, and is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tfcalc.analysis.common import run_tree
from tfcalc.analysis.design.family import DEPTH, WIDTH, ShapeFamily, letters_of
from tfcalc.core.component import Measure
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.model import Model, with_symbols
from tfcalc.workload import Workload

Sizes = Mapping[str, int]
AT_DEPTH = Callable[[int], int]
N = "n"
DEEPER = 5
"""Layers more than the base model has, at which the form in letters is held against another model's."""


class BudgetedAmount(Protocol):
    """Amount that is budgeted of a shape."""

    def by_depth(self, sizes: Sizes) -> AT_DEPTH:
        """Return the amount of these sizes for each number of layers."""
        ...

    def of(self, model: Model) -> int:
        """Return the amount of a model, counted."""
        ...


class PolynomialAmount:
    """Parameters or FLOPs: a polynomial in the sizes that vary.

    Where the depth or the width decides on the structure (layers that differ by their place, a projection where the
    embedding has another width), there is one for each depth, or for each width.
    """

    def __init__(self, family: ShapeFamily, run: Workload, measure: Measure) -> None:
        self.family, self.run, self.measure = family, run, measure
        self.letters = {name: letters_of(family.model, name) for name in family.names}
        self.form = self._form(family.model)
        if self.form.free_symbols.isdisjoint(self.letters[WIDTH]):
            raise UsageError(f"d_model cannot be varied in {family.base.summary}", "design with --like another model")
        self.structural = {DEPTH: not self._holds(DEPTH, DEEPER), WIDTH: not self._holds(WIDTH, family.own(WIDTH))}
        self._forms: dict[tuple[tuple[str, int], ...], Polynomial] = {}

    def of(self, model: Model) -> int:
        """Counted on the model's own tree."""
        return value_of(run_tree(model, self.run).total(self.measure))

    def _form(self, model: Model) -> Polynomial:
        found: Num = run_tree(with_symbols(model), self.run).total(self.measure)
        form = found if isinstance(found, Polynomial) else Polynomial({(): value_of(found)})
        varied = {letter for letters in self.letters.values() for letter in letters}
        fixed = {letter: value for letter, value in model.values().items() if letter not in varied}
        at: Polynomial | int = form.at(fixed)
        return at if isinstance(at, Polynomial) else Polynomial({(): at})

    def _holds(self, name: str, more: int) -> bool:
        """Return True if the form is also that of a deeper, or wider, model."""
        letters, larger = self.letters[name], self.family.own(name) + more
        if not self.form.free_symbols.issuperset(letters):
            return False
        try:
            other = self._form(self.family.model.replaced(**{name: larger}))
        except InvalidModel:
            return name == WIDTH  # heads that do not divide it: nothing about its structure
        values = dict.fromkeys(letters, larger)
        return bool(self.form.at(values) == other.at(values))

    def by_depth(self, sizes: Sizes) -> AT_DEPTH:
        """The polynomial with these sizes in it, which leaves one in the number of layers."""
        values = {letter: size for name, size in sizes.items() for letter in self.letters[name]}
        layers = self.letters[DEPTH]
        if self.structural[DEPTH]:
            return lambda depth: int(self._at(sizes, depth).at(values | dict.fromkeys(layers, depth)))
        line = self._at(sizes, None).at(values | dict.fromkeys(layers, symbol(N)))
        powers = _powers(line)
        if powers is None:
            return lambda depth: int(line.at({N: depth}))
        return lambda depth: sum(factor * depth**power for power, factor in powers)

    def _at(self, sizes: Sizes, depth: int | None) -> Polynomial:
        """The form of this structure."""
        asked = {} if depth is None else {DEPTH: depth}
        if self.structural[WIDTH]:
            asked |= {name: sizes[name] for name in (WIDTH, "n_heads")}
        if not asked:
            return self.form
        key = tuple(asked.items())
        if key not in self._forms:
            try:
                self._forms[key] = self._form(self.family.model.replaced(**asked))
            except InvalidModel as error:
                names = " and ".join(asked)
                raise UsageError(f"{names} cannot be varied in {self.family.base.summary}: {error.message}") from None
        return self._forms[key]


def _powers(line: Polynomial) -> list[tuple[int, int]] | None:
    """Powers of the depth with their factors; None where it is under a floor."""
    found = []
    for powers, factor in line.terms.items():
        known = dict(powers)
        power = known.pop(N, 0)
        if known or power < 0:
            return None
        found.append((power, factor))
    return found
