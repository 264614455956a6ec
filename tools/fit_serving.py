"""Fit serving_rates.toml to published runs: python -m tools.fit_serving [--write] [--rounds N] [--only NAME].

Coordinate descent, over the engines that share rates together, on |log(estimate / published)| of a token, and of the
first token where a batch is static, at most 0.7 for each run. A system (source, model, GPU, engine) counts by the root
of its runs. Runs that look mis-recorded, those that send sums over PCIe, and those of which nobody knows how many
requests ran at once, are left out. The bands are learned with whole systems left out: each is estimated by rates fitted
to all others, from round numbers, so that nothing of it is in them. ``--each FILE`` keeps these estimates.

``--operators FILE`` prints the medians of a table of operators, of which the rates of operators are.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from tests import serving_runs
from tests.serving_runs import Run
from tfcalc.timing.numbers import Many, larger
from tfcalc.timing.serving import RATES, EngineRates, engine_of, rates_table

K = TypeVar("K")
System = tuple[str, str]
"""An engine's name, and a system that it was run on: model, GPU, source."""
NONE: System = ("", "")
MOST = 0.7
"""A run that is further off counts no more than this."""
OF_A_SYSTEM = 60
"""Runs of one system that the fit reads; more of them say the same."""
WITHIN = {
    "memory": (0.5, 1.16, 0.12),
    "products": (0.2, 1.3, 0.2),
    "prompts": (0.25, 1.3, 0.15),
    "expert_prompts": (0.15, 1.3, 0.15),
    "layer": (0.0, 150e-6, 15e-6),
    "further": (0.0, 30e-6, 3e-6),
    "experts": (0.0, 120e-6, 15e-6),
    "reduce": (2e-6, 40e-6, 5e-6),
    "host": (0.0, 6e-3, 0.5e-3),
    "request": (0.0, 100e-6, 10e-6),
    "first": (0.0, 0.4, 0.03),
    "grows": (0.0, 1.0, 0.1),
    "queued": (0.0, 0.6, 0.05),
}
"""Bounds of each rate, and the first step; with the upper ones some operator reaches what the datasheet says."""
START = {
    "memory": 1.0,
    "products": 1.0,
    "prompts": 1.0,
    "expert_prompts": 0.5,
    "layer": 30e-6,
    "further": 5e-6,
    "experts": 20e-6,
    "reduce": 8e-6,
    "host": 0.5e-3,
    "request": 15e-6,
    "first": 0.05,
    "grows": 0.0,
    "queued": 0.1,
}
"""Rates to begin with where a system is left out: round numbers, and operators as they were measured."""
SHARED = "shared"
GIVEN = {("trtllm", "prompts"), *((name, "grows") for name in rates_table()["engines"] if name != "sglang")}
"""Rates that no fit changes: those that runs of offline.csv say, which are always full, and what no other system left
out is nearer with."""
SYSTEMS = 3
"""Systems that tell what an engine does: of fewer it may be their own."""
FIRST_OF_SERVED = 0.2
"""Weight of a first token under load, which is a queue."""


def parts_of(run: Run, by: EngineRates) -> list[tuple[str, Many, float]]:
    """What of the run was measured: its kind, the estimate over it (one for each of the rates), and its weight."""
    found: list[tuple[str, Many, float]] = []
    if run.token:
        seconds = run.model.parts(run.requests, by).seconds
        found.append((run.kind, larger(seconds, run.floor_of_token) / run.token, 1.0))
    if run.first and run.row["mode"] != "llama-bench-tg":
        kind, weight = ("prompt", 1.0) if run.model.load.static else ("first", FIRST_OF_SERVED)
        seconds = run.model.first_token(run.requests, by)
        found.append((kind, larger(seconds, run.floor_of_first) / run.first, weight))
    return found


