"""Points that others published (tests/oracle/points3), asked as their commands say: ``python -m tests.points3``.

A row's ``command`` is what comes after ``tfcalc``, and ``json_path`` an expression over the keys of its JSON, in which
``comp("path")`` is the component of that path. The commands were written for 0.2.0, in which ``--gpus`` was the number
of GPUs that share the model states: here it is all GPUs, times those of ``--tp`` and ``--pp``.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import io
import json
import operator
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tfcalc.cli.main import main as program

FOLDER = Path(__file__).parent / "oracle" / "points3"
UNITS = {
    **{"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    **{"Bn": 10**9, "GFLOPs": 10**9},
}
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def points() -> list[dict[str, Any]]:
    """All rows."""
    return [json.loads(line) for line in (FOLDER / "points.public.jsonl").read_text(encoding="utf-8").splitlines()]


@cache
def folder() -> Path:
    """A folder with the configs that commands name, as ``truth-configs/…``."""
    made = Path(tempfile.mkdtemp(prefix="points3-"))
    atexit.register(shutil.rmtree, made)
    for name, config in json.loads((FOLDER / "configs.json").read_text(encoding="utf-8")).items():
        path = made / "truth-configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config), encoding="utf-8")
    return made


def command(row: Mapping[str, Any]) -> list[str]:
    """The words of a row, with ``--gpus`` as the number of all GPUs."""
    words = list(row["command"])

    def size(flag: str) -> int:
        return int(words[words.index(flag) + 1]) if flag in words else 1

    if "--gpus" in words:
        words[words.index("--gpus") + 1] = str(size("--gpus") * size("--tp") * size("--pp"))
    return words


def answer(row: Mapping[str, Any]) -> float | None:
    """What tfcalc says, in the row's unit; None where it refuses, or the row asks nothing."""
    if not row["json_path"]:
        return None
    out, before = io.StringIO(), Path.cwd()
    os.chdir(folder())
    try:
        silent = contextlib.redirect_stderr(io.StringIO())
        with contextlib.redirect_stdout(out), silent, contextlib.suppress(SystemExit):
            program([*command(row), "--json"])
    finally:
        os.chdir(before)
    if not out.getvalue():
        return None
    found = _value(ast.parse(row["json_path"], mode="eval").body, json.loads(out.getvalue()))
    return float(found) / UNITS.get(row["unit"], 1)


def _value(node: ast.expr, said: Mapping[str, Any]) -> Any:
    """An expression's value: keys of the answer, numbers, sums and products, parts, and ``x if y else z``."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name("found"):
            return bool(said.get("reasons"))
        case ast.Name(name):
            return said[name]
        case ast.BinOp():
            return OPERATORS[type(node.op)](_value(node.left, said), _value(node.right, said))
        case ast.IfExp():
            return _value(node.body if _value(node.test, said) else node.orelse, said)
        case ast.Subscript():
            return _value(node.value, said)[_value(node.slice, said)]
        case ast.Attribute():
            return _value(node.value, said)[node.attr]
        case ast.Call(ast.Name("comp"), [ast.Constant(path)]):
            return next(part for part in _parts(said["components"]) if path in (part["path"], part["name"]))
    raise ValueError(ast.unparse(node))


def _parts(components: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for part in components:
        yield part
        yield from _parts(part["parts"])


def main() -> None:
    """Print each row that is off by more than its tolerance."""
    for row in points():
        found = answer(row)
        if found is None:
            print(f"{row['id']}: not asked or refused ({row['verdict']})")
            continue
        error = found / row["expected"] - 1
        mark = "" if abs(error) <= row["tolerance"] else "  <-- off"
        if mark or row["verdict"] != "agree":
            expected = f"{row['expected']:.6g} {row['unit']} ({error:+.1%})"
            print(f"{row['id']}: {found:.6g} for {expected}, {row['verdict']}{mark}")


if __name__ == "__main__":
    main()
