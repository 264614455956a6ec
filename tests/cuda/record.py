"""``python -m tests.cuda.record -o rows.jsonl``: train small models on the first GPU, and write down what they took.

Each run is a process of its own, so that it begins with an empty card. The rows are those of
tests/oracle/memory/real-runs.jsonl (tests/real_runs.py). ``--dry-run`` prints the runs and the commands that ask tfcalc
about them; names choose some of the runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path

from tests.cuda.rows import rows
from tests.cuda.settings import Setting, settings

PATIENCE = 60.0
"""Seconds that a run may take."""


def chosen(names: Sequence[str]) -> list[Setting]:
    """The runs whose name begins with one of these; all, where none is given."""
    return [one for one in settings() if not names or one.name.startswith(tuple(names))]


def record(setting: Setting) -> str:
    """The rows of one run, as lines of JSON. This process is to be a fresh one."""
    from tests.cuda.training import machine, measured

    size = measured(setting)
    return "".join(json.dumps(row) + "\n" for row in rows(setting, size, machine()))


def here(setting: Setting, do: Callable[[Setting], str] = record) -> tuple[str, str]:
    """The rows of one run and its error, one of which is empty, from this process."""
    try:
        with redirect_stdout(StringIO()):
            return do(setting), ""
    except Exception as error:
        return "", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _tell(setting: Setting, do: Callable[[Setting], str], to: Connection) -> None:
    to.send(here(setting, do))


def apart(setting: Setting, do: Callable[[Setting], str] = record) -> tuple[str, str]:
    """The rows of one run and its error, one of which is empty, from a process of its own.

    It is forked from this one, which has imported PyTorch, and has not touched the card.
    """
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asked in any other way, the card cannot be used in a fork
    import_module("tests.cuda.training")
    forked = multiprocessing.get_context("fork")
    ours, theirs = forked.Pipe(duplex=False)
    process = forked.Process(target=_tell, args=(setting, do, theirs))
    process.start()
    theirs.close()
    try:
        found: tuple[str, str] = ours.recv() if ours.poll(PATIENCE) else ("", f"not done in {PATIENCE:.0f} s")
    except EOFError:
        found = "", "ended without a word"
    process.kill()
    process.join()
    return found


def main(arguments: Sequence[str]) -> int:
    """0 if all runs ran, 1 if one did not: a kernel that this card lacks, or too little memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.record", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="beginnings of names")
    parser.add_argument("-o", "--output", type=Path, help="a file to write to; default: standard output")
    parser.add_argument("--dry-run", action="store_true", help="print the runs, without PyTorch")
    parser.add_argument(
        "--together", action="store_true", help="in one process: faster, and nvidia-smi's bytes are wrong"
    )
    given = parser.parse_args(arguments)
    wanted = chosen(given.names)
    if given.dry_run:
        print("\n".join(f"{one.name}: tfcalc {' '.join(one.arguments)}" for one in wanted))
        return 0
    failed = 0
    with given.output.open("w", encoding="utf-8") if given.output else StringIO() as written:
        for setting in wanted:
            text, error = (here if given.together else apart)(setting)
            failed += bool(error)
            written.write(text)
            written.flush()
            print(f"{setting.name}: {error or 'recorded'}", file=sys.stderr, flush=True)
        if isinstance(written, StringIO):
            print(written.getvalue(), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
