"""The generated parts of README.md, formulas.md and docs/: ``python -m tools.docs [--write] FILE…``.

Prose is written by hand; what tfcalc says is not. These blocks are generated:

* a fenced block that opens with ```` ```console ````: each line ``$ tfcalc …`` is run, and its output follows it;
* ``<!-- formulas QUANTITY TARGET… -->`` to ``<!-- end -->``: a table of closed forms;
* ``<!-- symbols -->`` to ``<!-- end -->``: the glossary;
* ``<!-- elementwise -->`` to ``<!-- end -->``: operations per element (:mod:`tools.docs_operations`);
* ``<!-- memory TABLE -->`` to ``<!-- end -->``: recipes, optimizers, formats (:mod:`tools.docs_memory`);
* ``<!-- reference TABLE -->`` to ``<!-- end -->``: what can be named and asked (:mod:`tools.docs_reference`);
* ``<!-- budgets TABLE -->`` to ``<!-- end -->``: the keys of the file of budgets (:mod:`tools.docs_budgets`);
* ``<!-- accuracy TABLE -->`` to ``<!-- end -->``: what was held against PyTorch (:mod:`tools.docs_accuracy`);
* ``<!-- runs TABLE … -->`` to ``<!-- end -->``: what was measured on GPUs (:mod:`tools.docs_real_runs`);
* ``<!-- ledger TABLE … -->`` to ``<!-- end -->``: errors of tfcalc and its peers (:mod:`tools.docs_ledger`);
* ``<!-- answers TABLE -->`` to ``<!-- end -->``: questions, commands, and the first line of each answer;
* ``<!-- course TABLE … -->`` to ``<!-- end -->``: derivations, shares, crossovers (:mod:`tools.docs_course`);
* ``<!-- rooms picture -->`` and ``<!-- rooms core -->`` to ``<!-- end -->``: the house (:mod:`tools.docs_rooms`);
* ``<!-- patterns -->`` and ``<!-- positions -->`` to ``<!-- end -->``: the pairs of each, and what each adds.
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
from pathlib import Path
from typing import Any

from tfcalc.answers.formula import formula
from tfcalc.cli.main import main as program
from tfcalc.core.component import Component
from tfcalc.core.measure import buffer_elements, matmul_flops, params
from tfcalc.core.notation import NOTATIONS, write
from tfcalc.core.patterns import KINDS, Pattern
from tfcalc.core.polynomial import symbol
from tfcalc.model import with_symbols
from tfcalc.report import polynomial
from tfcalc.workload import Workload
from tfcalc.zoo.transformer import FOR_DISTANCES, POSITIONS, TABLES, Transformer
from tools.docs_accuracy import TABLES as TABLES_OF_ACCURACY
from tools.docs_answers import answers
from tools.docs_budgets import TABLES_OF_BUDGETS
from tools.docs_course import TABLES as TABLES_OF_COURSE
from tools.docs_ledger import TABLES as TABLES_OF_LEDGER
from tools.docs_memory import TABLES as TABLES_OF_MEMORY
from tools.docs_operations import table as operations
from tools.docs_real_runs import TABLES as TABLES_OF_RUNS
from tools.docs_reference import TABLES as TABLES_OF_REFERENCE
from tools.docs_rooms import TABLES as TABLES_OF_ROOMS

CONSOLE = re.compile(r"(?P<width><!-- width (\d+) -->\n)?```console\n(.*?)```", re.DOTALL)
"""A transcript, and how wide it is where a comment says so: what shows Markdown in a terminal needs a margin."""
GENERATED_KINDS = (
    "formulas|symbols|elementwise|patterns|positions|conventions|source|memory|reference|accuracy|runs|course|answers"
    "|budgets|rooms|ledger"
)
GENERATED = re.compile(rf"(<!-- ({GENERATED_KINDS})([^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
WIDTH, UNFOLDED = "80", "1000"


def refreshed(text: str) -> str:
    """The text with every generated block made anew."""
    text = CONSOLE.sub(
        lambda match: f"{match['width'] or ''}```console\n{_console(match[3], match[2] or WIDTH)}```", text
    )
    return GENERATED.sub(lambda match: match[1] + "\n".join(_table(match[2], match[3].split())) + "\n" + match[5], text)


def _console(block: str, width: str) -> str:
    """Each ``$ tfcalc`` line, followed by what it prints."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"{line}\n{_output(line.removeprefix('$ '), width)}" for line in commands)


