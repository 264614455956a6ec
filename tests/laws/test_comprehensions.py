"""No comprehension of tfcalc binds a name that its function has from without.

Whoever reads it takes one for the other, and so does CPython 3.12.1: it inlines a list's comprehension into its
function, and another comprehension of that function then finds a local that has no value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tfcalc

HERE = Path(tfcalc.__file__).parent
INLINED = (ast.ListComp, ast.SetComp, ast.DictComp)


def stored(node: ast.AST) -> list[ast.Name]:
    return [name for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]


def bound(node: ast.AST) -> set[str]:
    """The names that a comprehension, or an expression that generates, binds for itself."""
    return {name.id for clause in getattr(node, "generators", ()) for name in stored(clause.target)}


def shadowed(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """The lines on which a comprehension binds what the function elsewhere reads, and nowhere else binds."""
    nodes = list(ast.walk(function))
    if not any(isinstance(node, INLINED) for node in nodes):
        return
    names = [node for node in nodes if isinstance(node, ast.Name)]
    binding = [node for node in nodes if hasattr(node, "generators")]
    arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}
    for comprehension in (node for node in binding if isinstance(node, INLINED)):
        for name in bound(comprehension) - arguments:
            own = {id(inside) for node in binding if name in bound(node) for inside in ast.walk(node)}
            elsewhere = [found for found in names if found.id == name and id(found) not in own]
            if elsewhere and all(isinstance(found.ctx, ast.Load) for found in elsewhere):
                yield comprehension.lineno, name


def shadowed_in(source: str) -> list[tuple[int, str]]:
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return sorted({found for function in functions for found in shadowed(function)})


def test_no_comprehension_binds_a_name_that_its_function_reads_outside() -> None:
    found = {file: shadowed_in(file.read_text(encoding="utf-8")) for file in sorted(HERE.rglob("*.py"))}
    assert not {str(file.relative_to(HERE)): lines for file, lines in found.items() if lines}


def test_the_law_sees_one() -> None:
    assert shadowed_in("def f(xs):\n    ys = [g.a for g in xs]\n    return [g(y) for y in ys]\n") == [(2, "g")]
    assert not shadowed_in("def f(xs):\n    ys = [x.a for x in xs]\n    return [g(y) for y in ys]\n")
