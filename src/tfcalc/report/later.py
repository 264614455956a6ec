"""Entries of an answer that are found only when somebody reads all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar

T = TypeVar("T")


class Later(Mapping[str, Any]):
    """Some entries that are ``known``, and others that take a while to find.

    >>> dict(Later({"peak": 1}, lambda: {"reserved": 2}))
    {'peak': 1, 'reserved': 2}
    """

    def __init__(self, known: Mapping[str, Any], find: Callable[[], Mapping[str, Any]]) -> None:
        self.known, self.find = known, find

    @cached_property
    def found(self) -> Mapping[str, Any]:
        """All of them."""
        return {**self.known, **self.find()}

    def __getitem__(self, key: str) -> Any:
        return self.known[key] if key in self.known else self.found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


class OneByOne(Mapping[str, Any]):
    """Entries that are each found when it is read, and not again.

    >>> asked = OneByOne({"peak": lambda: print("found") or 7, "never": lambda: 1 / 0})
    >>> asked["peak"], asked["peak"], "never" in asked
    found
    (7, 7, True)
    """

    def __init__(self, finds: Mapping[str, Callable[[], Any]]) -> None:
        self.finds = finds
        self.found: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self.found:
            self.found[key] = self.finds[key]()
        return self.found[key]

    def __contains__(self, key: object) -> bool:
        return key in self.finds

    def __iter__(self) -> Iterator[str]:
        return iter(self.finds)

    def __len__(self) -> int:
        return len(self.finds)


def each_of(asked: T, entries: Mapping[str, Callable[[T], Any]]) -> OneByOne:
    """What each of the entries says of what is asked about."""
    return OneByOne({name: partial(find, asked) for name, find in entries.items()})


class InTurn(Mapping[str, Any]):
    """The entries of several mappings: a key is looked up in one after the other, and those behind stay closed.

    >>> InTurn({"peak": 1}, Later({}, lambda: 1 / 0))["peak"]
    1
    """

    def __init__(self, *mappings: Mapping[str, Any]) -> None:
        self.mappings = mappings

    def __getitem__(self, key: str) -> Any:
        for one in self.mappings:
            if key in one:
                return one[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for one in self.mappings for key in one))

    def __len__(self) -> int:
        return len(list(iter(self)))
