"""A small share of the fuzzer's inputs, the same in every run; `make fuzz` tries as many others as are wanted."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from tools.fuzz import arithmetic, formats
from tools.fuzz.__main__ import GROUPS

ROOT = Path(__file__).parents[1]


def test_its_examples_are_true() -> None:
    for module in (arithmetic, formats):
        assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(("kinds", "count", "seed"), [("program", 200, 1), ("program", 200, 2), ("parsers", 10_000, 1)])
def test_hostile_inputs_find_no_bug(kinds: str, count: int, seed: int, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    asked = ["--n", str(count), "--seed", str(seed), "--kinds", kinds, "--patience", "20", "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *asked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = report.read_text(encoding="utf-8") if report.exists() else ""
    assert done.returncode == 0, found[found.find("kinds of bugs:") :] or done.stderr
    assert f"{count} inputs" in found
    tried = found[found.index("by kind:") :].partition("\n")[0]
    assert all(f" {kind} " in tried for kind in GROUPS[kinds]), tried


def test_the_fuzzer_finds_what_is_wrong() -> None:
    """Errors of two lines, say: exit 1, and the report names them."""
    program = (
        "import sys\n"
        "import tfcalc.errors\n"
        "tfcalc.errors.printable = lambda text: text + '\\n'\n"
        "import tfcalc.cli.messages as messages\n"
        "messages.printable = lambda text: text\n"
        "from tools.fuzz.__main__ import run\n"
        "sys.exit(run())\n"
    )
    asked = ["--n", "40", "--kinds", "raw", "--patience", "20"]
    done = subprocess.run(
        [sys.executable, "-c", program, *asked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "[error-lines]" in done.stdout
