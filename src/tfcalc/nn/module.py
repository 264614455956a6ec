"""What all modules are: values with a name, which hold weights and other modules, and can be called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self, dataclass_transform

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.tape.tensor import Tensor


@dataclass_transform(frozen_default=True)
class Module:
    """A part of a model. A subclass names its fields, as a dataclass does, and says how its ``forward`` goes.

    Fields that are modules, or tuples of them, are its parts. Two modules are equal where all their fields are.
    """

    kind = ""
    fields_: ClassVar[dict[str, Any]] = {"name": ...}

    name: str

    def __init_subclass__(cls) -> None:
        own = {
            name: cls.__dict__.get(name, ...)
            for name, of in cls.__annotations__.items()
            if not of.startswith("ClassVar")
        }
        cls.fields_ = {**cls.fields_, **own}

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self.fields_, values, strict=False), **named)
        for name, default in self.fields_.items():
            value = given.pop(name, default)
            if value is ...:
                raise TypeError(f"{type(self).__name__} needs {name}")
            self.__dict__[name] = value
        if given or len(values) > len(self.fields_):
            raise TypeError(f"{type(self).__name__} has no {', '.join(given) or 'so many fields'}")

    def but(self, **changed: Any) -> Self:
        """The same with other values in some fields."""
        return type(self)(**{**self.__dict__, **changed})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed; see but()")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # sizes may be symbols

    # --- what it holds

    def held(self) -> Cost:
        """Its own weights and buffers, without those of its parts."""
        return Cost()

    @property
    def parts(self) -> Iterator[Module]:
        """The modules that stand in its fields, in their order."""
        for value in self.__dict__.values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Module):
                    yield each

    def components(self) -> Iterator[Component]:
        """What it and its parts hold: the tree of parameters, for which nothing needs to run."""
        inside = tuple(each for part in self.parts for each in part.components())
        yield Component(self.name, self.kind, self.held(), inside)

    # --- how it runs

    def __call__(self, x: Tensor, *given: Any) -> Tensor:
        """Run it on this tensor's trace."""
        with x.trace.inside(self):
            return self.forward(x, *given)

    def forward(self, x: Tensor, *given: Any) -> Tensor:
        """What it makes of ``x``."""
        raise NotImplementedError
