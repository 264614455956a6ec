"""Fit the rates of eager code on one GPU to recorded steps: python -m tools.fit_transformers [--rounds N] [--write].

Coordinate descent on the mean of |log(estimate / measured)| over steps that were timed on two H100s and an H200, as
tools.fit_rates does for layouts of many GPUs. The band is learned with whole models left out.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

from tests.conftest import recorded
from tfcalc import Training, Workload, load
from tfcalc.answers.train_run import RunOnCard, TrainQuestion
from tfcalc.hardware import named
from tfcalc.search.gpus import of_card
from tfcalc.timing.estimate import EAGER
from tfcalc.timing.rates import table
from tfcalc.training.peaks import Peaks
from tools.fit_rates import told, write

FIELDS = {
    "--batch": "batch_size",
    "--seq": "seq_len",
    "--precision": "precision",
    "--attention-kernel": "kernel",
    "--loop": "loop",
    "--checkpointing": "recompute",
    "--lora": "lora",
    "--lora-targets": "lora_targets",
    "--base-weights": "base_weights",
    "--backend": "backend",
}
OF_WORKLOAD = ("batch_size", "seq_len", "kernel", "recompute")
FITTED = ("product", "written", "call", "optimizer")
WITHIN = {"product": (0.4, 0.95)}
ROWS = tuple(f"memory/{name}.jsonl" for name in ("h100", "h100-unseen", "h100-again", "h200"))
"""What was recorded on three machines."""
GENERATION = "hopper"
"""Of the card that the steps ran on."""
COMPUTED = ("bf16", "fp16")
"""Number formats that an estimate is given for."""


class AsRecorded(RunOnCard):
    """A run that ran, whatever the verdict is."""

    @property
    def ran(self) -> tuple[Workload, Training]:  # without a verdict
        """The run and the plan."""
        assert self.question.workload is not None
        return self.question.workload, self.question.plan


class Step(NamedTuple):
    """A step that was timed: the model's name, the run, and its seconds."""

    model: str
    run: RunOnCard
    seconds: float

    def error(self, known: Mapping[str, Any]) -> float:
        """Return how far the estimate is off, as a share of what was measured."""
        return float(self.run.parts_by(known).seconds) / self.seconds - 1

    def waits(self, known: Mapping[str, Any]) -> bool:
        """Return whether the device waits for Python, by the estimate."""
        return bool(self.run.parts_by(known).host)


@cache
def steps() -> tuple[Step, ...]:
    """All of them whose number format is estimated, each once."""
    rows = {(file, row["run"].partition(",")[0]): row for file in ROWS for row in recorded(file)}
    found = (step_of(row) for row in rows.values())
    return tuple(step for step in found if step.run.format in COMPUTED)


def step_of(row: Mapping[str, Any]) -> Step:
    """Return the run of a row, as ``train`` asks about it."""
    name, words = row["arguments"][1], [word for word in row["arguments"][3:] if word != "--compile"]
    given = {FIELDS[key]: value for key, value in zip(words[::2], words[1::2], strict=True) if key in FIELDS}
    sizes: dict[str, Any] = {key: int(value) if value.isdigit() else value for key, value in given.items()}
    run = Workload(phase="train", **{key: value for key, value in sizes.items() if key in OF_WORKLOAD})
    compiled = "--compile" in row["arguments"]
    plan = Training(compile=compiled, **{key: value for key, value in sizes.items() if key not in OF_WORKLOAD})
    model = load(name)
    question = TrainQuestion(model, run, plan, tokens=1)
    card = "h200" if "H200" in row["card"] else "h100"
    run_on_card = AsRecorded(question, of_card(card), named(card)[0], Peaks(model))
    return Step(name, run_on_card, row["all_measured"]["step_seconds"])


def loss(found: Sequence[Step], known: Mapping[str, Any]) -> float:
    """Return the mean of |log(estimate / measured)|."""
    return sum(abs(math.log1p(step.error(known))) for step in found) / len(found)


def fitted(found: Sequence[Step], rounds: int) -> dict[str, Any]:
    """Return the rates, changed one after another, by less where nothing is gained."""
    known = deepcopy(dict(table()))
    sizes, best = dict.fromkeys(FITTED, 0.2), loss(found, known)
    for _ in range(rounds):
        for name, size in sizes.items():
            rates = place_of(name, known)
            before = rates[name]
            for factor in (1 + size, 1 / (1 + size)):
                low, high = WITHIN.get(name, (0, math.inf))
                rates[name] = min(max(before * factor, low), high)
                if (now := loss(found, known)) < best:
                    best = now
                    break
                rates[name] = before
            else:
                sizes[name] = size / 2
    return known


def place_of(name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a rate: that of the stack, or of the stack on this card's generation."""
    section: dict[str, Any] = known["stacks"][EAGER]
    return section if name in section else section[GENERATION]


def left_out(found: Sequence[Step], rounds: int) -> Iterator[tuple[Step, float]]:
    """Yield each step with its error by rates that were fitted without any step of its model."""
    by = defaultdict(list)
    for step in found:
        by[step.model].append(step)
    for model, own in by.items():
        known = fitted([step for step in found if step.model != model], rounds)
        yield from ((step, step.error(known)) for step in own)


def main() -> None:
    """Fit, report, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--left-out", type=int, default=0, help="rounds of a fit with each model left out")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    known = fitted(steps(), given.rounds)
    for step in steps():
        run, plan = step.run.ran
        how = f"{run.recompute} {plan.precision} {run.kernel} lora {plan.lora} {plan.base_weights} {plan.backend}"
        print(f"{step.error(known):+6.1%} {step.seconds:.4f} {step.model} {run.batch_size} x {run.seq_len} {how}")
    print({name: round(place_of(name, known)[name], 7) for name in FITTED})
    print(told([step.error(known) for step in steps()]))
    if given.left_out:
        print("left out:", told([error for _, error in left_out(steps(), given.left_out)]))
    if given.write:
        write(known)


if __name__ == "__main__":
    main()
