"""Protocols of models and workloads: what every model can do, whatever its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.dimensions import Dimension
from tfcalc.workload import DEFAULT_LENGTH, Workload

if TYPE_CHECKING:
    from tfcalc.nn.module import Module


class Sized(Protocol):
    """A model or a workload: sizes with a letter each."""

    def dimensions(self) -> dict[str, Dimension]:
        """Return all sizes, by name."""
        ...

    def values(self) -> dict[str, Num]:
        """Return the value of each letter, of the sizes that were given or assumed."""
        ...

    def replaced(self, **sizes: Num) -> Self:
        """Return a copy with other sizes, by name."""
        ...

    def also_called(self, name: str, /) -> tuple[str, ...]:
        """Return other names of the size of this name."""
        ...

    def places(self, name: str, /) -> list[str]:
        """Return the sizes that change with this one: for layers, those of both stacks. Raises UsageError."""
        ...

    def described(self) -> dict[str, object]:
        """Return its fields as in the JSON, including sizes that follow from others."""
        ...


class Model(Sized, Protocol):
    """A model with a component tree and a module: a Transformer by its fields, or a config.json."""

    @property
    def longest(self) -> Num | None:
        """Longest sequence that it can read; None without a limit."""
        ...

    @property
    def summary(self) -> str:
        """Description of the model in a few words."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions about values that were not given, a sentence each."""
        ...

    def tree(self, workload: Workload) -> Component:
        """Return the component tree on this workload."""
        ...

    def module(self) -> Module:
        """Return the model as a module that runs."""
        ...

    def remarks(self, workload: Workload) -> tuple[str, ...]:
        """Return notes on the model on this workload, a sentence each."""
        ...

    def check(self, workload: Workload) -> None:
        """Raise InvalidModel if the model, or the model on this workload, is invalid."""
        ...

    def with_vocabulary(self, vocabulary: Num) -> Self:
        """Return the model with this vocabulary, if it has none of its own."""
        ...


def default_run(model: Model) -> Workload:
    """Return a workload of one sequence of 512 tokens, or of as many as the model can read."""
    longest = model.longest
    shorter = isinstance(longest, int) and longest < DEFAULT_LENGTH
    return Workload(seq_len=longest) if longest is not None and shorter else Workload()


def asked_run(model: Model, workload: Workload | None) -> Workload:
    """Return the workload that was asked for, or the default; a token is decoded over as many as are asked for."""
    workload = workload or default_run(model)
    return workload.replaced(cached=workload.seq_len) if workload.decoding and workload.cached is None else workload
