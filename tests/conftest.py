"""What several test files need: the real program, recorded truth, and the option that rewrites goldens."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

import tests.examples  # noqa: F401  # it registers the profiles
from tfcalc.cli.main import main

HERE = Path(__file__).parent

settings.load_profile("repeatable")  # nothing random decides; --hypothesis-profile=explore draws new examples


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--overwrite", action="store_true", help="write the golden files anew")


OF_OTHERS = 5
"""Of the cases that the standard tests leave out ``make long`` runs every so many, if a test does not say how many."""


def _later(items: list[pytest.Item]) -> None:
    """Mark the cases that are not run as a rule: ``long``, or ``exhaustive``, which CI has no time for.

    Of a test marked ``one_in(n, m)`` every n-th case stays; of the others every m-th is long (every fifth without m,
    none if it is 0), the rest exhaustive. Of those that need PyTorch the others are all exhaustive, as ``long`` tests
    run without it; cases that need the libraries of large sweeps stay. Of a test marked ``long(n)`` every n-th case is
    long, the others exhaustive.
    """
    seen, later, long = Counter[str](), Counter[str](), Counter[str]()
    for item in items:
        marks = {mark.name: mark for mark in reversed([*item.iter_markers()])}  # of two of a name, the nearest
        test = item.nodeid.partition("[")[0]
        if "one_in" in marks and "scale" not in marks:
            each, of_others = (*marks["one_in"].args, OF_OTHERS)[:2]
            if seen[test] % each:
                if "torch" not in marks:
                    item.add_marker(pytest.mark.long)
                if "torch" in marks or not of_others or later[test] % of_others:
                    item.add_marker(pytest.mark.exhaustive)
                later[test] += "torch" not in marks
            seen[test] += 1
        if "long" in marks and marks["long"].args:
            if long[test] % marks["long"].args[0]:
                item.add_marker(pytest.mark.exhaustive)
            long[test] += 1


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _later(items)
    skipped = {}
    if find_spec("torch") is None:
        skipped["torch"] = "PyTorch is not installed: pip install torch"
    if any(find_spec(name) is None for name in ("distributed", "duckdb", "pyarrow", "polars", "pandas", "vl_convert")):
        skipped["scale"] = "needs the dependency group scale: pip install --group scale"
    asked = str(config.getoption("markexpr"))
    if "network" not in asked:
        skipped["network"] = "it installs packages: pytest -m network, with the dependency group hook"
    if "page" not in asked:
        skipped["page"] = "it builds the page and starts a browser: pytest -m page, with the dependency group page"
    later = {name for name in ("long", "exhaustive") if name not in asked}
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        (left_out if marks & later else chosen).append(item)
        for marker, reason in skipped.items():
            if marker in marks:
                item.add_marker(pytest.mark.skip(reason=reason))
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage while tests are collected: nearly all that this makes stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Search no more for garbage among the tests themselves, and seldom among what they make.

    Of the time that tests take, a search through all that pytest holds is a good part.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM)


SELDOM = 50_000
"""Objects that are made, more than are gone, before a search for garbage: 700 in a program."""


def recorded(name: str) -> list[dict[str, Any]]:
    """The rows of a file in tests/oracle."""
    text = (HERE / "oracle" / name).read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = (
        json.loads(text) if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    )
    return rows


OURS = ("TFCALC_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "PYTHONIOENCODING", "_TYPER")
"""What variables begin with that the program reads."""


class Outcome(NamedTuple):
    """How a run ended."""

    returncode: int
    stdout: str
    stderr: str


Program = Callable[..., Outcome]
"""Runs the program with these words; also with variables ``env``, text to read (``input``), in a folder ``cwd``."""
Quick = Program


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quick:
    """Run main() in an empty folder, with streams of its own and nothing of ours in its environment."""

    def run(*arguments: str, input: str = "", env: Mapping[str, str] | None = None, cwd: Path = tmp_path) -> Outcome:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors, "\n") for errors in ("strict", "backslashreplace"))
        with monkeypatch.context() as patch:
            patch.chdir(cwd)
            for name in os.environ:
                if name.startswith(OURS):
                    patch.delenv(name)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode()), "utf-8"))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = main(list(arguments))
        texts = []
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
            texts.append(stream.read())
        return Outcome(code, *texts)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Program:
    """Run the program in a process of its own, in an empty folder, with nothing of ours in its environment."""

    def run(*arguments: str, env: Mapping[str, str] | None = None, **more: Any) -> Outcome:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        done = subprocess.run(
            [sys.executable, "-m", "tfcalc", *arguments],
            **{
                "cwd": tmp_path,
                "env": {**clean, "PYTHONUTF8": "1", **(env or {})},
                "capture_output": True,
                "text": True,
                "encoding": "utf-8",
                **({} if "input" in more else {"stdin": subprocess.DEVNULL}),
                "timeout": 120,
                "check": False,
                **more,
            },
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def tfcalc(quick: Quick) -> Program:
    """Run the program; what depends on its process (pipes, signals, what it imports) asks for ``process``."""
    return quick
