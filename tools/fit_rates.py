"""Fit rates.toml to published runs: python -m tools.fit_rates [--write] [--rounds N].

Coordinate descent on the mean of |log(estimate / published)|, at most 0.6 for each run. A source counts by the root of
its runs, so that a hundred runs of one cluster do not outweigh ten clusters. The band of a class is learned with whole
sources left out: each source is estimated by rates fitted to all others. Rates that no other source tells stay as they
were (mixtures and B300 are Megatron-Bridge's alone), but for those that a stack has of its own.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from tests import planning_runs
from tests.planning_runs import Row
from tfcalc.timing.rates import TABLE, table

MOST = 0.6
"""A run that is further off counts no more than this: another thing was measured than is modelled."""
WITHIN = {
    "tensor": (0.1, 1.0),
    "experts": (0.1, 1.0),
    "hidden": (0.3, 1.0),
    "product": (0.3, 0.95),
    "blackwell.product": (0.45, 0.52),
    "fp8": (1.0, 2.0),
    "fp4": (1.0, 4.0),
    "eager": (0.2, 1.0),
    "optimizer": (0.002, 0.008),
    "host": (0.00117, 0.00117),
}
"""Bounds of rates, where physics or a measurement sets them. The least that passes of small layers take (``host``) is
told by vTrain's steps alone, which are not among the runs. No published step of a dense model in 16 bits on B200 is
among the runs; 514 measured products reach 0.485 of its peak (SimuMax 1.2, its B200 files), held by power."""

FEW = 10
"""Runs of a generation of GPUs that tell its rates, at least."""

Path = tuple[str, ...]
Tree = dict[str, Any]


def paths(known: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    """Where numbers stand, but for bands."""
    for key, value in known.items():
        if isinstance(value, dict) and key != "bands":
            yield from paths(value, (*above, key))
        elif isinstance(value, float):
            yield (*above, key)


def value_at(known: Tree, path: Path) -> float:
    """Return the rate at this path."""
    for key in path:
        known = known[key]
    return float(known)  # type: ignore[arg-type]


def put(known: Tree, path: Path, value: float) -> Tree:
    """Return the rates with another value at this path."""
    found = deepcopy(known)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return found


def touches(path: Path, row: Row) -> bool:
    """Whether this rate has a part in the run."""
    if path[0] == "generations":
        low = path[2] in ("fp8", "fp4") and path[2][2] not in row["precision"]
        return path[1] == planning_runs.machine(row).generation and not low
    return path[0] != "stacks" or path[1] == planning_runs.stack(row)


class Fit:
    """Rates for some runs."""

    def __init__(self, known: Tree, rows: Sequence[Row]) -> None:
        self.known, self.rows = known, rows
        sizes = Counter(row["unit"] for row in rows)
        self.weights = [1 / math.sqrt(sizes[row["unit"]]) for row in rows]
        self.losses = [self.loss(row, known) for row in rows]

    @staticmethod
    def loss(row: Row, known: Tree) -> float:
        """Return how far a run is off."""
        return min(abs(math.log1p(planning_runs.error(row, known))), MOST)

    @property
    def total(self) -> float:
        """Return the weighted mean."""
        return sum(w * loss for w, loss in zip(self.weights, self.losses, strict=True)) / sum(self.weights)

    def tried(self, path: Path, factor: float) -> bool:
        """Take the rate times this factor, if that is better."""
        value = value_at(self.known, path) * factor
        low, high = WITHIN.get(".".join(path[-2:]), WITHIN.get(path[-1], (0.0, math.inf)))
        if not low <= value <= high:
            return False
        known = put(self.known, path, value)
        losses = [
            self.loss(row, known) if touches(path, row) else old
            for row, old in zip(self.rows, self.losses, strict=True)
        ]
        gain = sum(w * (old - new) for w, old, new in zip(self.weights, self.losses, losses, strict=True))
        if gain <= 1e-6:
            return False
        self.known, self.losses = known, losses
        return True

    def run(self, rounds: int) -> Tree:
        """Change one rate after another, by less where nothing is gained."""
        steps = dict.fromkeys(paths(self.known), 0.12)
        for _ in range(rounds):
            for path, step in steps.items():
                better = [sign for sign in (1, -1) if self.tried(path, (1 + step) ** sign)]
                steps[path] = step if better else step / 2
        return self.known


def kind(row: Row) -> str:
    """The class of runs whose band is learned together."""
    if row["arch"]["E"]:
        return "experts"
    plain = planning_runs.stack(row) == "megatron" and planning_runs.machine(row).generation in ("ampere", "hopper")
    return "dense" if plain or planning_runs.stack(row) in ("deepspeed", "megatron-2022") else "other"


def report(rows: Sequence[Row], known: Tree) -> None:
    """Print the errors of each source and class."""
    by: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in rows:
        error = planning_runs.error(row, known)
        source = (row["unit"], row["gpu"], row["precision"], bool(row["arch"]["E"]))
        keys: tuple[tuple[object, ...], ...] = (("all",), (kind(row),), source)
        for key in keys:
            by[key].append(error)
    for key, errors in sorted(by.items(), key=str):
        print(f"{key!s:75} {told(errors)}")


def told(errors: Sequence[float]) -> str:
    """Return number, bias, mean, middle, ninth tenth and largest of the errors."""
    sizes = sorted(map(abs, errors))
    return (
        f"n={len(sizes):3} bias={sum(errors) / len(sizes):+6.1%} mean={sum(sizes) / len(sizes):5.1%} "
        f"p50={sizes[len(sizes) // 2]:5.1%} p90={sizes[int(0.9 * len(sizes))]:5.1%} most={sizes[-1]:5.1%}"
    )


def left_out(rows: Sequence[Row], known: Tree, rounds: int) -> dict[str, list[float]]:
    """Errors by class, each source by the rates of all others."""
    found: dict[str, list[float]] = defaultdict(list)
    for unit in dict.fromkeys(row["unit"] for row in rows):
        others = [row for row in rows if row["unit"] != unit]
        without = Fit(unseen(known, others), others).run(rounds)
        errors = [(row, planning_runs.error(row, without)) for row in rows if row["unit"] == unit]
        print(f"without {unit:30} {told([error for _, error in errors])}", flush=True)
        for row, error in errors:
            if foretold(row, others):
                found[kind(row)].append(error)
    return found


def foretold(row: Row, others: Sequence[Row]) -> bool:
    """Whether runs of other sources tell the rates of the row's GPUs; of experts none do, so that all count."""
    generation = planning_runs.machine(row).generation
    return bool(row["arch"]["E"]) or sum(planning_runs.machine(one).generation == generation for one in others) >= FEW


