"""Modules whose weights no gradient trains."""

from __future__ import annotations

from typing import Any

from tfcalc.core.cost import Cost
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.module import Module


class Untrained(Module):
    """What holds weights that are not trained."""

    def held(self) -> Cost:
        """The same."""
        return frozen(super().held())


class UntrainedLinear(Untrained, Linear):
    """A linear map."""


class UntrainedNorm(Untrained, Norm):
    """A norm."""


class UntrainedEmbedding(Untrained, Embedding):
    """A table."""


def frozen(cost: Cost) -> Cost:
    """The same weights, which are not trained."""
    return cost._replace(weights=tuple(each._replace(frozen=True) for each in cost.weights))


UNTRAINED: dict[type[Module], type[Module]] = {
    Linear: UntrainedLinear,
    Norm: UntrainedNorm,
    Embedding: UntrainedEmbedding,
}


def untrained(module: Module) -> Module:
    """The same of which all maps, norms and tables are frozen; what was one module in several places is one again."""
    made: dict[int, Module] = {}

    def of(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(of(each) for each in value)
        if not isinstance(value, Module):
            return value
        if id(value) not in made:
            fields = {name: of(each) for name, each in value.__dict__.items()}
            made[id(value)] = UNTRAINED.get(type(value), type(value))(**fields)
        return made[id(value)]

    found: Module = of(module)
    return found
