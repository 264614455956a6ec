"""The laws of the house, so that it does not grow back: places and concepts, counted.

``python -m tests.laws.house`` prints the figures; the table of rooms and the limits are in ``rooms.toml``.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.laws.house import (
    FILES,
    SOURCE,
    circles,
    classes_twice,
    entered,
    figures_of_places,
    forks,
    imported,
    imports_inside_functions,
    module,
    nodes,
    own_dicts,
    recorded,
    room,
    rooms,
    strangers,
)

LIMITS = recorded()["limits"]
SLACK = 0.15
"""A room that has shrunk by this part, and by more than a few lines, gets a lower number."""
FEW = 150
"""Lines that may go without a new number."""
KIN = 3
"""Files of the zoo that a file of ``nn/`` serves, at least."""


@pytest.mark.parametrize("name", sorted({*rooms(), *recorded()["rooms"]}))
def test_a_room_has_the_size_that_is_recorded(name: str) -> None:
    """Growth is a decision that a reader of the change sees."""
    now, allowed = rooms().get(name), recorded()["rooms"].get(name)
    assert allowed is not None, f"a new room: add {name} = {now} to rooms.toml, and its line to CONTRIBUTING"
    assert now is not None, f"the room is gone: take {name} out of rooms.toml"
    assert now["files"] <= allowed["files"], f"{name}: {now} files and lines; if it needs them, raise rooms.toml"
    assert now["lines"] <= allowed["lines"], f"{name}: {now} files and lines; if it needs them, raise rooms.toml"
    shrunk = allowed["lines"] - now["lines"]
    assert shrunk <= max(FEW, SLACK * allowed["lines"]), f"{name} has {shrunk} lines less: lower rooms.toml"


def test_a_class_name_stands_once() -> None:
    """Outside of the zoo; names of two things are listed with their reason."""
    assert sorted(classes_twice()) == sorted(LIMITS["class names twice"])


def test_files_import_each_other_in_no_circle() -> None:
    """Whether at the head, in a function, or for types alone."""
    assert circles() == []


def test_imports_inside_functions_are_few() -> None:
    """Each is of a heavy or a rare part."""
    assert len(imports_inside_functions()) <= LIMITS["imports inside functions"]


def test_an_answer_makes_its_json_from_its_keys() -> None:
    """``to_dict`` is that of ``report/declared.py``; those that are left are listed."""
    assert sorted(own_dicts()) == sorted(LIMITS["own to_dict"])


def test_forks_by_trace_stand_in_few_files() -> None:
    """In ``nn/`` only where mathematics and kernels part."""
    assert sorted(name for name in forks() if name.startswith("nn/")) == sorted(LIMITS["forks in nn"])
    assert sum(forks().values()) <= LIMITS["forks by trace"]


@pytest.mark.parametrize("what", figures_of_places())
def test_a_number_is_named_in_few_files(what: str) -> None:
    """Each is declared in one; what repeats its name is a string that could be the key."""
    lines = "\n".join(strangers(reading=what.startswith("files in which a name stands")))
    assert figures_of_places()[what] <= LIMITS[what], f"files that name numbers of others:\n{lines}"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("modules of params --json", ("params", "--json")),
        ("modules of memory --train --gpu", ("memory", "llama-3-8b", "--train", "--gpu", "rtx-4090")),
    ],
)
def test_a_command_loads_few_modules(what: str, words: tuple[str, ...]) -> None:
    assert len(entered(*words)) <= LIMITS[what]


def test_what_most_models_are_made_of_fits_on_a_screen() -> None:
    assert len([path for path in FILES if room(path) == "nn"]) <= 20


@pytest.mark.parametrize("path", [path for path in FILES if room(path) == "nn"], ids=lambda path: path.stem)
def test_what_most_models_are_made_of_serves_three_kin(path: Path) -> None:
    """What one or two architectures use stands in their own files, or in ``zoo/blocks``."""
    users = {
        user
        for user in FILES
        if room(user) == "zoo" and module(path) in {name for node in nodes(user) for name in imported(node)}
    }
    assert path.name == "__init__.py" or len(users) >= KIN, sorted(user.name for user in users)


def test_no_file_opens_another() -> None:
    """Where an answer's numbers come from is declared with its keys."""
    assert sorted(path.name for path in SOURCE.rglob("opened_*.py")) == sorted(LIMITS["opened files"])


def test_no_class_overrides_what_another_keeps_private() -> None:
    """A subclass outside of the file overrides public methods alone."""
    homes: dict[str, str] = {}
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, str(path))
    private = {
        (node.name, own.name): str(path)
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        for own in node.body
        if isinstance(own, ast.FunctionDef) and own.name.startswith("_") and not own.name.startswith("__")
    }
    found = sorted(
        f"{path.relative_to(SOURCE)}:{node.name}.{own.name}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name)
        for own in node.body
        if isinstance(own, ast.FunctionDef) and private.get((base.id, own.name), str(path)) != str(path)
    )
    assert len(found) <= LIMITS["private overrides"], found
