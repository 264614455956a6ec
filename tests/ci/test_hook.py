"""The hook of pre-commit: what it says, its command, and (-m network) pre-commit itself with a commit of git."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.budgets.sample import FILE, KV_HEADS, WHY, config, sample
from tests.conftest import Program
from tests.repositories import ALONE, PERSON


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


TOP = Path(__file__).parents[2]
[HOOK] = yaml.safe_load((TOP / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
DOUBLED = config(num_key_value_heads=2 * KV_HEADS)
BASE = ["--base", "HEAD"]
GREW = re.compile(rf"memory\.kv_cache_bytes 4\.00\s+GiB -> 8\.00 GiB .* why: {WHY}".replace(" ", r"\s+"), re.DOTALL)


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("tfcalc.toml", True),
        ("models/tfcalc.toml", True),
        ("pyproject.toml", True),
        ("configs/chat.json", True),
        ("tfcalc.lock.json", True),
        ("README.md", False),
        ("not-tfcalc.toml", False),
        ("configs/chat.json.orig", False),
    ],
)
def test_it_runs_where_a_config_or_a_limit_changed(path: str, concerned: bool) -> None:
    assert bool(re.search(HOOK["files"], path)) is concerned  # as pre-commit asks


def test_its_command_answers_for_the_whole_repository(tmp_path: Path, tfcalc: Program) -> None:
    program, *words = HOOK["entry"].split()
    assert program in tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert HOOK["pass_filenames"] is False
    sample(tmp_path)
    assert tfcalc(*words, *BASE).returncode == 0
    (tmp_path / "configs/chat.json").write_text(DOUBLED, encoding="utf-8")
    done = tfcalc(*words, *BASE)
    assert (done.returncode, bool(GREW.search(done.stdout)), done.stderr) == (1, True, "")


@pytest.mark.network
def test_pre_commit_lets_no_commit_through_that_is_over_budget(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    if not (TOP / ".git").exists():
        pytest.skip("pre-commit takes a hook from a git repository, which this is not")
    repository = sample(tmp_path / "repository")
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON", "TFCALC_"))}
    environment = {**outside, **ALONE, **PERSON, "PRE_COMMIT_HOME": str(tmp_path / "home")}

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=repository.folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
        )

    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True, check=True).stdout
    hooks = [{"repo": str(TOP), "rev": revision.strip(), "hooks": [{"id": HOOK["id"], "args": BASE}]}]
    repository.commit({".pre-commit-config.yaml": yaml.safe_dump({"repos": hooks})}, "The hook")
    installed = ran(sys.executable, "-m", "pre_commit", "install", "--install-hooks")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    passed = ran(sys.executable, "-m", "pre_commit", "run", "--all-files")
    assert (passed.returncode, passed.stdout.split(".")[-1].strip()) == (0, "Passed"), passed.stdout

    def committed(path: str, text: str) -> subprocess.CompletedProcess[str]:
        (repository.folder / path).write_text(text, encoding="utf-8")
        repository.git("add", path)
        return ran("git", "commit", "-m", path)

    before = repository.head()
    refused = committed("configs/chat.json", DOUBLED)
    assert refused.returncode == 1
    assert GREW.search(refused.stderr), refused.stderr
    assert repository.head() == before
    repository.git("reset", "-q", "--hard")
    assert "Passed" in committed("tfcalc.toml", f"# budgets\n{FILE}").stderr
    assert "Skipped" in committed("README.md", "models").stderr
    assert repository.head("HEAD~2") == before
