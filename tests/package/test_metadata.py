"""What the package says of itself, where pip, the command line and a reader look."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


TOP = Path(__file__).parents[2]
RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)


@pytest.fixture
def project() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    return settings


def test_one_version_everywhere(tfcalc: Program) -> None:
    released = RELEASE.findall((TOP / "CHANGELOG.md").read_text(encoding="utf-8"))
    version = metadata("tfcalc")["Version"]
    assert tfcalc("--version").stdout == f"tfcalc {version}\n"
    assert released[0][0] == version


def test_every_version_of_the_changelog_has_its_date_newest_first() -> None:
    text = (TOP / "CHANGELOG.md").read_text(encoding="utf-8")
    released = RELEASE.findall(text)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) == len(released) + headings.count("## [Unreleased]")
    order = [(tuple(map(int, version.split("."))), date.fromisoformat(day)) for version, day in released]
    assert order == sorted(order, reverse=True)


def test_licence_and_authors_are_stated() -> None:
    stated = metadata("tfcalc")
    assert stated["License-Expression"] == "Apache-2.0"
    assert stated["License-File"] == "LICENSE"
    assert stated["Author"] == "tfcalc contributors"
    assert "Apache License\n                           Version 2.0" in (TOP / "LICENSE").read_text(encoding="utf-8")


def test_no_address_is_made_up() -> None:
    assert metadata("tfcalc").get_all("Project-URL") is None


def test_the_extra_all_has_every_other() -> None:
    lines = [line.partition("; extra == ") for line in metadata("tfcalc").get_all("Requires-Dist") or []]
    needed = {(extra.strip("'"), requirement) for requirement, _, extra in lines if extra}
    of_all = {requirement for extra, requirement in needed if extra == "all"}
    assert of_all == {requirement for extra, requirement in needed if extra != "all"}
    assert {re.split(r"[^\w-]", requirement)[0] for requirement in of_all} >= {"numpy", "torch", "transformers"}


def test_what_it_needs_to_run_is_little() -> None:
    required = [line for line in metadata("tfcalc").get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert {re.split(r"[^\w-]", line)[0] for line in required} == {"typer", "rich", "sympy"}


def test_the_oldest_python_named_is_the_oldest_that_is_allowed(project: dict[str, Any]) -> None:
    assert project["project"]["requires-python"] == f">={pythons(project)[0]}"


def pythons(project: dict[str, Any]) -> list[str]:
    """The Pythons that the classifiers name, oldest first."""
    lines = project["project"]["classifiers"]
    named = [
        line.rpartition(" ")[2] for line in lines if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
    ]
    return sorted(named, key=lambda version: int(version.partition(".")[2]))


def test_the_workflow_runs_the_pythons_that_the_classifiers_name(project: dict[str, Any]) -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((TOP / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == pythons(project)
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    for action in (step["uses"] for step in job["steps"] if "uses" in step):
        assert re.fullmatch(r"[\w/-]+@v\d+(\.\d+){0,2}", action), f"{action} is not pinned to a version"
    (upload,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert (TOP / upload["with"]["path"]).exists()
