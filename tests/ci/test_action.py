"""The action: what it is made of, and what its steps do in the repository of a pull request."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.budgets.sample import CHAT, FILE, FILES, KV_HEADS, WHY, config, sample
from tests.ci.action import CHECK, FIND, INPUT, INSTALL, action, run, steps
from tests.repositories import Repository

CONFIG = "configs/chat.json"
LINE = list(CHAT).index("num_key_value_heads") + 2
DOUBLED = {CONFIG: config(num_key_value_heads=2 * KV_HEADS)}


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    """The runner's folder, in which tfcalc is what the tests run (the step that installs it is a test of its own)."""
    program = tmp_path / "temp/tfcalc/bin/tfcalc"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tfcalc "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path / "temp"


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    """A repository with a pull request that doubles the key-value heads."""
    repository = sample(tmp_path / "origin")
    repository.git("checkout", "-q", "-b", "wider")
    repository.commit(DOUBLED, "Twice the key-value heads")
    return repository


def test_what_an_input_contains_is_no_part_of_a_script() -> None:
    for step in steps().values():
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        for value in step.get("env", {}).values():
            assert INPUT.fullmatch(value)
    assert list(steps()) == [INSTALL, FIND, CHECK]


def test_every_input_is_used_and_every_output_is_set() -> None:
    used = {INPUT.fullmatch(value)[1] for step in steps().values() for value in step.get("env", {}).values()}  # type: ignore[index]  # the test above
    assert used == set(action()["inputs"])
    check = steps()[CHECK]
    for name, said in action()["outputs"].items():
        assert said["value"] == f"${{{{ steps.{check['id']}.outputs.{name} }}}}"
        assert f'echo "{name}=' in check["run"]


def test_a_pull_request_in_the_shallow_clone_of_the_checkout_action(
    tmp_path: Path, temp: Path, origin: Repository
) -> None:
    clone = Repository(tmp_path / "clone", clone=origin, depth=1, branch="wider")
    done = run(clone.folder, temp, FIND, CHECK, base_ref="main")
    assert done.code == 1
    assert f"::error file={CONFIG},line={LINE},title=chat" in done.log
    assert f"4.00 GiB -> 8.00 GiB (+100.0 %25), at most +10 %25 (max_increase); why: {WHY}" in done.log
    assert done.outputs == {"exit-code": "1", "failures": "1"}
    assert done.summary.count("8.00 GiB") == 1
    assert clone.output("rev-parse", "--is-shallow-repository") == "true"


def test_a_whole_clone_stays_whole(tmp_path: Path, temp: Path, origin: Repository) -> None:
    clone = Repository(tmp_path / "clone", clone=origin, branch="wider")
    clone.git("update-ref", "-d", "refs/remotes/origin/main")
    assert run(clone.folder, temp, FIND, CHECK, base_ref="main").outputs == {"exit-code": "1", "failures": "1"}
    assert clone.output("rev-parse", "--is-shallow-repository") == "false"
    assert clone.output("rev-list", "--count", "HEAD") == "3"


def test_a_pull_request_that_changes_no_number_passes(tmp_path: Path, temp: Path, origin: Repository) -> None:
    origin.commit({CONFIG: FILES[CONFIG], "tfcalc.toml": f"# budgets\n{FILE}"}, "As it was, with a comment")
    clone = Repository(tmp_path / "clone", clone=origin, depth=1, branch="wider")
    done = run(clone.folder, temp, FIND, CHECK, base_ref="main")
    assert (done.code, done.log) == (0, "passed: 3 checks\n")
    assert done.outputs == {"exit-code": "0", "failures": "0"}


def test_its_inputs(temp: Path, origin: Repository) -> None:
    folder = origin.folder
    (folder / "tfcalc.toml").rename(folder / "other limits.toml")
    given = {"file": "other limits.toml", "base": "HEAD~1"}
    assert run(folder, temp, FIND, CHECK, **given).outputs == {"exit-code": "1", "failures": "1"}
    small = run(folder, temp, FIND, CHECK, **given, arguments="--model s*l")
    assert (small.code, small.log) == (0, "passed: 1 check\n")
    report = run(folder, temp, FIND, CHECK, **given, arguments=" --format sarif\n -o budget.sarif ")
    assert report.outputs == {"exit-code": "1", "failures": "1"}
    assert '"version": "2.1.0"' in (folder / "budget.sarif").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["file", "base", "arguments"])
def test_what_would_be_a_command_is_text(temp: Path, origin: Repository, name: str) -> None:
    touched = temp / "touched"
    done = run(origin.folder, temp, FIND, CHECK, **{name: f'"; touch {touched}; $(touch {touched}) `touch {touched}`'})
    assert done.code in (2, 3, 4)
    assert done.outputs == {"exit-code": str(done.code), "failures": ""}
    assert not touched.exists()


def test_without_a_pull_request_recorded_values_are_compared_with(temp: Path, origin: Repository) -> None:
    assert run(origin.folder, temp, FIND, CHECK).outputs == {"exit-code": "3", "failures": "0"}
    (origin.folder / "tfcalc.toml").write_text("[[budget]]\n", encoding="utf-8")
    assert run(origin.folder, temp, FIND, CHECK).outputs == {"exit-code": "3", "failures": ""}


@pytest.mark.network
def test_it_installs_itself(tmp_path: Path, origin: Repository) -> None:
    temp = tmp_path / "runner"
    temp.mkdir()
    clone = Repository(tmp_path / "clone", clone=origin, depth=1, branch="wider")
    done = run(clone.folder, temp, INSTALL, FIND, CHECK, base_ref="main")
    assert re.search(r"^FAILED: 1 of 3 checks$", done.log, re.MULTILINE)
    assert done.outputs == {"exit-code": "1", "failures": "1"}