def _output(line: str, width: str = WIDTH) -> str:
    name, *arguments = shlex.split(line)
    if name != "tfcalc":
        raise ValueError(f"only tfcalc is run, not {line!r}")
    out, err = io.StringIO(), io.StringIO()
    before = dict(os.environ)
    os.environ["COLUMNS"] = width
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
        case "patterns":
            yield from _patterns()
        case "positions":
            yield from _positions()
        case "conventions":
            yield from _conventions()
        case "source":
            yield from _source(*arguments)
        case "memory":
            yield from TABLES_OF_MEMORY[arguments[0]]()
        case "reference":
            yield from TABLES_OF_REFERENCE[arguments[0]](*arguments[1:])
        case "budgets":
            yield from TABLES_OF_BUDGETS[arguments[0]]()
        case "accuracy":
            yield from TABLES_OF_ACCURACY[arguments[0]]()
        case "runs":
            yield from TABLES_OF_RUNS[arguments[0]](*arguments[1:])
        case "ledger":
            yield from TABLES_OF_LEDGER[arguments[0]](*arguments[1:])
        case "rooms":
            yield from TABLES_OF_ROOMS[arguments[0]]()
        case "answers":
            yield from answers(lambda command: _output(command, UNFOLDED).splitlines()[0], *arguments)
        case "course":
            yield from TABLES_OF_COURSE[arguments[0]](*arguments[1:])
        case _:
            yield from operations()


def _source(module: str, name: str) -> Iterator[str]:
    """A function as it stands in the code, with what decorates it; or a value, with its docstring."""
    whole = import_module(f"tfcalc.{module}")
    yield "```python"
    if inspect.isroutine(found := getattr(whole, name)) or inspect.isclass(found):
        yield inspect.getsource(found).rstrip()
    else:
        yield re.search(rf"^{name} = .*?\"\"\"\n", inspect.getsource(whole), re.M | re.S)[0].rstrip()  # type: ignore[index]  # it is there
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
    assumed = Transformer(vocab_size=1).assumed | Transformer(positions="t5").assumed
    for one in (Workload(), Transformer()):
        for name, known in one.dimensions().items():
            other = write(symbol(known.symbol), letters=NOTATIONS["bsld"])
            default = known.follows or getattr(one, name) or assumed.get(name, "there is none")
            yield f"| {known.symbol} | `{name}` | {other} | {known.meaning} | {default} |"


def _patterns() -> Iterator[str]:
    yield "| pattern | a query sees | pairs of a sequence, both ways | growth of attention's time |"
    yield "| --- | --- | --- | --- |"
    for kind in KINDS:
        pattern = Pattern(kind, symbol("k"))
        grown = formula("attention", "time", Transformer(kind="encoder", pattern=f"{kind}:4"))
        yield f"| `{kind}:k` | {pattern.sees} | {write(pattern.pairs(symbol('l')))} | {grown} |"


def _positions() -> Iterator[str]:
    yield "| positions | parameters | FLOPs of matrix products | buffers |"
    yield "| --- | --- | --- | --- |"
    run = with_symbols(Workload())

    def whole(kind: str) -> Component:
        return with_symbols(_with_positions(kind, kind="encoder")).tree(run)

    for kind in POSITIONS:
        added = (
            polynomial(whole(kind).total(measure) - whole("none").total(measure))
            for measure in (params, matmul_flops, buffer_elements)
        )
        yield f"| `{kind}` | {' | '.join(write(each) for each in added)} |"


def _with_positions(positions: str, **more: Any) -> Transformer:
    return Transformer(
        vocab_size=1,
        positions=positions,
        max_len=512 if positions in TABLES else None,
        max_distance=16 if positions in FOR_DISTANCES else None,
        **more,
    )


def _conventions() -> Iterator[str]:
    """The formulas of papers (``<!-- conventions -->``)."""
    from tfcalc.analysis.papers import RULES
    from tfcalc.analysis.shape import SYMBOLS

    yield "| convention | forward pass | training step | reference |"
    yield "| --- | --- | --- | --- |"
    for rule in RULES:
        names = " and ".join(dict.fromkeys(rule.called(training) for training in (False, True)))
        forward, training = (write(rule.flops(SYMBOLS, training, "none")) for training in (False, True))
        yield f"| {names} | {forward} | {training} | {rule.reference} |"


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