class Fit:
    """Rates of engines, some of which are the same for all of them: those that no engine's section of the file has.

    Several fits side by side, each without the system of its ``leaving``: a rate is an array with one for each fit, so
    that the formulas of a run are gone through once for all of them.
    """

    def __init__(
        self, runs: Mapping[str, Sequence[Run]], rates: Mapping[str, EngineRates], leaving: Sequence[System]
    ) -> None:
        ones = np.ones(len(leaving))
        self.rates = {
            name: by._replace(**{rate: getattr(by, rate) * ones for rate in WITHIN}) for name, by in rates.items()
        }
        self.runs = {
            name: [
                (run, weight * np.array([system != (name, run.row["unit"]) for system in leaving]))
                for run, weight in weighted(each)
            ]
            for name, each in runs.items()
        }
        self.losses = {name: self.of(name, by) for name, by in self.rates.items()}

    def of(self, name: str, by: EngineRates) -> Many:
        """Return how far all runs of an engine are off."""
        return sum(
            weight * share * np.minimum(abs(np.log(ratio)), MOST)
            for run, weight in self.runs[name]
            for _, ratio, share in parts_of(run, by)
        )

    def run(self, rounds: int) -> dict[str, EngineRates]:
        """Change one rate after another, by less where nothing is gained."""
        every = tuple(self.rates)
        varied = []
        for rate in WITHIN:
            shared = tuple(name for name in every if is_shared(name, rate))
            varied += [(shared, rate)] if len(shared) > 1 and rate != "products" else []
            varied += [((name,), rate) for name in every if name not in shared and (name, rate) not in GIVEN]
        steps: dict[tuple[tuple[str, ...], str], Many] = {each: WITHIN[each[1]][2] for each in varied}
        for _ in range(rounds):
            for (names, rate), step in steps.items():
                up = self.tried(names, rate, step)
                down = self.tried(names, rate, np.where(up, 0.0, -step))
                steps[names, rate] = np.where(up | down, step, step / 2)
        return self.rates

    def tried(self, names: Sequence[str], rate: str, change: Many) -> Many:
        """Take the changed rate of these engines where that is better; return where it is."""
        low, high, _ = WITHIN[rate]
        before = getattr(self.rates[names[0]], rate)
        value = np.clip(before + change, low, high)
        both = rate == "prompts" and is_shared(names[0], "products")  # of tokens and of prompts
        rates = ("prompts", "products") if both else (rate,)
        changed = {name: self.rates[name]._replace(**dict.fromkeys(rates, value)) for name in names}
        losses = {name: self.of(name, by) for name, by in changed.items()}
        better = sum(losses.values()) < sum(self.losses[name] for name in names) - 1e-6
        for name in names:
            known = self.rates[name]
            taken = {each: np.where(better, value, getattr(known, each)) for each in rates}
            self.rates[name] = known._replace(**taken)
            self.losses[name] = np.where(better, losses[name], self.losses[name])
        return better

    def one(self, name: str, place: int) -> EngineRates:
        """Rates of an engine by the fit at this place."""
        by = self.rates[name]
        rates: dict[str, Any] = {rate: float(getattr(by, rate)[place]) for rate in WITHIN}
        return by._replace(**rates)


