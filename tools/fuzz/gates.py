"""Budgets held by the whole program: files that are right and files with slips, in each format."""

from __future__ import annotations

import json
import os
import random
import xml.etree.ElementTree as ET

from tools.fuzz.checks import look
from tools.fuzz.findings import FOUND
from tools.fuzz.program import WORK, Outcome, call
from tools.fuzz.toml_files import right, slipped

FORMS = ["table", "json", "csv", "markdown", "latex", "plain", "github", "junit", "sarif", "gitlab"]
IN_JSON = ("json", "sarif", "gitlab")
CONFIGS = {"configs/chat.json": {"model_type": "gpt2", "n_layer": 2}, "chat/config.json": {"model_type": "llama"}}


def gate(draw: random.Random) -> None:
    """``tfcalc budget`` over a file, in two formats: the same exit code, and what the format promises."""
    file = right(draw, answered=True)
    text = file.text if draw.random() < 0.6 else slipped(draw, file)
    folder = WORK / "gate"
    for name, config in CONFIGS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(config), encoding="utf-8")
    path = folder / ("pyproject.toml" if file.path == "pyproject.toml" else "tfcalc.toml")
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    more = draw.choice(
        ([], [], ["--today", draw.choice(("2026-12-31", "2027-06-01", "x", ""))], ["--model", "*"], ["-q"])
    )
    here = os.getcwd()
    os.chdir(folder)
    try:
        outcomes = {form: _held(form, more, text) for form in draw.sample(FORMS, 2)}
    finally:
        os.chdir(here)
        path.unlink()
    if len({outcome.code for outcome in outcomes.values()}) > 1:
        FOUND.bug("format-code", "another exit code in another format", (text, more, list(outcomes.items())))


def _held(form: str, more: list[str], text: str) -> Outcome:
    argv = ["budget", "--format", form, *more]
    outcome = call(argv)
    look(argv, outcome, env={"toml": text})
    if outcome.out and form in IN_JSON and "-q" not in more:
        try:
            json.loads(outcome.out, parse_constant=float.fromhex)  # it refuses NaN and Infinity
        except ValueError as error:
            FOUND.bug("json-invalid", f"budget --format {form}: {error}", (text, outcome.out[:300]))
    if outcome.out and form == "junit" and "-q" not in more:
        try:
            ET.fromstring(outcome.out)  # our own
        except ET.ParseError as error:
            FOUND.bug("format-junit", str(error), (text, outcome.out[:300]))
    return outcome
