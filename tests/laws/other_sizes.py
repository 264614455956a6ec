"""The same model at other sizes, of which everything follows as before: each is squared.

Squares keep what sizes decide: which of two is larger, whether they are equal, whether one divides the other, and
whether two of them multiply to a third. So a model at the squares of its sizes has the structure that it had, and a
closed form that holds for it has to hold there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from random import Random
from typing import Any

from tests.test_remote_families import FULL, LINEAR, NEMOTRON, NO_OP
from tests.verify.random_configs import load
from tfcalc import InvalidModel, Workload
from tfcalc.configs.config import COUNT_LAYERS
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial
from tfcalc.model import values

DRAWS = 12
COUNTS = (*COUNT_LAYERS, "num_hidden_groups", "inner_group_num")
"""How fields end that count layers. Where these are not alike, there is a number for each kind, and the letter of the
field does not occur: such a form is that of this many layers."""
NO_DEFAULT: dict[str, dict[str, Any]] = {
    "nemotron-nas": {**NEMOTRON, "num_hidden_layers": 2, "block_configs": [FULL, {"attention": LINEAR, "ffn": NO_OP}]}
}
"""A config of a type whose fields cannot be left out, and that transformers does not build."""


class OtherStructure(Exception):
    """At other sizes there are parts that were not there: of layers that change at some depth, there were too few."""


@cache
def models(model_type: str) -> tuple[HFModel, ...]:
    """Random small ones of this type, those of fewest ones first; else what its config has by default."""
    random, draw = Random(model_type), load().get(model_type)
    drawn = [draw(random) for _ in range(DRAWS)] if draw else [NO_DEFAULT.get(model_type, {})]
    made = (HFModel({"model_type": model_type, **fields}) for fields in drawn)
    return tuple(sorted(filter(_makes_sense, made), key=_ones))


def _makes_sense(model: HFModel) -> bool:
    try:
        model.tree(Workload())
    except InvalidModel:
        return False
    return True


def _ones(model: HFModel) -> int:
    """Sizes whose squares are no other."""
    return sum(size == 1 for size in model.values().values())


def that_run(found: Iterable[HFModel], run: Workload) -> Iterator[HFModel]:
    """Those that can run this: a model that writes no text decodes none."""
    for model in found:
        try:
            model.check(run)
        except InvalidModel:
            continue
        yield model


class Squared:
    """A model on a workload whose sizes are the squares of others; those of ``fixed`` letters are what they were.

    Raises OtherStructure where such a model has other sizes than these, InvalidModel where there is none.
    """

    def __init__(self, model: HFModel, run: Workload, fixed: frozenset[str]) -> None:
        def squares(described: Any) -> Any:
            known, sizes = described.dimensions(), described.values()
            free = {name: size.symbol for name, size in known.items() if size.symbol in sizes.keys() - fixed}
            return described.replaced(**{name: sizes[letter] ** 2 for name, letter in free.items()})

        self.model: HFModel = squares(model)
        self.run: Workload = squares(run)
        self.sizes = {letter: _squared(size, letter in fixed) for letter, size in values(model, run).items()}
        found = values(self.model, self.run)
        if found.keys() != self.sizes.keys() or kinds(self.model.tree(self.run)) != kinds(model.tree(run)):
            raise OtherStructure
        assert found == self.sizes


def _squared(size: Num, fixed: bool) -> Num:
    return size if fixed else size * size


def fixed(model: HFModel, letters: frozenset[str]) -> frozenset[str]:
    """The counts of layers that have no letter in a form that has these."""
    counts = {size.symbol for path, size in model.dimensions().items() if path.endswith(COUNTS)}
    return frozenset(counts - letters)


def at(closed: object, sizes: dict[str, Num]) -> object:
    """The value of a closed form, which may be a number."""
    return closed.at(sizes) if isinstance(closed, Polynomial) else closed


def letters_of(closed: object) -> frozenset[str]:
    """The letters of a closed form, which may be a number."""
    return closed.free_symbols if isinstance(closed, Polynomial) else frozenset()


def kinds(tree: Component) -> set[str]:
    """The paths of a tree; of some of the layers, whichever they are."""
    return {re.sub(r"\[[^]]*\]", "[]", node.path) for node in tree.walk()}
