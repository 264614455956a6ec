"""A class that extends another overrides what is public: names that begin with ``_`` belong to one class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.laws.house import nodes

SOURCE = Path(__file__).parents[2] / "src" / "tfcalc"
ROOMS = ("nn", "zoo", "backends", "placed")


def classes() -> Iterator[tuple[str, list[str], set[str]]]:
    """Each class of these rooms, its bases, and its private methods."""
    for path in (path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py"))):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                methods = {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
                private = {name for name in methods if name.startswith("_") and not name.startswith("__")}
                yield node.name, [ast.unparse(base).rpartition(".")[2] for base in node.bases], private


def test_no_class_overrides_a_private_method_of_another() -> None:
    known = {name: (bases, private) for name, bases, private in classes()}

    def inherited(name: str) -> set[str]:
        bases, private = known.get(name, ([], set()))
        return private.union(*map(inherited, bases))

    for name, (bases, private) in known.items():
        both = private & set().union(*map(inherited, bases))
        assert not both, f"{name} overrides {', '.join(sorted(both))}: what is overridden has a public name"
