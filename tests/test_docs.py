"""README.md, formulas.md and docs/: what tfcalc says in them is what it says, and every printed formula is true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from tests.core.test_patterns import SEES
from tests.formula_reader import evaluate
from tfcalc import Conventions, Transformer, Workload
from tfcalc.analysis.quantities import measure_of
from tfcalc.analysis.targets import find
from tfcalc.cli.commands import COMMANDS
from tfcalc.configs.config import model_types
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import buffer_elements, matmul_flops, params
from tfcalc.errors import InvalidModel
from tfcalc.ops.work import NORMS, NormKind
from tools.docs import main, refreshed
from tools.docs_accuracy import TABLES as TABLES_OF_ACCURACY

TOP = Path(__file__).parents[1]
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((TOP / "docs").glob("*.md")))]
FILES = ["CONTRIBUTING.md", "formulas.md", *PAGES]
TABLE = re.compile(r"<!-- formulas (\w+) .*?-->\n(.*?)<!-- end -->", re.DOTALL)
ROW = re.compile(r"\| `([\w-]+)` \| (.+?) \| `[\w.]+` \|")

SIZES = [
    {"h": 24, "n": 5, "l": 11, "b": 3, "V": 101, "a": 4},
    {"h": 770, "n": 3, "l": 1, "b": 7, "V": 50_257, "a": 7},
    {"h": 2048, "n": 61, "l": 4099, "b": 1, "V": 129_280, "a": 16},
]


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_what_is_generated_is_fresh(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (TOP / name).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)  # away from any settings file
    assert refreshed(text) == text, "run make docs"


def printed() -> list[tuple[str, str, str]]:
    """Quantity, target and formula of every row in formulas.md."""
    text = (TOP / "formulas.md").read_text(encoding="utf-8")
    return [(of, target, form) for of, table in TABLE.findall(text) for target, form in ROW.findall(table)]


def test_there_are_formulas_to_check() -> None:
    assert len(printed()) >= 38


@pytest.mark.parametrize("at", SIZES)
@pytest.mark.parametrize(("of", "target", "form"), [row for row in printed() if row[0] != "time"])
def test_every_printed_formula_gives_what_the_code_counts(of: str, target: str, form: str, at: dict[str, int]) -> None:
    """The text, read by an independent reader, against the tree of ints."""
    model = Transformer(d_model=at["h"], n_heads=at["a"], n_layers=at["n"], vocab_size=at["V"])
    run = Workload(batch_size=at["b"], seq_len=at["l"])
    root = model.tree(run)
    part = find(root.root(), target).component
    assert evaluate(form, {**at, "T": 5000}) == part.each(measure_of(of, run, Conventions(dtype="fp32")))


def rows(block: str) -> list[list[str]]:
    """The cells of a generated table in formulas.md."""
    text = (TOP / "formulas.md").read_text(encoding="utf-8")
    table = text.partition(f"<!-- {block} -->\n")[2].partition("<!-- end -->")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize(("pattern", "form"), [(row[0], row[2]) for row in rows("patterns")])
def test_every_printed_number_of_pairs_is_that_of_the_pairs(pattern: str, form: str) -> None:
    sees = SEES[pattern.removesuffix(":k")]
    for l, k in ((17, 4), (12, 3), (5, 9), (1, 1)):
        assert evaluate(form, {"l": l, "k": k}) == sum(sees(i, j, k) for i in range(l) for j in range(l))


@pytest.mark.parametrize("cells", rows("positions"), ids=lambda cells: str(cells[0]))
def test_every_printed_form_of_positions_is_what_they_add(cells: list[str]) -> None:
    kind, *forms = cells
    at = {"h": 24, "n": 5, "l": 11, "b": 3, "a": 4, "T": 7 * 100, "D": 9, "B": 6}
    more: dict[str, Any] = {"max_len": 700} if "T" in "".join(forms) else {}
    more |= {"max_distance": 9} if "D" in "".join(forms) else {}
    more |= {"buckets": 6} if "B" in "".join(forms) else {}
    run = Workload(batch_size=3, seq_len=11)
    trees = [
        Transformer(kind="encoder", d_model=24, n_heads=4, n_layers=5, vocab_size=101, positions=positions, **given)
        for positions, given in ((kind, more), ("none", {}))
    ]
    for measure, form in zip((params, matmul_flops, buffer_elements), forms, strict=True):
        ours, without = (model.tree(run).total(measure) for model in trees)
        assert evaluate(form, at) == ours - without


@pytest.mark.long
def test_a_changed_leaf_makes_formulas_md_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A norm that loses its shift changes ln, the layers, the stacks and the whole."""
    text = (TOP / "formulas.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(NORMS, "layernorm", NormKind(("γ",), 6, 12))
    assert "| `ln` | h |" in refreshed(text)
    assert "| `encoder-layer` | 12h² + 11h |" in refreshed(text)
    (tmp_path / "formulas.md").write_text(text, encoding="utf-8")
    assert main(["formulas.md"]) == 1
    assert main(["--write", "formulas.md"]) == 0
    assert main(["formulas.md"]) == 0


def test_the_python_of_the_pages_is_true() -> None:
    pytest.importorskip("numpy")
    results = [doctest.testfile(str(TOP / name), module_relative=False, encoding="utf-8") for name in PAGES]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 8


def pages() -> str:
    """README.md and docs/ as one text."""
    return "\n".join((TOP / name).read_text(encoding="utf-8") for name in PAGES)


def test_every_option_and_command_of_the_pages_exists() -> None:
    from tfcalc.cli.commands import command
    from tfcalc.cli.other_names import BY_FLAG

    text = pages()
    known = {
        flag
        for name in COMMANDS
        for option in command(name).options
        for both in option.flags
        for flag in both.split("/")
    }
    known |= {"--help", "--version", "--install-completion", "--show-completion", "--upgrade", "--group"}
    known |= {"--all-files", "--left-out"}  # of pre-commit, of tools.fit_rates
    flags = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text))
    assert {flag for flag in flags if flag.replace("_", "-") not in BY_FLAG} <= known
    assert all(f"tfcalc {name}" in text or f"`{name}`" in text for name in COMMANDS)


