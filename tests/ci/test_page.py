"""docs/ci.md: its story ends as it says, and its examples name what there is."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.budgets.sample import FILES, sample
from tests.ci.action import action
from tests.ci.page import PAGE, blocks, files
from tests.conftest import Program
from tests.repositories import ALONE, PERSON
from tfcalc.cli.commands.budget import OWN


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


TOP = Path(__file__).parents[2]


def test_the_story_is_twenty_lines_that_anybody_can_paste(tmp_path: Path) -> None:
    story, ending = blocks("sh")[0], blocks("text")[0]
    assert len(story.splitlines()) <= 20
    program = tmp_path / "bin/tfcalc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tfcalc "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    ours = ("GIT_", "TFCALC_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "GITHUB_")
    outside = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join((str(program.parent), os.environ["PATH"]))
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        ["bash", "-e", "-c", story],
        cwd=empty,
        env={**outside, **ALONE, **PERSON, "PATH": path, "PYTHONUTF8": "1", "COLUMNS": "80"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"passed: 1 check\n{ending}"
    # 2 · 32 layers · 8 heads of 4096/32 numbers · 2 bytes · 32 · 1024 tokens
    assert 2 * 32 * 8 * (4096 // 32) * 2 * 32 * 1024 == 4 * 2**30
    assert "4.00 GiB -> 8.00 GiB" in done.stdout


TABLE = PAGE.partition("| question |")[2].partition("\n\n")[0]
ROWS = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in TABLE.splitlines()[2:]]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_what_is_worth_a_budget_passes_for_the_sample(row: list[str], tmp_path: Path, tfcalc: Program) -> None:
    assert len(ROWS) >= 5
    question, options, metric, limit = row
    scenario = "[scenarios.run]\n" + options.replace("`, `", "\n")
    budget = f'\n[[budget]]\nmodel = "chat"\nscenario = "run"\nmetric = "{metric}"\n{limit}\n'
    sample(tmp_path, {**FILES, "tfcalc.toml": f'[models.chat]\nconfig = "configs/chat.json"\n{scenario}{budget}'})
    done = tfcalc("budget", "--base", "HEAD")
    assert (done.stdout, done.stderr) == ("passed: 1 check\n", ""), question


def test_the_workflows_name_what_there_is() -> None:
    jobs = {name: yaml.safe_load(text) for name, text in files("yaml").items()}
    assert list(jobs) == [".github/workflows/budgets.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml"]
    [repository] = jobs[".pre-commit-config.yaml"]["repos"]
    [ours] = yaml.safe_load((TOP / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    flags = {flag for option in OWN for flag in option.flags}
    for hook in repository["hooks"]:
        assert hook["id"] == ours["id"]
        assert set(hook["args"][::2]) <= flags
    steps = jobs[".github/workflows/budgets.yml"]["jobs"]["budgets"]["steps"]
    assert [step["uses"] for step in steps] == ["actions/checkout@v4", "OWNER/tfcalc@COMMIT"]
    assert not any("with" in step for step in steps)


def test_every_input_and_output_of_the_action_has_its_row() -> None:
    for name in (*action()["inputs"], *action()["outputs"]):
        assert f"\n| `{name}` | " in PAGE


def test_every_python_file_is_run() -> None:
    """By tests/ci/test_assert_budgets.py, which takes them from the page."""
    assert list(files("python")) == ["tests/test_cost.py", "conftest.py", "tests/test_budgets.py"]
    assert len(files("python")) == len(blocks("python"))
