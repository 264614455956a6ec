"""Our named tuples beside typing's: the same values, methods and errors."""

from __future__ import annotations

import copy
import pickle
import re
import typing
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import pytest

import tfcalc
from tfcalc import named_tuple

T = TypeVar("T")


class Ours(named_tuple.NamedTuple):
    """A matrix."""

    rows: int
    columns: int = 3
    name: str = "W"

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.rows * self.columns

    @classmethod
    def square(cls, rows: int) -> Ours:
        """A matrix with as many columns."""
        return cls(rows, rows)


class Theirs(typing.NamedTuple):
    """A matrix."""

    rows: int
    columns: int = 3
    name: str = "W"

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.rows * self.columns

    @classmethod
    def square(cls, rows: int) -> Theirs:
        """A matrix with as many columns."""
        return cls(rows, rows)


class Pair(named_tuple.NamedTuple, Generic[T]):
    """Two of a kind."""

    first: T
    second: T


class Wider(Ours):
    """A subclass has the fields of its base."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """Number of elements, of two."""
        return 2 * super().size


def told(value: Any) -> str:
    """What a value says of itself, but for the name of its class."""
    return repr(value).removeprefix(type(value).__name__)


@pytest.mark.parametrize(
    "given", [((2,), {}), ((2, 5), {}), ((2, 5, "V"), {}), ((2,), {"name": "V"}), ((), {"rows": 7, "columns": 1})]
)
def test_values_and_methods(given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    values, named = given
    ours: Any = Ours(*values, **named)
    theirs: Any = Theirs(*values, **named)
    assert tuple(ours) == tuple(theirs)
    assert ours == theirs  # as tuples are
    assert hash(ours) == hash(theirs)
    assert told(ours) == told(theirs)
    assert (ours.rows, ours.columns, ours.name, ours.size) == (theirs.rows, theirs.columns, theirs.name, theirs.size)
    assert ours._asdict() == theirs._asdict()
    assert told(ours._replace(name="U", rows=9)) == told(theirs._replace(name="U", rows=9))
    assert told(Ours._make([1, 2, "X"])) == told(Theirs._make([1, 2, "X"]))
    assert told(Ours.square(4)) == told(Theirs.square(4))
    assert not hasattr(ours, "__dict__")


def test_of_the_class() -> None:
    assert Ours._fields == Theirs._fields == Ours.__match_args__
    assert Ours._field_defaults == Theirs._field_defaults
    assert get_type_hints(Ours) == get_type_hints(Theirs)
    assert (Ours.__doc__, Ours.__module__, Ours.__qualname__) == (Theirs.__doc__, Theirs.__module__, "Ours")
    assert type(Ours) is type
    assert issubclass(Ours, tuple)


@pytest.mark.parametrize("kind", [Ours, Theirs])
@pytest.mark.parametrize("given", [((), {}), ((1, 2, "W", 4), {}), ((1,), {"rows": 2}), ((1,), {"depth": 2})])
def test_wrong_calls(kind: Any, given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    values, named = given
    with pytest.raises(TypeError, match=rf"{kind.__name__}\.__new__\(\)|<lambda>\(\)"):
        kind(*values, **named)


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_wrong_fields(kind: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="depth"):
        kind(1)._replace(depth=2)
    with pytest.raises(AttributeError):
        kind(1).rows = 2


@pytest.mark.parametrize("value", [Ours(2), Pair("a", "b"), Wider(3)])
def test_copies(value: Any) -> None:
    for same in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert (same, type(same)) == (value, type(value))


def test_patterns_generics_and_bases() -> None:
    match Ours(2, 4):
        case Ours(rows, columns):
            assert (rows, columns) == (2, 4)
    assert Pair[int](1, 2) == (1, 2)
    assert Wider(2).size == 12
    assert told(Wider(2)._replace(rows=1)) == told(Theirs(1))


def test_what_a_class_cannot_be() -> None:
    with pytest.raises(TypeError, match="without a default"):
        type("Wrong", (named_tuple.NamedTuple,), body("Wrong", rows=1, columns=None))
    with pytest.raises(TypeError, match="_fields"):
        type("Wrong", (named_tuple.NamedTuple,), body("Wrong", rows=1) | {"_fields": ()})


def body(name: str, **defaults: int | None) -> dict[str, Any]:
    """Body of a class whose fields have these defaults; None: it has none."""
    given = {field: default for field, default in defaults.items() if default is not None}
    return {"__annotations__": dict.fromkeys(defaults, "int"), "__module__": __name__, "__qualname__": name, **given}


def test_all_of_tfcalc_are_quick_to_define() -> None:
    files = [path for path in Path(tfcalc.__file__).parent.rglob("*.py") if path != Path(named_tuple.__file__)]
    assert len(files) > 500
    assert not [path.name for path in files if re.search(r"from typing import .*NamedTuple", path.read_text("utf-8"))]
