"""How often each command builds a tree and runs a model, and how many modules ``params`` imports.

``python -m benchmarks.builds`` prints a line for each command: trees that were built (not those that were remembered),
runs on a tape, and modules of tfcalc that were imported.
"""

from __future__ import annotations

import json
import subprocess
import sys

COMMANDS = (
    "params llama-3-8b --json",
    "params llama-3-8b",
    "flops llama-3-8b",
    "llama-3-8b",
    "memory llama-3-8b",
    "memory llama-3-8b --train",
    "memory llama-3-8b --train --gpu h100",
    "memory llama-3-8b --serve --gpu h100",
    "compare gpt2 gpt2-medium",
    "formula llama-3-8b",
)

CHILD = """
import contextlib, io, json, sys
from tfcalc.cli.main import main
counts = {"trees": 0, "runs": 0}

def counting(owner, method, name):
    original = getattr(owner, method)
    def counted(*args, **kwargs):
        counts[name] += 1
        return original(*args, **kwargs)
    setattr(owner, method, counted)

def patched():
    # what a command does not import, it does not build
    from tfcalc.configs.published import HFModel
    from tfcalc.tape.tape import Tape
    counting(HFModel, "_build", "trees")
    counting(Tape, "__init__", "runs")

bare = sys.argv[1] == "bare"
arguments = sys.argv[2:]
if not bare:
    patched()
sys.argv = ["tfcalc", *arguments]
silent = io.StringIO()
with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent), contextlib.suppress(SystemExit):
    main()
modules = sum(name.partition(".")[0] == "tfcalc" for name in sys.modules)
print(json.dumps({**counts, "modules": modules}))
"""


def ran(how: str, command: str) -> dict[str, int]:
    """What a process of its own counted."""
    made = subprocess.run(
        [sys.executable, "-c", CHILD, how, *command.split()], capture_output=True, text=True, check=True
    )
    found: dict[str, int] = json.loads(made.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    print(f"{'command':40} {'trees':>6} {'runs':>6} {'modules':>8}")
    for command in COMMANDS:
        counts, modules = ran("counted", command), ran("bare", command)["modules"]
        print(f"{command:40} {counts['trees']:6} {counts['runs']:6} {modules:8}")


if __name__ == "__main__":
    main()