def weighted(runs: Sequence[Run]) -> list[tuple[Run, float]]:
    """Return the runs that a fit reads, each with its weight."""
    sizes = Counter(run.row["unit"] for run in runs)
    places: Counter[str] = Counter()
    found = []
    for run in runs:
        unit = run.row["unit"]
        places[unit] += 1
        if places[unit] % -(-sizes[unit] // OF_A_SYSTEM) == 0:
            found.append((run, 1 / math.sqrt(min(sizes[unit], OF_A_SYSTEM))))
    return found


def is_shared(name: str, rate: str) -> bool:
    """Return whether an engine has no such rate of its own."""
    return rate not in rates_table()["engines"][name]


def groups(names: Iterable[str]) -> list[list[str]]:
    """Engines that share rates, together, and each other one alone."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found["" if is_shared(name, "memory") else name].append(name)
    return list(found.values())


def told(ratios: Iterable[float]) -> str:
    """Return number, middle and mean of the errors."""
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    return f"n={len(errors):4} median={errors[len(errors) // 2]:5.1%} mean={sum(errors) / len(errors):5.1%}"


def report(runs: Mapping[str, Sequence[Run]], rates: Mapping[str, EngineRates]) -> None:
    """Print the errors by engine and kind."""
    by: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name, each in runs.items():
        for run in each:
            for kind, ratio, _ in parts_of(run, rates[name]):
                token = "first" if kind in ("prompt", "first") else "a token"
                for key in ((name, kind), ("all", token)):
                    by[key].append(ratio)
    for key, ratios in sorted(by.items()):
        print(f"{key!s:36} {told(ratios)} middle={median(ratios):.2f}", flush=True)


def report_offline() -> None:
    """Print the errors of whole systems that are always full."""
    every = serving_runs.offline()
    for name in dict.fromkeys(run.row["model"] for run in every):
        print(f"offline: {name:15} {told(run.estimate / run.measured for run in every if run.row['model'] == name)}")


def left_out(runs: Mapping[str, Sequence[Run]], rounds: int, target: Path | None = None) -> None:
    """Print published over estimated by kind, each system by the rates of all others.

    The bands are of these, and so is how much of a system the band of all others covers.
    """
    found: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    kept: list[dict[str, str | float]] = []
    for group in groups(runs):
        systems = [(name, unit) for name in group for unit in dict.fromkeys(run.row["unit"] for run in runs[name])]
        fit = Fit({name: runs[name] for name in group}, {name: beginning(name) for name in group}, systems)
        fit.run(rounds)
        for name in group:
            errors: dict[str, list[float]] = defaultdict(list)
            for run in runs[name]:
                unit = run.row["unit"]
                kept.append({"id": run.row["id"]})
                for kind, ratio, _ in parts_of(run, fit.one(name, systems.index((name, unit)))):
                    found[kind][name, unit].append(1 / ratio)
                    errors[kind].append(ratio)
                    first = kind in ("prompt", "first")
                    measured = run.first if first else run.token
                    assert measured
                    kept[-1]["ttft_ms" if first else "tpot_ms"] = round(1000 * ratio * measured, 4)
            for kind, ratios in sorted(errors.items()):
                print(f"left out: {name:12} {kind:14} {told(ratios)}", flush=True)
    if target is not None:
        target.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    for kind, by_system in sorted(found.items()):
        ratios = [ratio for each in by_system.values() for ratio in each]
        low, high = tenths(ratios)
        print(f"[bands.{kind}] low = {low:.2f} high = {high:.2f} rows = {len(ratios)} units = {len(by_system)}")
        print(f"    {told(1 / ratio for ratio in ratios)}; learned without a system it covers {covered(by_system)}")


def beginning(name: str) -> EngineRates:
    """Rates of an engine that no run gave, but for those that other runs say."""
    given = {rate for each, rate in GIVEN if each == name}
    given |= {"products"} if "prompts" in given else set()
    start: dict[str, Any] = {rate: value for rate, value in START.items() if rate not in given}
    return by_file(name)._replace(**start)


def by_file(name: str) -> EngineRates:
    """Rates of an engine as they are in the file."""
    era = rates_table()["engines"][name]
    found = engine_of(f"{era['engine']}@{era['since']}")
    assert found is not None
    return found


def tenths(ratios: Iterable[float]) -> tuple[float, float]:
    """Return the first and the last tenth."""
    ordered = sorted(ratios)
    return ordered[len(ordered) // 10], ordered[9 * len(ordered) // 10]


def covered(by_system: Mapping[K, Sequence[float]]) -> str:
    """Say which share of runs is in the band that all systems but their own say; of systems that count once, too."""
    inside = []
    for system, ratios in by_system.items():
        others = [ratio for other, each in by_system.items() if other != system for ratio in each]
        low, high = tenths(others or ratios)
        inside.append((sum(low <= ratio <= high for ratio in ratios), len(ratios)))
    runs = sum(here for here, _ in inside) / sum(number for _, number in inside)
    systems = sum(here / number for here, number in inside) / len(inside)
    return f"{runs:.0%}, {systems:.0%} where a system counts once"


def fewest(runs: Iterable[Run]) -> int:
    """Return the fewest requests at once of which some systems tell a first token of a server; 0 where none do."""
    systems: dict[int, set[str]] = defaultdict(set)
    for run in runs:
        if run.first and not run.model.load.static:
            systems[run.requests].add(run.row["unit"])
    return min((requests for requests, units in systems.items() if len(units) >= SYSTEMS), default=0)


def write(rates: Mapping[str, EngineRates], runs: Mapping[str, Sequence[Run]]) -> None:
    """The numbers into the file, which keeps its words."""
    section, lines = "", []
    for line in RATES.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\[engines\.\"?([\w.-]+?)\"?\]", line):
            section = match[1]
        elif line.startswith("["):
            section = line.strip("[]")
        elif section == SHARED and (match := re.match(r"(\w+) = [\d.e-]+$", line)):
            of = next(by for name, by in rates.items() if is_shared(name, "memory"))
            line = f"{match[1]} = {getattr(of, match[1]):.3g}"
        elif section in rates and (match := re.match(r"(\w+) = [\d.e-]+$", line)):
            name = match[1]
            if name in WITHIN:
                line = f"{name} = {getattr(rates[section], name):.3g}"
            elif name in ("rows", "units", "fewest"):
                units = {run.row["unit"] for run in runs[section]}
                counted = {"rows": len(runs[section]), "units": len(units), "fewest": fewest(runs[section])}
                line = f"{name} = {counted[name]}"
        lines.append(line)
    RATES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def usable() -> dict[str, list[Run]]:
    """Runs by their engine's name in the file."""
    found: dict[str, list[Run]] = defaultdict(list)
    for row in serving_runs.rows():
        run = None if row["suspect"] else serving_runs.run_of(row)
        if run is not None and run.linked and run.runs_known:
            found[run.by.name].append(run)
    return found


# --- operators

LONG = 1e-4
"""Seconds of an operation's bytes or products at the datasheet's rate, beyond which its launch does not count."""
BITS = {"bfloat16": 16, "fp16": 16, "fp8": 8, "fp8_block": 8, "nvfp4": 4}


def operators(path: Path) -> None:
    """Print the medians of measured operators, by a GPU's capability."""
    by: dict[tuple[str, str], list[float]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            card = serving_runs.cards().get(row["gpu"])
            if card is None or not row["latency_us"] or (row["op"] == "gemm" and row["dtype"] not in BITS):
                continue
            seconds = float(row["latency_us"]) * 1e-6
            sizes = dict(pair.split("=") for pair in row["shape"].split(";") if re.fullmatch(r"\w+=[\d.]+", pair))
            bits = BITS.get(row["dtype"], 16)
            peak = max(
                (
                    card.peaks[name]
                    for name in ("bf16", "fp16", "fp8", "fp4")
                    if name in card.peaks and int(name[2:]) == bits
                ),
                default=0.0,
            )
            if row["op"] == "gemm" and peak:
                m, n, k = (float(sizes[name]) for name in "mnk")
                moved = n * k * bits / 8 + 2 * m * (n + k)
                if m >= 2048 and 2 * m * n * k > LONG * peak:
                    by[card.capability, f"products {bits}"].append(2 * m * n * k / peak / seconds)
                if m <= 64 and n * k * bits / 8 >= 60e6:
                    by[card.capability, f"weights {bits}"].append(moved / card.bandwidth / seconds)
            elif row["op"] == "decode-attention" and row["gb_s"] and float(row["gb_s"]) * seconds >= 0.2:
                by[card.capability, "cache"].append(float(row["gb_s"]) * 1e9 / card.bandwidth)
            elif row["op"] == "prefill-attention" and row["tflops"] and float(row["tflops"]) * seconds >= 0.2:
                by[card.capability, "attention"].append(float(row["tflops"]) * 1e12 / card.peaks["bf16"])
            elif row["op"] == "moe" and peak and "balanced" in row["shape"]:
                tokens, h, f, k, every, tp, ep = (float(sizes[n]) for n in ("tokens", "h", "f", "k", "E", "tp", "ep"))
                here = every / ep * (1 - (1 - k / every) ** tokens) * 3 * h * f / tp * bits / 8
                flops = 6 * tokens * k / ep * h * f / tp
                if tokens <= 64 and here > LONG * card.bandwidth:
                    by[card.capability, "expert weights"].append(here / card.bandwidth / seconds)
                if tokens >= 4096 and flops > LONG * peak:
                    by[card.capability, f"expert products {bits}"].append(flops / peak / seconds)
    for key, shares in sorted(by.items()):
        print(f"{key!s:40} n={len(shares):4} median={median(shares):.2f}")


def main() -> None:
    """Fit, report, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="names of the engines to fit, as in the file; all others stay")
    parser.add_argument("--left-out", type=int, default=0, help="rounds of a fit with each system left out")
    parser.add_argument("--each", type=Path, help="keep the estimates of systems left out in this file")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--operators", type=Path, help="a table of measured operators, gzipped CSV")
    given = parser.parse_args()
    if given.operators:
        operators(given.operators)
        return
    runs = usable()
    rates: dict[str, EngineRates] = {}
    for group in groups(runs):
        rounds = given.rounds if not {*group}.isdisjoint(given.only or runs) else 0
        begin = {name: by_file(name) for name in group}
        fit = Fit({name: runs[name] for name in group}, begin, [NONE])
        fit.run(rounds)
        for name in group:
            rates[name] = fit.one(name, 0)
            print(name, rates[name], flush=True)
    report(runs, rates)
    report_offline()
    if given.write:
        write(rates, runs)
    if given.left_out:
        left_out(runs, given.left_out, given.each)


if __name__ == "__main__":
    main()
