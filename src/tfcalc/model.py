"""What every model can do, whichever family it comes from."""

from __future__ import annotations

from dataclasses import Field
from typing import Any, ClassVar, Protocol

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.workload import Workload


class Model(Protocol):
    """A frozen dataclass of dimensions and choices that can be turned into a component tree."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def longest(self) -> Num | None:
        """The longest sequence it can read; None where there is no such limit."""
        ...

    @property
    def summary(self) -> str:
        """The model in a few words."""
        ...

    def tree(self, run: Workload) -> Component:
        """The component tree on this workload."""
        ...

    @property
    def implied(self) -> dict[str, Num]:
        """The sizes that follow from others where they are not given."""
        ...

    @property
    def assumed(self) -> dict[str, Num]:
        """The sizes that follow from nothing, and are assumed where they are not given."""
        ...

    def check(self, run: Workload) -> None:
        """Raise InvalidModel where the model, or the model on this workload, makes no sense."""
        ...
