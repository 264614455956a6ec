"""Peaks that were measured on real GPUs, and what tfcalc says of the same runs: ``python -m tests.real_runs``.

A row of tests/oracle/memory/real-runs.jsonl is one number that somebody printed: ``measured``, in ``unit``, of a
``quantity`` (what PyTorch's allocator gave out, what it reserved, or what the driver shows). ``arguments`` is the
command line that asks tfcalc about that run; settings that the source does not tell are named in ``assumed``. Where
``less`` stands, the number is the difference of two peaks. ``cause`` is that of the error that is left; a row that is
farther off than its band says by how much at most (``slack``). A row without arguments says why in ``reason``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tests.conftest import recorded
from tfcalc.cli.main import main as program

TOP = Path(__file__).parents[1]
ROWS = "memory/real-runs.jsonl"
UNITS = {"bytes": 1, "MiB": 2**20, "GiB": 2**30, "GB": 10**9}
KEYS = {
    "allocated": "peak_bytes",
    "active": "peak_bytes",
    "reserved": "reserved_bytes",
    "nvidia-smi": "device_bytes",
    "saved": "activations_bytes",
}
"""Where the answer has each quantity. Active are the allocated blocks, which are rounded up to 512 bytes."""
BANDS = {"allocated": "allocated", "active": "allocated", "reserved": "reserved", "nvidia-smi": "device"}
"""The names of the bands in the answer, ``reserved_low_bytes`` to ``reserved_high_bytes``."""
CLOSE = 0.08
"""An error that is small, as the issue says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A measured peak. See the module."""

    group: str
    source: str
    run: str
    card: str
    quantity: str
    unit: str
    measured: float
    tfcalc_0_1_0: float | None = None
    arguments: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    assumed: str = ""
    cause: str = ""
    slack: float = 0
    reason: str = ""

    @property
    def bytes(self) -> float:
        return self.measured * UNITS[self.unit]

    @property
    def before(self) -> float | None:
        """How far version 0.1.0 was off."""
        return None if self.tfcalc_0_1_0 is None else self.tfcalc_0_1_0 / self.measured - 1


@dataclass(frozen=True, slots=True)
class Compared:
    """A run beside the bytes that tfcalc predicts, from ``low`` to ``high``, or why it predicts none."""

    run: Run
    predicted: int | None
    why_not: str = ""
    low: int = 0
    high: int = 0

    @property
    def error(self) -> float | None:
        return None if self.predicted is None else self.predicted / self.run.bytes - 1

    @property
    def within(self) -> bool:
        """Whether what was measured is within the band."""
        return self.low <= self.run.bytes <= self.high


@cache
def runs() -> tuple[Run, ...]:
    """All rows, in their order."""
    return tuple(run_of(row) for row in recorded(ROWS))


def run_of(row: dict[str, Any]) -> Run:
    """A row of the file; also of one that ``tests.cuda.record`` has written."""
    lists = {name: tuple(row.get(name) or ()) for name in ("arguments", "less")}
    known = {name: row[name] for name in Run.__dataclass_fields__ if name in row}
    return Run(**{**known, **lists})


@cache
def answered(arguments: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """What the program says to these arguments: its JSON, or its error in one line."""
    out, err = io.StringIO(), io.StringIO()
    placed = [str(TOP / word) if word.startswith("tests/") else word for word in arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        program([*placed, "--json"])
    said = out.getvalue()
    return (json.loads(said), "") if said else ({}, json.loads(err.getvalue())["message"])


def compared(run: Run) -> Compared:
    """One run beside its prediction."""
    if not run.arguments:
        return Compared(run, None, run.reason)
    answer, error = answered(run.arguments)
    if run.less and not error:
        base, error = answered(run.less)
    key = KEYS[run.quantity]
    if error or key not in answer:
        return Compared(run, None, error or f"{run.quantity} is not predicted")
    if run.less:
        return Compared(run, answer[key] - base[key])
    low, high = (answer.get(f"{BANDS.get(run.quantity)}_{end}_bytes", answer[key]) for end in ("low", "high"))
    return Compared(run, answer[key], "", low, high)


def all_compared(wanted: Callable[[Run], bool] = lambda _: True) -> list[Compared]:
    """The runs that are wanted, each beside its prediction."""
    return [compared(run) for run in runs() if wanted(run)]


@dataclass(frozen=True, slots=True)
class Spread:
    """How errors are distributed."""

    rows: int
    numbers: int
    median: float
    p10: float
    p90: float
    close: float


def spread(errors: Iterable[float | None]) -> Spread:
    """The statistics of some errors; None stands for a row without a number, which is not close either.

    >>> spread([-0.1, 0.0, 0.02, None])
    Spread(rows=4, numbers=3, median=0.0, p10=-0.08, p90=0.016, close=0.5)
    """
    given = list(errors)
    known = [error for error in given if error is not None]
    tenths = quantiles(known, n=10, method="inclusive") if len(known) > 1 else [known[0], known[0]]
    close = sum(abs(error) <= CLOSE for error in known) / len(given)
    return Spread(len(given), len(known), median(known), tenths[0], tenths[-1], close)


def size_of(error: float | None) -> float | None:
    """Return how far off it is, high or low."""
    return None if error is None else abs(error)


def report(found: Iterable[Compared]) -> Iterator[str]:
    """A line for each row, and the distribution of all errors."""
    found = list(found)
    for one in found:
        said = one.why_not if one.predicted is None else f"{one.predicted / UNITS[one.run.unit]:,.2f} {one.error:+.1%}"
        said += " (within the band)" if one.within else ""
        before = "" if one.run.before is None else f"  (0.1.0: {one.run.before:+.1%})"
        yield f"{one.run.group}, {one.run.run}: {one.run.measured:,} {one.run.unit} {one.run.quantity}: {said}{before}"
    if any(one.error is not None for one in found):
        yield str(spread(one.error for one in found))


def main(arguments: Sequence[str]) -> int:
    """Print the rows of the groups that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_runs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--rows", type=Path, help="a file of tests.cuda.record; default: the recorded rows")
    given = parser.parse_args(arguments)
    lines = given.rows.read_text(encoding="utf-8").splitlines() if given.rows else []
    known = [run_of(json.loads(line)) for line in lines] if given.rows else runs()
    print("\n".join(report(compared(run) for run in known if not given.groups or run.group in given.groups)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
