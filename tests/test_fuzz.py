"""A small share of the fuzzer's inputs, the same in every run; `make fuzz` tries as many others as are wanted."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tools.fuzz import arithmetic, formats
from tools.fuzz.__main__ import GROUPS
from tools.fuzz.limits import Machine, promised
from tools.fuzz.program import WATCH

ROOT = Path(__file__).parents[1]


def test_its_examples_are_true() -> None:
    for module in (arithmetic, formats):
        assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("kinds", "count", "seed"),
    [
        pytest.param("program", 200, 2, marks=pytest.mark.long),
        ("parsers", 4_000, 1),
        pytest.param("attacks", 1500, 3, marks=pytest.mark.long),  # so many that the rarest kind, 1 of 500, is drawn
    ],
)
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


WRONG = {
    "error-lines": (
        "tfcalc.errors.printable = lambda text: text + '\\n'",  # errors of two lines
        "import tfcalc.cli.messages as messages",
        "messages.printable = lambda text: text",
    ),
    "memory": (
        "import tfcalc.reader as reader",
        "parse = reader.parse",
        "reader.parse = lambda *given: (bytearray(400 << 20), parse(*given))[1]",
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("check", WRONG)
def test_the_fuzzer_finds_what_is_wrong(check: str) -> None:
    """Where the program is made to do it: exit 1, and the report names it."""
    last = "from tools.fuzz.__main__ import run\nsys.exit(run())\n"
    program = "\n".join(("import sys", "import tfcalc.errors", *WRONG[check], last))
    asked = ["--n", "40", "--kinds", "raw", "--patience", "20"]
    done = subprocess.run(
        [sys.executable, "-c", program, *asked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"[{check}]" in done.stdout


def test_what_is_slow_is_tried_again_before_it_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower of two runs counts, and the limit is that of a machine as slow as this one is at the moment."""
    monkeypatch.setattr(WATCH.machine, "pace", lambda: 1.5)
    assert WATCH.slow(0.9, 1.0, lambda: math.inf) == 0
    assert WATCH.slow(2.0, 1.0, lambda: 0.4) == 0
    assert WATCH.slow(9.0, 1.0, lambda: 1.4) == 0
    assert WATCH.slow(9.0, 1.0, lambda: 1.6) == 1.6


def test_searches_and_several_models_have_more_time() -> None:
    assert promised(["memory", "gpt2", "--train"], {}) == 1
    assert promised(["compare", "gpt2", "bert", "t5-small", "--json"], {}) == 3
    assert promised(["budget"], {"toml": "[[budget]]\n[[budget]]\n"}) == 2
    assert promised(["design"], {}) > 5


def test_a_beat_that_the_clock_did_not_see_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's clock may stand still for a beat, on a loaded machine."""
    clock = iter([0.0, 0.0, *(tick for beat in range(1, 11) for tick in (beat, beat + 0.5))])
    monkeypatch.setattr("tools.fuzz.limits.time.process_time", lambda: next(clock))
    assert Machine().pace() == 1
