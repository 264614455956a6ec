"""The generated tables of docs/accuracy.md: ``<!-- accuracy TABLE -->`` to ``<!-- end -->``.

What was held against PyTorch is read where it is recorded: the exceptions in the tests that make the comparison, the
errors in measured.csv, the recorded numbers in tests/oracle, the versions in .ci/torch. Published steps of training are
estimated anew (:mod:`tests.planning_runs`).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from math import isfinite
from pathlib import Path

from tests import planning_runs
from tests.verify.random_configs import load
from tests.verify.test_against_transformers import NO_DEFAULT
from tests.verify.test_flops_against_transformers import UNEQUAL
from tfcalc.configs.config import model_types
from tfcalc.configs.family import find
from tfcalc.training.measured import MOST, errors
from tools.fit_rates import kind

LEAST_SHOWN = 5e-5
"""What two decimals of a percentage show."""
TOP = Path(__file__).parents[1]
ORACLE = TOP / "tests" / "oracle"
PINNED = re.compile(r"\b(torch|transformers)==([\d.]+)")
NAMES = {"torch": "PyTorch", "transformers": "transformers"}


def versions() -> Iterator[str]:
    """What it was held against."""
    pinned = dict(PINNED.findall((TOP / ".ci" / "torch").read_text(encoding="utf-8")))
    yield "Versions: " + ", ".join(f"{NAMES[name]} {version}" for name, version in pinned.items()) + "."


def summary() -> Iterator[str]:
    """How many families agree, by what was compared."""
    compared = _compared()
    measured = [error for classes in errors().values() for error in classes.values()]
    exact = sum(error == 0 for error in measured)
    close = sum(0 < abs(error) <= MOST for error in measured)
    yield "| compared | families, or classes | equal | not equal |"
    yield "| --- | ---: | ---: | --- |"
    yield f"| parameters, each tensor by its name and shape | {len(compared)} | {len(compared)} | none |"
    equal = len(compared) - len(UNEQUAL)
    yield f"| FLOPs, forward and backward | {len(compared)} | {equal} | {', '.join(f'`{name}`' for name in UNEQUAL)} |"
    rest = f"{close} within {MOST:.0%}; {len(measured) - exact - close} farther off, and refused"
    yield f"| bytes saved for backward, {len(errors())} families | {len(measured)} classes | {exact} | {rest} |"


def families() -> Iterator[str]:
    """Every family: how its numbers compare."""
    yield "| `model_type` | default class | parameters | FLOPs, forward and backward | saved for backward |"
    yield "| --- | --- | --- | --- | --- |"
    compared = _compared()
    for name in sorted(compared | errors().keys()):
        params = "not compared" if name not in compared else "equal, random configs" if name in NO_DEFAULT else "equal"
        flops = "not compared" if name not in compared else UNEQUAL.get(name, "equal")
        yield f"| `{name}` | `{find(name).architecture}` | {params} | {flops} | {_by_error(name)} |"


def alone() -> Iterator[str]:
    """Model types that are counted and stand in no comparison of their own."""
    known = set(model_types())
    rest = sorted(known - _compared() - errors().keys())
    yield f"{len(rest)} of {len(known)} model types: {', '.join(f'`{name}`' for name in rest)}."


def _compared() -> set[str]:
    known = set(model_types())
    return known & load().keys()


def _by_error(model_type: str) -> str:
    """``equal: BertForMaskedLM, BertForTokenClassification; -0.07%: BertModel``."""
    found: dict[str, list[str]] = {}
    for architecture, error in sorted(errors().get(model_type, {}).items(), key=lambda each: abs(each[1])):
        found.setdefault(_saved(error), []).append(f"`{architecture}`")
    return "; ".join(f"{said}: {', '.join(names)}" for said, names in found.items()) or "not compared: refused"


def _saved(error: float) -> str:
    if error == 0:
        return "equal"
    if not isfinite(error):
        return "refused, as layers of one kind save unequal bytes"
    if abs(error) > MOST:
        return f"refused, {error:+.0%}"
    return f"{error:+.2%}" if abs(error) >= LEAST_SHOWN else f"{error:+.4%}"


def recorded() -> Iterator[str]:
    """The recorded numbers that the tests read, with their provenance."""
    yield "| file of tests/oracle | rows | what, and from where |"
    yield "| --- | ---: | --- |"
    for line in (ORACLE / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            files, _, what = (cell.strip() for cell in line.strip("|").split("|"))
            counts = [_rows(ORACLE / name) for name in re.findall(r"`([^`]+)`", files)]
            yield f"| {files} | {', '.join(map(str, counts))} | {what} |"


def steps() -> Iterator[str]:
    """Seconds of published training steps: how far the estimate is off, by source and by class."""
    yield "| source, or class of its band | steps | bias | mean | middle | nine of ten within |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    rows = planning_runs.timed()
    found = [planning_runs.error(row) for row in rows]
    for names in ([row["unit"] for row in rows], list(map(kind, rows)), ["all"] * len(rows)):
        by: dict[str, list[float]] = {}
        for name, error in zip(names, found, strict=True):
            by.setdefault(name, []).append(error)
        for name in sorted(by):
            errors, sizes = by[name], sorted(map(abs, by[name]))
            bias, mean = sum(errors) / len(errors), sum(sizes) / len(sizes)
            ends = (sizes[place * len(sizes) // 10] for place in (5, 9))
            shown = " | ".join(f"{100 * size:.1f}" for size in (mean, *ends))
            yield f"| {name} | {len(sizes)} | {100 * bias:+.1f} | {shown} |"


def impossible() -> Iterator[str]:
    """Published steps that are left out, as no GPUs can have run their layout."""
    for row in planning_runs.rows():
        if "micro_batch" in row and (why := planning_runs.impossible(row)):
            yield f"* {row['unit']}, {row['model']} on {row['n_gpus']:,} {row['gpu']}, {row['seq']:,} tokens: {why}."


def _rows(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return len(json.loads(text))
    if path.suffix == ".csv":
        return len(list(csv.reader(text.splitlines()))) - 1
    return sum(bool(line.strip()) and not line.startswith("#") for line in text.splitlines())


TABLES = {
    "versions": versions,
    "summary": summary,
    "families": families,
    "alone": alone,
    "steps": steps,
    "impossible": impossible,
    "recorded": recorded,
}
