"""What the house is measured by: class names, circles, imports, places of keys, modules that a command loads.

``python -m tests.laws.house`` prints the figures, and writes the table of rooms anew with ``--write``.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tfcalc"
TABLE = Path(__file__).with_name("rooms.toml")
FILES = sorted(SOURCE.rglob("*.py"))
DESCRIPTION = ("zoo", "nn", "tape", "ops", "backends", "models", "verify", "core", "configs")
"""Rooms that describe models: keys of answers are no business of theirs."""


@cache
def tree(path: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax."""
    return tuple(ast.walk(tree(path)))


def module(path: Path) -> str:
    """The name of a file's module."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("tfcalc", *(part for part in parts if part != "__init__")))


def room(path: Path) -> str:
    """The room that a file belongs to: a package, or the single files at the top."""
    first, *further = path.relative_to(SOURCE).parts
    return first if further else "(single files)"


MODULES = {module(path): path for path in FILES}


@cache
def rooms() -> dict[str, dict[str, int]]:
    """Files and lines of each room."""
    found: dict[str, dict[str, int]] = {}
    for path in FILES:
        counts = found.setdefault(room(path), {"files": 0, "lines": 0})
        counts["files"] += 1
        counts["lines"] += len(path.read_text(encoding="utf-8").splitlines())
    return dict(sorted(found.items()))


def recorded() -> Mapping[str, Any]:
    """The table of rooms, and the limits."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def classes_twice() -> dict[str, list[str]]:
    """Public class names of several files, but for those of architectures."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        if room(path) != "zoo":
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(SOURCE)))
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


def imported(node: ast.AST) -> Iterator[str]:
    """The modules of ours that a statement imports."""
    if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tfcalc"):
        for name in node.names:
            inner = f"{node.module}.{name.name}"
            yield inner if inner in MODULES else node.module
    elif isinstance(node, ast.Import):
        yield from (name.name for name in node.names if name.name.startswith("tfcalc"))


def imports_inside_functions() -> list[str]:
    """Files with a number for each statement in a function that imports something of ours."""
    found = []
    for path in FILES:
        for function in nodes(path):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                found += [
                    f"{path.relative_to(SOURCE)}:{ast.unparse(node)}"
                    for node in ast.walk(function)
                    if any(imported(node))
                ]
    return found


def circles() -> list[list[str]]:
    """Files that import each other in a circle, at the head, inside a function or for types alone."""
    edges = {name: set[str]() for name in MODULES}
    for path in FILES:
        for node in nodes(path):
            edges[module(path)] |= {name for name in imported(node) if name in MODULES and name != module(path)}
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            component: list[str] = []
            while not component or component[-1] != name:
                component.append(stack.pop())
            own = sorted(each for each in component if MODULES[each].name != "__init__.py")
            if len(own) > 1:
                found.append(own)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for name in MODULES:
            if name not in index:
                visit(name)
    finally:
        sys.setrecursionlimit(limit)
    return sorted(found)


def own_dicts() -> list[str]:
    """Classes that make their JSON by themselves."""
    return [
        f"{path.relative_to(SOURCE)}:{node.name}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(own, ast.FunctionDef) and own.name == "to_dict" for own in node.body)
    ]


def forks() -> dict[str, int]:
    """How often each file of nn/ and zoo/ asks whether kernels run."""
    found: dict[str, int] = {}
    for path in FILES:
        if room(path) in ("nn", "zoo"):
            count = len(re.findall(r"\.emits_kernels\b", path.read_text(encoding="utf-8")))
            found |= {str(path.relative_to(SOURCE)): count} if count else {}
    return found


def numeric_keys() -> set[str]:
    """Keys of numbers in the schemas of the answers that most people ask for."""
    from tfcalc.schemas import schema

    found: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                if isinstance(inner, dict):
                    types = inner.get("type", ())
                    if {"integer", "number"} & ({types} if isinstance(types, str) else set(types)):
                        found.add(name)
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    for name in ("params", "flops", "memory", "train", "plan", "compare", "diff", "overview"):
        walk(schema(name))
    return {name for name in found if "_" in name}


def inputs() -> set[str]:
    """What workloads, plans, searches and the classic Transformer are given: answers repeat it, and compute none."""
    from tfcalc import Serving, Training, Transformer, Workload
    from tfcalc.search.axes import Axes

    kinds = (Workload, Training, Serving, Transformer)
    return {field.name for kind in kinds for field in dataclasses.fields(kind)} | {*Axes._fields}


class Places(NamedTuple):
    """Files that name a number of an answer.

    ``homes`` declare one of that name in the body of a class, each for its own answer; ``spelled`` have it as a word of
    a string, and declare none; ``read`` only read an attribute of what is declared, which a rename would not survive
    unseen, as mypy reads it, too.
    """

    homes: frozenset[Path]
    spelled: frozenset[Path]
    read: frozenset[Path]

    @property
    def of_one(self) -> int:
        """Files that one such number stands in: its home, and those that repeat its name."""
        return bool(self.homes) + len(self.spelled)

    @property
    def all(self) -> int:
        """Files in which the name stands, whatever for."""
        return len(self.homes | self.spelled | self.read)


def places_of_keys() -> dict[str, Places]:
    """Where outside of the description the code names each number of an answer; examples do not count."""
    homes, spelled, read = ({key: set[Path]() for key in sorted(numeric_keys() - inputs())} for _ in range(3))
    for path in FILES:
        if path.relative_to(SOURCE).parts[0] not in DESCRIPTION:
            kinds = (declared(tree(path)), words(tree(path)), attributes(tree(path)))
            for found, named in zip((homes, spelled, read), kinds, strict=True):
                for word in named & found.keys():
                    found[word].add(path)
    return {
        key: Places(frozenset(homes[key]), frozenset(spelled[key] - homes[key]), frozenset(read[key])) for key in homes
    }


def figures_of_places() -> dict[str, float]:
    """What the limits on places are about."""
    places = places_of_keys().values()
    return {
        "files of a number, on average": round(sum(each.of_one for each in places) / len(places), 2),
        "files of a number, at most": max(each.of_one for each in places),
        "answers with a number of one name, at most": max(len(each.homes) for each in places),
        "files in which a name stands, on average": round(sum(each.all for each in places) / len(places), 2),
        "files in which a name stands, at most": max(each.all for each in places),
    }


def declared(file: ast.Module) -> set[str]:
    """The names that the classes of a file have: fields, keys."""
    found: set[str] = set()
    for node in ast.walk(file):
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            match inner:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
                case _:
                    pass
    return found


def words(file: ast.Module) -> set[str]:
    """The last words of strings, but for docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(file)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return {
        str(node.value).rpartition(".")[2]
        for node in ast.walk(file)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    }


