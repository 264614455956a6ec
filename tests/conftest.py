"""What several test files need: the real program, recorded truth, and the option that rewrites goldens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import tests.examples  # noqa: F401  # it registers the profiles

HERE = Path(__file__).parent

settings.load_profile("repeatable")  # nothing random decides; --hypothesis-profile=explore draws new examples
Program = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--overwrite", action="store_true", help="write the golden files anew")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skipped = {}
    if find_spec("torch") is None:
        skipped["torch"] = "PyTorch is not installed: pip install torch"
    if any(find_spec(name) is None for name in ("distributed", "duckdb", "pyarrow", "polars", "pandas", "vl_convert")):
        skipped["scale"] = "needs the dependency group scale: pip install --group scale"
    if "network" not in str(config.getoption("markexpr")):
        skipped["network"] = "it installs packages: pytest -m network, with the dependency group hook"
    if "long" not in str(config.getoption("markexpr")):
        skipped["long"] = "it takes minutes: make long"
    for item in items:
        for marker, reason in skipped.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def recorded(name: str) -> list[dict[str, Any]]:
    """The rows of a file in tests/oracle."""
    text = (HERE / "oracle" / name).read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = (
        json.loads(text) if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    )
    return rows


@pytest.fixture
def tfcalc(tmp_path: Path) -> Program:
    """Run the real program in an empty folder, with nothing of ours in its environment."""

    def run(*arguments: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        ours = (
            "TFCALC_",
            "COLUMNS",
            "LINES",
            "NO_COLOR",
            "FORCE_COLOR",
            "GITHUB_ACTIONS",
            "PYTHONIOENCODING",
            "_TYPER",
        )
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return subprocess.run(
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

    return run
