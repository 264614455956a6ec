"""What a file of budgets may say, and how each mistake in it is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.budgets.files import GOOD, MISTAKES, WHOLE
from tfcalc.budgets.file import BudgetFile, find
from tfcalc.budgets.limits import Limit
from tfcalc.budgets.read import read_budgets
from tfcalc.cli.budget_options import known_options
from tfcalc.errors import BadFile


def read(text: str, path: str = "tfcalc.toml") -> BudgetFile:
    return read_budgets(text, path, known_options())


def test_everything_that_a_file_may_say_is_read() -> None:
    file = read(WHOLE)
    assert file.path == "tfcalc.toml"
    assert file.conventions == {"dtype": "bf16", "count": "matmul"}
    assert {name: (model.config, model.preset) for name, model in file.models.items()} == {
        "chat": ("configs/chat.json", None),
        "chat-long": (None, "llama-3-8b"),
        "base": (None, None),
    }
    assert file.models["chat-long"].options == {"n_layers": 16}
    assert file.models["base"].options == {"d_model": 512, "n_layers": "6"}
    assert file.scenarios["tune"].options == {"train": True, "seq_len": "4k", "lora": 16, "gpu": "h100"}
    first, second, third = file.budgets
    assert first.models == ("chat*",)
    assert (first.scenario, first.metric) == ("tune", "memory.peak_bytes")
    assert first.limits == {"max": Limit("24GiB", 24 * 2**30, False)}
    assert first.warn == Limit("20GiB", 20 * 2**30, False)
    assert (first.severity, first.why, first.expires) == ("error", "one RTX 4090", date(2027, 1, 31))
    assert second.models == ("chat", "base")
    assert second.limits == {
        "max": Limit("1.4B", 1_400_000_000, False),
        "min": Limit("1000", 1000, False),
        "max_increase": Limit("10%", 10.0, True),
    }
    assert (second.scenario, second.warn, second.why, second.expires) == (None, None, "", None)
    assert (third.severity, third.expires) == ("warning", date(2030, 2, 28))
    # counted in the text: its first line is line 1
    numbered = [number for number, line in enumerate(WHOLE.split("\n"), 1) if line.startswith("[[budget]]")]
    assert [one.line for one in file.budgets] == numbered
    assert len(set(numbered)) == 3


def test_the_same_stands_in_a_pyproject() -> None:
    text = "[project]\nname = 'x'\n[tool.tfcalc.models.a]\npreset = 'gpt2'\n\n"
    text += "[[tool.tfcalc.budget]]\nmodel = 'a'\nmetric = 'total_params'\nmax = 1\n"
    file = read(text, "pyproject.toml")
    assert file.models["a"].preset == "gpt2"
    assert [one.line for one in file.budgets] == [6]


def test_a_pyproject_without_the_table_is_refused() -> None:
    with pytest.raises(
        BadFile, match=r"pyproject.toml has no \[tool.tfcalc\]; write it, or a tfcalc.toml: tfcalc init"
    ):
        read("[project]\nname = 'x'\n", "pyproject.toml")


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_may_be_left_out_may_be_left_out(text: str) -> None:
    assert read(text).path == "tfcalc.toml"


@pytest.mark.parametrize(("text", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_place_and_a_remedy(text: str, told: str) -> None:
    with pytest.raises(BadFile) as caught:
        read(text)
    assert str(caught.value) == f"tfcalc.toml{told}"
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('why = """\n[[budget]]\n"""\n[[budget]]\nmodel="a"\nmetric="tokens"\nmax=1', [4]),
        ("why = '''\n[[budget]]\n'''\n[[ 'budget' ]]\nmodel='a'\nmetric='tokens'\nmax=1", [4]),
        ('# [[budget]]\r\n\r\n  [[budget]]\r\nmodel="a"\r\nmetric="tokens"\r\nmax=1', [3]),
        ('why = "\\"[[budget]]"\n[["\\u0062udget"]]\nmodel="a"\nmetric="tokens"\nmax=1', [1]),
        ('budget = [{model="a", metric="tokens", max=1}, {model="a", metric="tokens", max=2}]', [1, 1]),
    ],
    ids=["in a long text", "in a literal one", "in a comment", "escaped", "inline"],
)
def test_a_header_is_found_on_its_line_or_not_at_all(text: str, lines: list[int]) -> None:
    # `why` at the top is no option: read without known options
    file = read_budgets(text + "\n[models.a]\npreset='gpt2'\n", "tfcalc.toml")
    assert [one.line for one in file.budgets] == lines


def test_without_a_line_a_mistake_has_the_number_of_its_budget() -> None:
    text = (
        'budget = [{model="a", metric="tokens", max=1}, {model="a", metric="tokens", maxx=2}]\n[models.a]\npreset="x"\n'
    )
    with pytest.raises(BadFile, match=r"^tfcalc.toml: budget 2: key 'maxx' is not known; did you mean max\?$"):
        read(text)


def test_the_nearest_file_is_found(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "tfcalc.toml").write_text("version = 1\n")
    assert find(below) == tmp_path / "tfcalc.toml"
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'tfcalc'\n")
    assert find(below) == tmp_path / "tfcalc.toml"
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.tfcalc]\nversion = 1\n")
    assert find(below) == tmp_path / "a" / "pyproject.toml"


def test_the_example_of_the_page_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "budgets.md").read_text(encoding="utf-8")
    first = page.split("```toml\n")[1].split("```")[0]
    file = read(first)
    assert [one.metric for one in file.budgets] == ["memory.peak_bytes", "total_params"]
    assert list(file.models) == ["chat", "chat-small"]