def unseen(known: Tree, rows: Sequence[Row]) -> Tree:
    """Return the rates without those that a stack has of a generation which none of these runs had with it."""
    seen = {(planning_runs.stack(row), planning_runs.machine(row).generation) for row in rows}
    stacks = {
        stack: {name: rate for name, rate in rates.items() if not isinstance(rate, dict) or (stack, name) in seen}
        for stack, rates in known["stacks"].items()
    }
    return {**known, "stacks": stacks}


def write(known: Tree) -> None:
    """The numbers into the file, which keeps its words."""
    text = TABLE.read_text(encoding="utf-8")
    section: tuple[str, ...] = ()
    lines = []
    for line in text.splitlines():
        if match := re.match(r"\[([\w.-]+)\]", line):
            section = tuple(match[1].split("."))
        elif (match := re.match(r"(\w+) = [\d.e-]+(.*)", line)) and section[:1] != ("bands",):
            line = f"{match[1]} = {value_at(known, (*section, match[1])):.4g}{match[2]}"
        lines.append(line)
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Fit, report, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--left-out", type=int, default=0, help="rounds of a fit with each source left out")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = planning_runs.timed()
    fit = Fit(deepcopy(dict(table())), rows)
    known = fit.run(given.rounds)
    report(rows, known)
    print(f"loss {fit.total:.4f}")
    if given.write:
        write(known)
    if given.left_out:
        for name, errors in left_out(rows, known, given.left_out).items():
            print(f"{name:10} {told(errors)}")


if __name__ == "__main__":
    main()
