"""The real program in a process whose time is limited, and whose memory is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="limits and peaks are told by Linux")
SECONDS, MEGABYTES = 20, 500
"""Of the processor, four times what is allowed, as machines differ; and of memory."""
PROGRAM = f"""
import gc, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
gc.disable()
from tfcalc.cli.main import main
code = main()
sys.stdout.flush()
sys.stderr.flush()
with open("/proc/self/status") as status, open("peak", "w") as peak:
    peak.write(next(line.split()[1] for line in status if line.startswith("VmHWM")))
os._exit(code)
"""


class Ran(NamedTuple):
    """How the program ended, the beginning of what it wrote, and the most memory that it had."""

    code: int
    out: str
    err: str
    megabytes: float


def run(folder: Path, *arguments: str) -> Ran:
    """The real program in a process that is ended where it takes more of the processor."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TFCALC_")}
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        command = [sys.executable, "-c", PROGRAM, *arguments]
        done = subprocess.run(
            command, cwd=folder, env=clean, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False
        )
        out.seek(0)
        err.seek(0)
        assert done.returncode in (0, 1, 2, 3), err.read()[-2_000:]
        return Ran(done.returncode, out.read(100_000), err.read(), int((folder / "peak").read_text()) / 1_024)


def answered(ran: Ran, *codes: int) -> None:
    assert ran.code in codes, ran.err
    assert ran.out
    assert ran.megabytes < MEGABYTES


def refused(ran: Ran, code: int, *words: str) -> None:
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert ran.err.count("\n") == 1
    assert len(ran.err) <= 600
    assert all(word in ran.err for word in words), ran.err
    assert ran.megabytes < MEGABYTES
