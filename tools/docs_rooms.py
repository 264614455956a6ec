"""The generated parts of docs/architecture.md: the picture of the rooms, and the files that are the core."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tfcalc"
FACE = ("cli", "testing", "render", "exercises")
"""Rooms that people see first; they import nearly all others, which a picture need not show."""
CORE = (
    ("params", "llama-3-8b", "--json"),
    ("flops", "llama-3-8b", "--json"),
    ("memory", "llama-3-8b", "--train", "--json"),
)
"""The commands whose files are the core: who has read these knows tfcalc."""


def room(path: Path) -> str:
    """The package of a file, or its own name where it is in none."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def edges() -> dict[str, set[str]]:
    """Which packages each package imports at the heads of its files."""
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists() or path.name == "models"}
    found: dict[str, set[str]] = {name: set() for name in sorted(packages - {"models"})}
    for path in SOURCE.rglob("*.py"):
        if room(path) not in found:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfcalc."):
                other = str(node.module).split(".")[1]
                if other in found and other != room(path):
                    found[room(path)].add(other)
    return found


def direct(graph: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """The edges that no longer way says already.

    A way through a package that imports the first one, too, says nothing: each of the two would leave its edges to
    the other.
    """

    def reached(start: str, seen: set[str]) -> set[str]:
        for other in graph[start]:
            if other not in seen:
                seen.add(other)
                reached(other, seen)
        return seen

    for name, others in graph.items():
        for other in sorted(others):
            further = [reached(one, set()) for one in others if one != other]
            if not any(other in one and name not in one for one in further):
                yield name, other


def picture() -> Iterator[str]:
    """The rooms as a flow chart in Mermaid: an arrow for each import that no longer way implies."""
    graph = {name: others - set(FACE) for name, others in edges().items() if name not in FACE}
    yield "```mermaid"
    yield "flowchart TD"
    for name, other in direct(graph):
        yield f"    {name} --> {other}"
    yield "```"


def entered(words: Iterable[str]) -> set[str]:
    """The files that a command loads."""
    code = (
        "import contextlib, io, sys\n"
        "from tfcalc.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    main(sys.argv[1:])\n"
        "print(*(m.__file__ for name, m in sys.modules.items() if name.startswith('tfcalc')), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return {str(Path(line).relative_to(SOURCE)) for line in done.stdout.splitlines() if line.startswith(str(SOURCE))}


def core() -> Iterator[str]:
    """The files of the core by package, without those that only carry words in and out."""
    files = sorted(set[str]().union(*map(entered, CORE)))
    files = [name for name in files if not name.startswith(("cli/", "render/")) and not name.endswith("__init__.py")]
    yield f"{len(files)} files:"
    yield ""
    by_room: dict[str, list[str]] = {}
    for name in files:
        head, _, tail = name.rpartition("/")
        by_room.setdefault(f"{head}/" if head else "at the top", []).append(tail.removesuffix(".py"))
    for place, names in by_room.items():
        yield f"* `{place}`: {', '.join(names)}" if place.endswith("/") else f"* {place}: {', '.join(names)}"


TABLES: dict[str, Callable[[], Iterator[str]]] = {"picture": picture, "core": core}
