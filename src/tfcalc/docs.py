"""The generated parts of README.md and formulas.md: ``python -m tfcalc.docs [--write] FILE…``.

Prose is written by hand; what tfcalc says is not. Three kinds of blocks are generated:

* a fenced block that opens with ```` ```console ````: each line ``$ tfcalc …`` is run, and its output follows it;
* ``<!-- formulas QUANTITY TARGET… -->`` to ``<!-- end -->``: a table of closed forms;
* ``<!-- symbols -->`` and ``<!-- elementwise -->`` to ``<!-- end -->``: the glossary, and the operations per element.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import zip_longest
from pathlib import Path

from tfcalc.cli.main import main as program
from tfcalc.core.component import Node
from tfcalc.core.cost import Elementwise
from tfcalc.core.notation import NOTATIONS, write
from tfcalc.core.polynomial import symbol
from tfcalc.families.transformer import POSITIONS, Transformer
from tfcalc.leaves import ACTIVATIONS, NORMS
from tfcalc.questions.formula import formula
from tfcalc.workload import Workload

CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
GENERATED = re.compile(r"(<!-- (formulas|symbols|elementwise|source)([^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
WIDTH = "80"


def refreshed(text: str) -> str:
    """The text with every generated block made anew."""
    text = CONSOLE.sub(lambda match: f"```console\n{_console(match[1])}```", text)
    return GENERATED.sub(lambda match: match[1] + "\n".join(_table(match[2], match[3].split())) + "\n" + match[5], text)


def _console(block: str) -> str:
    """Each ``$ tfcalc`` line, followed by what it prints."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"{line}\n{_output(line.removeprefix('$ '))}" for line in commands)


def _output(line: str) -> str:
    name, *arguments = shlex.split(line)
    if name != "tfcalc":
        raise ValueError(f"only tfcalc is run, not {line!r}")
    out, err = io.StringIO(), io.StringIO()
    before = dict(os.environ)
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            program(arguments)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return out.getvalue() + err.getvalue()


def _table(what: str, arguments: list[str]) -> Iterator[str]:
    match what:
        case "formulas":
            yield from _formulas(*arguments)
        case "symbols":
            yield from _symbols()
        case "source":
            yield from _source(*arguments)
        case _:
            yield from _elementwise()


def _source(module: str, function: str) -> Iterator[str]:
    """A function as it stands in the code, with what decorates it."""
    yield "```python"
    yield inspect.getsource(getattr(import_module(f"tfcalc.{module}"), function)).rstrip()
    yield "```"


def _formulas(of: str, *targets: str) -> Iterator[str]:
    yield "| part | closed form | where in the tree |"
    yield "| --- | --- | --- |"
    for target in targets:
        found = formula(target, of)
        yield f"| `{target}` | {found} | `{found.path}` |"


def _symbols() -> Iterator[str]:
    yield "| symbol | field, and `--notation names` | `--notation bsld` | meaning | if it is not given |"
    yield "| --- | --- | --- | --- | --- |"
    assumed = Transformer(vocab_size=1).assumed
    for one in (Workload(), Transformer()):
        for name, known in one.dimensions().items():
            other = write(symbol(known.symbol), letters=NOTATIONS["bsld"])
            default = known.follows or getattr(one, name) or assumed.get(name, "there is none")
            yield f"| {known.symbol} | `{name}` | {other} | {known.meaning} | {default} |"


def _elementwise() -> Iterator[str]:
    yield "| operation | forward | backward | on each element of |"
    yield "| --- | ---: | ---: | --- |"
    rows = {_row(work, node.component.kind) for model in _every_kind() for node, work in _all_work(model)}
    yield from sorted(rows, key=lambda row: (row.split("|")[4], row))


def _every_kind() -> Iterator[Transformer]:
    """Models that have between them every operation there is."""
    for norm, activation, positions in zip_longest(NORMS, ACTIVATIONS, POSITIONS, fillvalue=None):
        yield Transformer(
            kind="decoder",
            vocab_size=1,
            positions=positions or "learned",
            max_len=None if positions == "none" else 512,
            norm=norm or "rmsnorm",
            activation=activation or "relu",
        )


def _all_work(model: Transformer) -> Iterator[tuple[Node, Elementwise]]:
    for node in model.tree(Workload(phase="train")).walk():
        for work in node.component.own.elementwise:
            yield node, work


def _row(work: Elementwise, kind: str) -> str:
    name = re.sub(r"b_\w+", "b", work.name)
    return f"| {name} | {work.forward} | {work.backward} | {ELEMENTS[kind]} |"


ELEMENTS = {
    "activation": "the inner layer",
    "attend": "the scores, of all heads",
    "dropout": "what it is applied to, in training only",
    "embedding": "the embedded tokens",
    "linear": "the output",
    "norm": "the normalised vectors",
    "position": "the embedded tokens",
    "residual": "the stream",
}


def main(arguments: list[str]) -> int:
    """0 where all files are fresh, or were written; 1 where one is stale."""
    stale = 0
    for name in (argument for argument in arguments if argument != "--write"):
        path = Path(name)
        text = path.read_text(encoding="utf-8")
        fresh = refreshed(text)
        if fresh != text:
            stale = 1
            if "--write" in arguments:
                path.write_text(fresh, encoding="utf-8")
            else:
                print(f"{name} is stale: run make docs", file=sys.stderr)
    return 0 if "--write" in arguments else stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
