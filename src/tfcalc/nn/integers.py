"""Modules that keep each weight a second time, as an integer, and the range of what runs through them (I-BERT)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.basic import Buffer, Embedding, Linear, Norm
from tfcalc.nn.embeddings import Embeddings, Positions, Segments
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.module import Module

RANGE = ("x_min", "x_max", "act_scaling_factor")
"""What is kept of the activations at a place: from where to where they go, and the size of a step."""


def quantised(cost: Cost, steps: Num, key: str) -> Cost:
    """With an integer for each weight, and the size of a step."""
    integers = (Weight(each.name, each.shape, key=f"{each.key}_integer") for each in cost.weights)
    return cost._replace(buffers=(*integers, Weight("steps", (steps,), key=key)))


class IntegerLinear(Linear):
    """A linear map, with the size of a step for each row."""

    def held(self) -> Cost:
        """W and b, twice."""
        return quantised(super().held(), self.fan_out, "fc_scaling_factor")


class IntegerTable(Module):
    """A table, twice."""

    def held(self) -> Cost:
        """With integers."""
        return quantised(super().held(), 1, "weight_scaling_factor")


class IntegerEmbedding(IntegerTable, Embedding):
    """Of words."""


class IntegerPositions(IntegerTable, Positions):
    """Of positions."""


class IntegerSegments(IntegerTable, Segments):
    """Of token types."""


class IntegerNorm(Norm):
    """A LayerNorm, with its shift and the range of what it makes."""

    def held(self) -> Cost:
        """γ and β."""
        ranges = (Weight(name, (1,), key=f"activation.{name}") for name in RANGE)
        return super().held()._replace(buffers=(Weight("shift", (1,), key="shift"), *ranges))


class IntegerEmbeddings(Embeddings):
    """Embeddings, with the ranges of what is added up."""

    ranges: tuple[Buffer, ...] = ()


class IntegerLayer(PostNorm):
    """A layer, with the ranges of what runs through it."""

    ranges: tuple[Buffer, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """The ranges last."""
        yield from super().parts
        yield from self.ranges


INTEGER: dict[type[Module], type[Module]] = {
    Linear: IntegerLinear,
    Embedding: IntegerEmbedding,
    Positions: IntegerPositions,
    Segments: IntegerSegments,
    Norm: IntegerNorm,
}


def in_integers(module: Module) -> Any:
    """The same with all that it holds kept twice."""
    kind = INTEGER.get(type(module), type(module))
    return kind(**{name: _of(value) for name, value in module.__dict__.items()})


def _of(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_of(each) for each in value)
    return in_integers(value) if isinstance(value, Module) else value


def ranges(*places: str) -> tuple[Buffer, ...]:
    """Those of the activations at these places."""
    names = (f"{place}.{name}" for place in places for name in RANGE)
    return tuple(Buffer(name, Weight(name, (1,), key="")) for name in names)
