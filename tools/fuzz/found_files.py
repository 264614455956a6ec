"""Settings files that are found and not named: in a repository, above it, and at home."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

from tfcalc.cli.commands import every
from tools.fuzz.checks import look
from tools.fuzz.findings import FOUND
from tools.fuzz.program import WORK, Outcome, call
from tools.fuzz.questions import option_value

VICTIM, KEPT = "keep.me", b"as it was\n"
RUNS = ("output", "module", "module_args", "args", "inputs", "update", "base", "file", "via", "checkpoint", "debug")
"""Keys that would write, run, or read what their author chose."""
QUESTIONS = (
    "params gpt2",
    "params gpt2 --json",
    "flops gpt2 --train",
    "memory gpt2 --train -q",
    "gpt2",
    "explain attention",
    "compare gpt2 bert-base-uncased",
    "sweep gpt2 --layers 1,2",
    "models",
    "budget",
    "verify",
)


def found_files(draw: random.Random) -> None:
    """A hostile settings file somewhere above: nothing is written, and above the repository it is not even read."""
    outer = WORK / "found"
    shutil.rmtree(outer, ignore_errors=True)
    repository = outer / "repository"
    below = repository / draw.choice(("", "below", "below/deeper"))
    below.mkdir(parents=True)
    (outer / VICTIM).write_bytes(KEPT)
    kind = draw.choice(("folder", "file", "none"))
    if kind == "folder":
        (repository / ".git").mkdir()
    elif kind == "file":
        (repository / ".git").write_text("gitdir: elsewhere\n", encoding="utf-8")
    place = draw.choice((outer, repository, below))
    path = place / draw.choice(("tfcalc.toml", "tfcalc.toml", "pyproject.toml"))
    text = _text(draw, outer / VICTIM)
    path.write_text(("[tool.tfcalc]\n" if path.name == "pyproject.toml" else "") + text, encoding="utf-8")
    argv = draw.choice(QUESTIONS).split()
    outcome = _called(argv, below)
    look(argv, outcome, env={"toml": text, "where": str(path), "repository": kind})
    if (outer / VICTIM).read_bytes() != KEPT:
        FOUND.bug("overwritten", "a found file wrote another", (argv, text, str(path)))
    left = sorted(one.name for one in outer.rglob("*") if one.name not in (VICTIM, path.name, ".git"))
    if left != sorted({"repository", *below.relative_to(repository).parts}):
        FOUND.bug("overwritten", "a found file made another", (argv, text, left))
    if place == outer and kind != "none":
        path.unlink()
        if _called(argv, below)[:3] != outcome[:3]:
            FOUND.bug("found-above", "a file above the repository changes the answer", (argv, text))


def _text(draw: random.Random, victim: Path) -> str:
    """Some keys: those that would write or run, with the victim's place, and others."""
    places = (str(victim), f"../{VICTIM}", f"../../{VICTIM}", "out", "-", "")
    lines = []
    for _ in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.6:
            lines.append(f"{draw.choice(RUNS)} = {draw.choice((json.dumps(draw.choice(places)), 'true'))}")
        else:
            option = draw.choice([one for one in every() if one.flags])
            value = option_value(draw, option, 0.1).encode("utf-8", "replace").decode()
            lines.append(f"{draw.choice(option.keys)} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(dict.fromkeys(lines)).replace("\x7f", "") + "\n"


def _called(argv: list[str], folder: Path) -> Outcome:
    here = os.getcwd()
    os.chdir(folder)
    try:
        return call(argv)
    finally:
        os.chdir(here)