def test_the_pages_count_the_presets() -> None:
    from tfcalc.catalog import names

    assert f"`tfcalc models` lists {len(names())}" in pages()


def test_every_elementwise_operation_of_every_family_stands_in_the_table() -> None:
    text = (TOP / "formulas.md").read_text(encoding="utf-8").partition("<!-- elementwise -->")[2]
    rows = [line.split(" | ") for line in text.partition("<!-- end -->")[0].splitlines()[3:]]
    listed = {name for row in rows for name in row[0].removeprefix("| ").split(", ")} | {row[0][2:] for row in rows}
    assert all(row[-1].removesuffix(" |") for row in rows), "an operation without a source"
    for model_type in model_types():
        for run in (Workload(phase="train"), Workload(phase="decode", cached=9)):
            try:
                root = HFModel({"model_type": model_type}).tree(run)
            except InvalidModel:  # defaults that fit no model; transformers has a few
                continue
            done = {work.name for node in root.walk() for work in node.component.own.elementwise}
            assert {name for name in done if not name.startswith("+ b")} <= listed, model_type


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_has_every_option(command: str) -> None:
    from tfcalc.cli.commands import command as known

    text = (TOP / "docs" / "reference.md").read_text(encoding="utf-8")
    table = text.partition(f"<!-- reference options {command} -->")[2].partition("<!-- end -->")[0]
    assert all(
        f"`{flag}`" in table for option in known(command).options if not option.argument for flag in option.flags
    )


def test_the_accuracy_page_has_every_family_and_every_recorded_file() -> None:
    text = (TOP / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in model_types())
    oracle = TOP / "tests" / "oracle"
    recorded = [path for path in oracle.rglob("*") if path.is_file() and path.name != "README.md"]
    assert all(f"`{path.relative_to(oracle)}`" in text for path in recorded)


def test_the_oracle_states_the_rows_that_its_files_have() -> None:
    counted = [line for line in "\n".join(TABLES_OF_ACCURACY["recorded"]()).splitlines() if line.startswith("| `")]
    stated = (TOP / "tests" / "oracle" / "README.md").read_text(encoding="utf-8")
    for line in counted:
        files, rows = (cell.strip() for cell in line.split("|")[1:3])
        assert f"| {files} | {rows} |" in stated or (", " in rows and files in stated), files
