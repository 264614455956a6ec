"""No sentence, option or word of tests/words.py stands in any text that a user can read."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import tfcalc
from tests.conftest import Program
from tests.laws.house import nodes
from tests.words import OPTIONS, SENTENCES, WORDS
from tfcalc.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tfcalc"
DOCUMENTS = [ROOT / name for name in ("README.md", "formulas.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
REFUSED = [
    (re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), instead)
    for pattern, instead in (SENTENCES | OPTIONS | WORDS).items()
]
OTHER_NAMES = SOURCE / "cli" / "other_names.py"
"""What people type, with the option that tfcalc has for it; only the latter is ever proposed."""
RETURNED = (
    "report.report.Report",
    "report.explanation.Explanation",
    "answers.verdict.Fit",
    "analysis.closed_form.Formula",
    "analysis.check.FormulaCheck",
)
"""What the public functions return, without being exported."""


def found(text: str) -> list[str]:
    return [
        f"{hit.group()!r} in {text[max(0, hit.start() - 30) : hit.end() + 30]!r}; write: {instead}"
        for pattern, instead in REFUSED
        for hit in pattern.finditer(text)
    ]


def test_what_is_refused_is_found() -> None:
    """The first of each kind, broken over lines, in capitals."""
    assert found("ONE OF 6, WHICH THE\n  MODEL has of it")
    assert found("use --recipe bf16")
    assert found("bytes alive")
    assert not found("l stands for the length; a threshold; saved tensors")


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_documents(page: Path) -> None:
    assert not found(re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL))


@pytest.mark.parametrize("golden", sorted((ROOT / "tests" / "golden").glob("*.txt")), ids=lambda golden: golden.stem)
def test_goldens(golden: Path) -> None:
    assert not found(golden.read_text())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command: str, tfcalc: Program) -> None:
    assert not found(tfcalc(f"{command} --help all").stdout)


def string_literals(file: Sequence[ast.AST]) -> Iterator[str]:
    """Every string but docstrings, those behind an assignment among them; of an f-string, the text around its values.

    >>> file = ast.parse('''def f(x):\\n    "Private."\\n    return f"a {x} of " + "b"''')
    >>> list(string_literals([*ast.walk(file)]))
    ['a  of ', 'b']
    """
    docstrings: set[ast.AST] = {node.value for node in file if isinstance(node, ast.Expr)}
    formatted = {part for node in file if isinstance(node, ast.JoinedStr) for part in node.values}
    apart = docstrings | formatted
    for node in file:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in apart:
            yield node.value


@pytest.mark.parametrize(
    "file", sorted({*SOURCE.rglob("*.py")} - {OTHER_NAMES}), ids=lambda file: str(file.relative_to(SOURCE))
)
def test_string_literals(file: Path) -> None:
    assert not found("\0".join(string_literals(nodes(file))))  # which no pattern matches


def public() -> Iterator[tuple[str, object]]:
    """What ``tfcalc`` exports, and what its functions return, with their methods and properties."""
    from importlib import import_module

    homes = [path.rpartition(".") for path in RETURNED]
    returned = [getattr(import_module(f"tfcalc.{module}"), name) for module, _, name in homes]
    for thing in [*(getattr(tfcalc, name) for name in tfcalc.__all__), *returned]:
        yield thing.__qualname__, thing
        if inspect.isclass(thing):
            for name, member in inspect.getmembers(thing):
                home = getattr(member, "__module__", getattr(getattr(member, "fget", None), "__module__", "")) or ""
                if not name.startswith("_") and home.startswith("tfcalc") and not inspect.isclass(member):
                    yield f"{thing.__qualname__}.{name}", member


PUBLIC = dict(public())


@pytest.mark.parametrize("name", ["tfcalc", *PUBLIC])
def test_docstrings_of_what_is_public(name: str) -> None:
    text = inspect.getdoc(tfcalc if name == "tfcalc" else PUBLIC[name])
    assert text, f"{name} has no docstring"
    assert not found(text)


NO_BEGINNING = re.compile(
    r"(What|Whether|Which|How|That|Those|These|This|It|Itself|Who|Whose|Where|When|If|As|The same|The other|Nothing"
    r"|None|Likewise|In|Of|For|By|With|On|At|To|From|And|But|Also|All|Each|Every|Both|One after|So|Not|No)\b"
)
"""A docstring begins with a noun or a verb: with what something is, or does."""


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: f"{path.relative_to(SOURCE)}")
def test_docstrings(path: Path) -> None:
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            assert not NO_BEGINNING.match(text), text
            assert not found(text), text


FUNCTIONS = [thing for name, thing in PUBLIC.items() if inspect.isfunction(thing) and "." not in name]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_public_function_says_what_it_takes_and_returns(function: Callable[..., object]) -> None:
    text = inspect.getdoc(function) or ""
    assert [part for part in ("Args:", "Returns:", "Raises:") if part not in text] == []
    arguments = list(inspect.signature(function).parameters)
    assert [argument for argument in arguments if not re.search(rf"^ +\**{argument}:", text, re.MULTILINE)] == []
    assert "run" not in arguments
