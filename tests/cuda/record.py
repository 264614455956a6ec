"""``python -m tests.cuda.record -o rows.jsonl``: train small models on the first GPU, and write down what they took.

Each run is a process of its own, so that it begins with an empty card. The rows are those of
tests/oracle/memory/real-runs.jsonl (tests/real_runs.py). ``--dry-run`` prints the runs and the commands that ask tfcalc
about them; names choose some of the runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cuda.rows import rows
from tests.cuda.settings import Setting, settings


def chosen(names: Sequence[str]) -> list[Setting]:
    """The runs whose name begins with one of these; all, where none is given."""
    return [one for one in settings() if not names or one.name.startswith(tuple(names))]


def record(setting: Setting) -> str:
    """The rows of one run, as lines of JSON. This process is to be a fresh one."""
    from tests.cuda.training import machine, measured

    size = measured(setting)
    return "".join(json.dumps(row) + "\n" for row in rows(setting, size, machine()))


def main(arguments: Sequence[str]) -> int:
    """0 if all runs ran, 1 if one did not: a kernel that this card lacks, or too little memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.record", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="beginnings of names")
    parser.add_argument("-o", "--output", type=Path, help="a file to write to; default: standard output")
    parser.add_argument("--dry-run", action="store_true", help="print the runs, without PyTorch")
    parser.add_argument("--one", action="store_true", help="run in this process (what each process is asked)")
    given = parser.parse_args(arguments)
    wanted = chosen(given.names)
    if given.dry_run:
        print("\n".join(f"{one.name}: tfcalc {' '.join(one.arguments)}" for one in wanted))
        return 0
    if given.one:
        print(record(next(one for one in wanted if one.name in given.names)), end="")
        return 0
    lines, failed = [], 0
    for setting in wanted:
        command = [sys.executable, "-m", "tests.cuda.record", "--one", setting.name]
        ran = subprocess.run(command, capture_output=True, text=True)
        failed += ran.returncode != 0
        lines.append(ran.stdout)
        last = ran.stderr.strip().rpartition("\n")[2]
        print(f"{setting.name}: {last if ran.returncode else 'recorded'}", file=sys.stderr)
    text = "".join(lines)
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