def strangers(*, reading: bool) -> Iterator[str]:
    """Yield a line for each file that names numbers of others, by a string, or if ``reading`` by an attribute."""
    found: dict[str, list[str]] = {}
    for key, places in places_of_keys().items():
        for path in (places.read - places.homes) if reading else places.spelled:
            found.setdefault(path.relative_to(SOURCE).as_posix(), []).append(key)
    for file, names in sorted(found.items()):
        yield f"{file}: {', '.join(names)}"


def attributes(file: ast.Module) -> set[str]:
    """The names of attributes, arguments and targets."""
    found: set[str] = set()
    for node in ast.walk(file):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return found


def entered(*words: str) -> list[str]:
    """The modules of ours that a command loads."""
    code = (
        "import contextlib, io, sys\n"
        "from tfcalc.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    main(sys.argv[1:])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('tfcalc')))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


def write() -> None:
    """Record the rooms as they are; the limits stay."""
    lines = TABLE.read_text(encoding="utf-8").split("[rooms]\n")[0] + "[rooms]\n"
    for name, counts in rooms().items():
        lines += f'"{name}" = {{ files = {counts["files"]}, lines = {counts["lines"]} }}\n'
    TABLE.write_text(lines, encoding="utf-8")


def main() -> None:
    """Print the figures."""
    if "--write" in sys.argv:
        write()
    for what, value in {
        "files": len(FILES),
        "class names twice": len(classes_twice()),
        "circles": len(circles()),
        "imports inside functions": len(imports_inside_functions()),
        "classes with a to_dict of their own": len(own_dicts()),
        "forks by trace": sum(forks().values()),
        **figures_of_places(),
        "modules of memory --train --gpu": len(entered("memory", "llama-3-8b", "--train", "--gpu", "rtx-4090")),
        "modules of params --json": len(entered("params", "--json")),
    }.items():
        print(f"{what:40} {value}")


if __name__ == "__main__":
    main()
