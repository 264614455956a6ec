"""Values with named fields: what dataclasses do, without the code that they write.

A frozen dataclass of 8 fields takes 1.3 ms to make, and Llama imports some 40 classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from tfcalc.core.number import same

Made = TypeVar("Made")


@dataclass_transform(frozen_default=True)
class Frozen:
    """A subclass names its fields, as a dataclass does. Two values are equal where their classes and fields are."""

    fields_: ClassVar[dict[str, Any]] = {}
    """Of each field its default, or ``...`` where it must be given."""

    def __init_subclass__(cls) -> None:
        own = {name for name, of in cls.__annotations__.items() if "ClassVar" not in str(of)}
        inherited: dict[str, Any] = {}
        for base in reversed(cls.__bases__):
            inherited |= vars(base).get("fields_", {})
        cls.fields_ = inherited | {name: cls.__dict__.get(name, ...) for name in cls.__annotations__ if name in own}

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self.fields_, values, strict=False), **named)
        wrong = sorted(given.keys() - self.fields_.keys())
        missing = [name for name, default in self.fields_.items() if default is ... and name not in given]
        if wrong or missing or len(values) > len(self.fields_):
            raise TypeError(f"{type(self).__name__}: {', '.join(wrong or missing) or 'too many values'}")
        self.__dict__.update(self.fields_ | given)

    def replace(self, **changed: Any) -> Self:
        """The same with other values in some fields."""
        return type(self)(**self.__dict__ | changed)

    def as_type(self, kind: type[Made], **further: Any) -> Made:
        """The same as a value of another class, which has its fields and may have ``further`` ones."""
        return kind(**self.__dict__ | further)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed; see replace()")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(same(own, other.__dict__[name]) for name, own in self.__dict__.items())

    @property
    def fingerprint(self) -> int:
        """A number that equal values share, whatever kind of numbers they hold; symbols are left out."""
        return hash((type(self), *map(_fingerprint, self.__dict__.values())))

    __hash__ = None  # type: ignore[assignment]  # sizes may be symbols


def _fingerprint(value: object) -> int:
    if isinstance(value, Frozen):
        return value.fingerprint
    if isinstance(value, tuple):
        return hash(tuple(map(_fingerprint, value)))
    whole = getattr(value, "whole", value)  # that of a number with its closed form
    return hash(whole) if whole is None or isinstance(whole, int | str) else 0
