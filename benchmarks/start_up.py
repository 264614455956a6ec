"""Start-up of whole processes, as ratios to a typer hello-world in the same run.

``python benchmarks/start_up.py [ROUNDS]``. The commands are run in turn, A B C A B C …, so that a machine that slows
down slows all of them; the median of the round-by-round ratios is printed. Both programs have their bytecode cached, as
after any ordinary install. Promised: params --json at most 1.15, table 1.5, the overview of llama-3-8b 6; a published
model at most 1.25 times the classic one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HELLO = """
import typer
app = typer.Typer(rich_markup_mode=None)
@app.command()
def hello(name: str = "world") -> None:
    print("hello", name)
app()
"""

PROGRAM = str(Path(sys.executable).with_name("tfcalc"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "tfcalc --version": [PROGRAM, "--version"],
    "tfcalc params --json": [PROGRAM, "params", "--json"],
    "tfcalc params (table)": [PROGRAM, "params"],
    "tfcalc flops --json": [PROGRAM, "flops", "--json"],
    "tfcalc formula mha": [PROGRAM, "formula", "mha", "-q"],
    "tfcalc llama-3-8b": [PROGRAM, "llama-3-8b"],
    "tfcalc params -q": [PROGRAM, "params", "-q"],
    "tfcalc params llama-3-8b -q": [PROGRAM, "params", "llama-3-8b", "-q"],
    "tfcalc params gpt2 -q": [PROGRAM, "params", "gpt2", "-q"],
    "tfcalc params mixtral-8x7b -q": [PROGRAM, "params", "mixtral-8x7b", "-q"],
    "tfcalc params deepseek-v3 -q": [PROGRAM, "params", "deepseek-v3", "-q"],
}
CLASSIC = "tfcalc params -q"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: list[str], folder: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hello = Path(folder) / "hello.py"
        hello.write_text(HELLO, encoding="utf-8")
        ratios: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for arguments in COMMANDS.values():
            seconds(arguments, folder)  # compiled files and caches are warm
        baseline = []
        for _ in range(rounds):
            one = seconds([sys.executable, str(hello)], folder)
            baseline.append(one)
            for name, arguments in COMMANDS.items():
                ratios[name].append(seconds(arguments, folder) / one)
    print(f"typer hello-world: {1000 * median(baseline):.0f} ms, median of {rounds} on {os.cpu_count()} cores")
    for name, found in ratios.items():
        beside = median(mine / its for mine, its in zip(found, ratios[CLASSIC], strict=True))
        against = f", {beside:.2f} times {CLASSIC}" if name.endswith(" -q") and name.startswith(CLASSIC[:-2]) else ""
        print(f"{name:30} {median(found):.2f} times a typer hello-world{against}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
