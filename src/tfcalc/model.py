"""What every model can do, whichever family it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.dimensions import Dimension
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.nn.module import Module


class Sized(Protocol):
    """A model or a workload: sizes that have a letter each."""

    def dimensions(self) -> dict[str, Dimension]:
        """The sizes there are, by name."""
        ...

    def values(self) -> dict[str, Num]:
        """What each letter stands for, of the sizes that were given or assumed."""
        ...

    def replaced(self, **sizes: Num) -> Self:
        """The same with other sizes, by name."""
        ...

    def also_called(self, name: str, /) -> tuple[str, ...]:
        """Other names that the size of this name goes by."""
        ...

    def places(self, name: str, /) -> list[str]:
        """The sizes that change with the one of this name: those of both stacks, for layers. Raises UsageError."""
        ...

    def described(self) -> dict[str, object]:
        """It as it stands in the JSON, with the sizes that follow from others."""
        ...


class Model(Sized, Protocol):
    """Sizes and structure that can be turned into a component tree: a Transformer by its fields, or a config.json."""

    @property
    def longest(self) -> Num | None:
        """The longest sequence it can read; None where there is no such limit."""
        ...

    @property
    def summary(self) -> str:
        """The model in a few words."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was taken to be so because nobody said otherwise, a sentence each."""
        ...

    def tree(self, workload: Workload) -> Component:
        """The component tree on this workload."""
        ...

    def module(self) -> Module:
        """The model as a module that runs."""
        ...

    def remarks(self, workload: Workload) -> tuple[str, ...]:
        """What should be known of the model on this workload, a sentence each."""
        ...

    def check(self, workload: Workload) -> None:
        """Raise InvalidModel where the model, or the model on this workload, makes no sense."""
        ...

    def with_vocabulary(self, vocabulary: Num) -> Self:
        """The same with this vocabulary, where it has none."""
        ...
