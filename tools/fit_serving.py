"""Fit serving_rates.toml to published runs: python -m tools.fit_serving [--write] [--rounds N] [--only NAME].

Coordinate descent, engine by engine, on |log(estimate / published)| of a token, and of the first token where a batch is
static, at most 0.7 for each run. A system (source, model, GPU, engine) counts by the root of its runs. Runs that look
mis-recorded, those that send sums over PCIe, and those of which nobody knows how many requests ran at once, are left
out. The bands are learned with whole systems left out: each is estimated by rates fitted to all others of its engine,
from a start that those of other engines give, so that nothing of it is in them. ``--each FILE`` keeps these estimates.

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

from tests import serving_runs
from tests.serving_runs import Run
from tfcalc.timing.serving import RATES, EngineRates

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
    "experts": (0.0, 120e-6, 15e-6),
    "reduce": (2e-6, 40e-6, 5e-6),
    "host": (0.0, 6e-3, 0.5e-3),
    "request": (0.0, 100e-6, 10e-6),
    "first": (0.0, 0.4, 0.03),
    "queued": (0.0, 0.6, 0.05),
}
"""Bounds of each rate, and the first step; with the upper ones some operator reaches what the datasheet says."""
FIRST_OF_SERVED = 0.2
"""Weight of a first token under load, which is a queue."""


def parts_of(run: Run, by: EngineRates) -> list[tuple[str, float, float]]:
    """What of the run was measured: its kind, the estimate over it, and its weight."""
    found = []
    if run.token:
        seconds = run.model.parts(run.requests, by).seconds
        found.append((run.kind, max(seconds, run.floor_of_token) / run.token, 1.0))
    if run.first and run.row["mode"] != "llama-bench-tg":
        kind, weight = ("prompt", 1.0) if run.model.load.static else ("first", FIRST_OF_SERVED)
        seconds = run.model.first_token(run.requests, by)
        found.append((kind, max(seconds, run.floor_of_first) / run.first, weight))
    return found


class Fit:
    """Rates of one engine."""

    def __init__(self, runs: Sequence[Run], by: EngineRates) -> None:
        self.by = by
        sizes = Counter(run.row["unit"] for run in runs)
        places: Counter[str] = Counter()
        self.runs: list[tuple[Run, float]] = []
        for run in runs:
            unit = run.row["unit"]
            places[unit] += 1
            if places[unit] % -(-sizes[unit] // OF_A_SYSTEM) == 0:
                self.runs.append((run, 1 / math.sqrt(min(sizes[unit], OF_A_SYSTEM))))
        self.loss = self.of(by)

    def of(self, by: EngineRates) -> float:
        """Return how far all runs are off."""
        return sum(
            weight * share * min(abs(math.log(ratio)), MOST)
            for run, weight in self.runs
            for _, ratio, share in parts_of(run, by)
        )

    def run(self, rounds: int) -> EngineRates:
        """Change one rate after another, by less where nothing is gained."""
        steps = {name: step for name, (_, _, step) in WITHIN.items()}
        for _ in range(rounds):
            for name, step in steps.items():
                if not any(self.tried(name, sign * step) for sign in (1, -1)):
                    steps[name] = step / 2
        return self.by

    def tried(self, name: str, change: float) -> bool:
        """Take the changed rate, if that is better."""
        low, high, _ = WITHIN[name]
        value = min(max(getattr(self.by, name) + change, low), high)
        by = self.by._replace(**{name: value})
        loss = self.of(by)
        if loss >= self.loss - 1e-6:
            return False
        self.by, self.loss = by, loss
        return True


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


def of_others(rates: Mapping[str, EngineRates], name: str) -> EngineRates:
    """Rates to begin with that know nothing of an engine's runs: the middle of those of the other engines."""
    others = [by for other, by in rates.items() if other != name]
    return rates[name]._replace(**{rate: median(getattr(by, rate) for by in others) for rate in WITHIN})


def left_out(
    runs: Mapping[str, Sequence[Run]], rates: Mapping[str, EngineRates], rounds: int, target: Path | None = None
) -> None:
    """Print published over estimated by kind, each system by the rates of all others of its engine.

    The bands are of these, and so is how much of a system the band of all others covers.
    """
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    kept: list[dict[str, str | float]] = []
    for name, each in runs.items():
        errors: dict[str, list[float]] = defaultdict(list)
        for unit in dict.fromkeys(run.row["unit"] for run in each):
            by = Fit([run for run in each if run.row["unit"] != unit], of_others(rates, name)).run(rounds)
            for run in each:
                if run.row["unit"] == unit:
                    kept.append({"id": run.row["id"]})
                    for kind, ratio, _ in parts_of(run, by):
                        found[kind][unit].append(1 / ratio)
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
        print(f"    {told(1 / ratio for ratio in ratios)}; learned without a system it covers {covered(by_system):.0%}")


def tenths(ratios: Iterable[float]) -> tuple[float, float]:
    """Return the first and the last tenth."""
    ordered = sorted(ratios)
    return ordered[len(ordered) // 10], ordered[9 * len(ordered) // 10]


def covered(by_system: Mapping[str, Sequence[float]]) -> float:
    """Return the share of runs in the band that all systems but their own say."""
    inside = 0
    for system, ratios in by_system.items():
        others = [ratio for other, each in by_system.items() if other != system for ratio in each]
        low, high = tenths(others or ratios)
        inside += sum(low <= ratio <= high for ratio in ratios)
    return inside / sum(map(len, by_system.values()))


def write(rates: Mapping[str, EngineRates], runs: Mapping[str, Sequence[Run]]) -> None:
    """The numbers into the file, which keeps its words."""
    section, lines = "", []
    for line in RATES.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\[engines\.\"?([\w.-]+?)\"?\]", line):
            section = match[1]
        elif line.startswith("["):
            section = ""
        elif section in rates and (match := re.match(r"(\w+) = [\d.e-]+$", line)):
            name = match[1]
            if name in WITHIN:
                line = f"{name} = {getattr(rates[section], name):.3g}"
            elif name in ("rows", "units"):
                units = {run.row["unit"] for run in runs[section]}
                line = f"{name} = {len(units) if name == 'units' else len(runs[section])}"
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
                if m >= 2048 and 2 * m * n * k > 1e11:
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
                if tokens <= 64 and here > 3e7:
                    by[card.capability, "expert weights"].append(here / card.bandwidth / seconds)
                if tokens >= 4096 and flops > 1e11:
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
    rates = {}
    for name, each in runs.items():
        rates[name] = Fit(each, each[0].by).run(given.rounds if name in (given.only or runs) else 0)
        print(name, rates[name], flush=True)
    report(runs, rates)
    report_offline()
    if given.write:
        write(rates, runs)
    if given.left_out:
        left_out(runs, rates, given.left_out, given.each)


if __name__ == "__main__":
    main()
