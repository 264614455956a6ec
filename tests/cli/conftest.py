"""The program in the process of the tests, where hundreds of inputs are tried and starting it would take minutes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tfcalc.cli.main import main


class Outcome(NamedTuple):
    """How a run ended."""

    returncode: int
    stdout: str
    stderr: str


Quick = Callable[..., Outcome]


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quick:
    """Run main() in an empty folder, with streams of its own and nothing of ours in its environment."""

    def run(*arguments: str, input: str = "", env: Mapping[str, str] | None = None) -> Outcome:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors, "\n") for errors in ("strict", "backslashreplace"))
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name in os.environ:
                if name.startswith(("TFCALC_", "COLUMNS", "NO_COLOR", "FORCE_COLOR")):
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
