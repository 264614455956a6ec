"""``tfcalc.testing.assert_budgets`` and its fixture, in a repository whose pull request doubles the key-value heads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.budgets.sample import FILE, KV_HEADS, WHY, config, sample
from tests.ci.page import files
from tests.repositories import ALONE
from tfcalc.errors import BadFile, Unavailable
from tfcalc.testing import BudgetWarning, assert_budgets

FAILED = "FAILED: 1 of 3 checks"
LINE = (
    "failed: chat, serving: memory.kv_cache_bytes 4.00 GiB -> 8.00 GiB (+100.0 %), at most +10 % (max_increase); "
    f"why: {WHY}"
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sample(tmp_path)
    return tmp_path


def double(folder: Path) -> None:
    (folder / "configs/chat.json").write_text(config(num_key_value_heads=2 * KV_HEADS), encoding="utf-8")


def test_a_file_passes_until_the_heads_are_doubled(repository: Path) -> None:
    assert_budgets(base="HEAD")
    double(repository)
    for file in (None, "tfcalc.toml", repository / "tfcalc.toml"):
        with pytest.raises(AssertionError) as caught:
            assert_budgets(file, "HEAD")
        assert str(caught.value) == f"{FAILED}\n{LINE}"


def test_what_cannot_be_compared_does_not_pass(repository: Path) -> None:
    with pytest.raises(AssertionError, match=r"^NOT COMPARABLE: 1 of 3 checks\nnot comparable: chat, serving: "):
        assert_budgets()
    with pytest.raises(Unavailable, match="elsewhere"):
        assert_budgets(base="elsewhere")
    (repository / "tfcalc.toml").write_text("[[budget]]\n", encoding="utf-8")
    with pytest.raises(BadFile, match="it has no model"):
        assert_budgets()


def test_a_warning_is_a_warning(repository: Path) -> None:
    double(repository)
    soft = FILE.replace('max_increase = "10%"', 'max_increase = "10%"\nseverity = "warning"')
    (repository / "tfcalc.toml").write_text(soft, encoding="utf-8")
    with pytest.warns(BudgetWarning, match="8.00 GiB") as warned:
        assert_budgets(base="HEAD")
    assert [warning.filename for warning in warned] == [__file__]


def pytested(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pytest, in a process of its own, as another project runs it."""
    environment = {**{name: value for name, value in os.environ.items() if "PYTEST" not in name}, **ALONE}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_page_s_tests_pass_until_the_heads_are_doubled(repository: Path) -> None:
    """Those with the fixture from any folder, which finds the file at pytest's root."""
    for name, text in {"pytest.ini": "[pytest]\n", **files("python")}.items():
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")
    done = pytested(repository)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    double(repository)
    assert "2 failed" in pytested(repository).stdout
    done = pytested(repository / "tests", "-k", "test_budgets")
    assert done.returncode == 1
    assert f"AssertionError: {FAILED}\n" in done.stdout
    assert LINE in done.stdout
    assert ">       tfcalc_budgets(base=" in done.stdout, "the line of the test is shown"
    assert "of_a_file.py" not in done.stdout, "and none of tfcalc"


def test_pytest_does_not_load_what_it_was_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import sys\ndef test_it(): assert 'tfcalc' not in sys.modules\n")
    done = pytested(tmp_path)
    assert done.returncode == 0, done.stdout
