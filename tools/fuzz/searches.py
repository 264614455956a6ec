"""Questions turned around, by the command line: a size for a condition, shapes for a budget, a table of sizes."""

from __future__ import annotations

import random

from tools.fuzz.checks import look, whole
from tools.fuzz.conditions import CONDITIONS, UNKNOWNS
from tools.fuzz.configs import PRESETS, TYPES, base_of, encoded
from tools.fuzz.material import GPUS, NUMBERS
from tools.fuzz.mutations import edited
from tools.fuzz.program import call
from tools.fuzz.questions import RANGES, classic, random_options

BUDGETS = {
    "--params": ("125M", "7B", "1", "1e12", "70B"),
    "--flops": ("1e12", "1e15", "1", "3.14e23"),
    "--flops-per-token": ("2e9", "1e30"),
    "--memory": ("24GiB", "80GB", "1GB", "1TB", "0GB"),
    "--compute": ("1e21", "5.76e23", "1", "1e30"),
}
SWEPT = ("--seq", "--batch", "--d-model", "--layers", "--heads", "--context")


def searches(draw: random.Random) -> None:
    """Mostly with an answer, perhaps with an option of any kind beside."""
    name = draw.choice(("solve", "solve", "design", "sweep", "plot"))
    argv, stdin = [name], b""
    if name == "solve":
        condition = draw.choice(CONDITIONS)
        argv += [edited(draw, condition, list(CONDITIONS)) if draw.random() < 0.3 else condition]
        argv += ["--for", draw.choice(UNKNOWNS)]
    elif name == "design":
        flag = draw.choice([*BUDGETS])
        argv += [flag, draw.choice(BUDGETS[flag] if draw.random() < 0.9 else NUMBERS)]
    else:
        argv += [draw.choice(SWEPT), draw.choice(RANGES)]
    kind = draw.random()
    if kind < 0.3:
        argv += ["--model", draw.choice(PRESETS)]
    elif kind < 0.4:
        argv, stdin = [*argv, "--model", "-"], encoded(base_of(draw.choice(TYPES)))
    elif kind < 0.5:
        argv += classic(draw)
    if draw.random() < 0.3:
        argv += draw.choice((["--train"], ["--serve"], ["--train", "--gpu", draw.choice(GPUS)], ["--phase", "decode"]))
    if draw.random() < 0.3:
        argv += random_options(draw, name, 1, 0.3)
    if draw.random() < 0.5:
        argv.append("--json")
    if any(one.startswith(("-o", "--output", "--base")) for one in argv):
        return
    outcome = call(argv, stdin=stdin)
    look(argv, outcome, stdin=stdin)
    if outcome.ok and argv[-1] == "--json" and outcome.out.startswith(b"{"):
        whole(outcome.out.decode(), argv, stdin)
