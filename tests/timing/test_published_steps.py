"""Seconds of published training steps, and the choice among layouts that were measured."""

from __future__ import annotations

import random
from collections import defaultdict
from statistics import median

import numpy as np
import pytest

import tfcalc
from tests import planning_runs
from tests.planning_runs import Row
from tfcalc.hardware import named
from tfcalc.search.axes import Axes
from tfcalc.search.layouts import Space, enumerate_layouts, evaluate
from tfcalc.timing.rates import machine_of, rates_of, table
from tfcalc.timing.step import Layouts, StepTime
from tfcalc.timing.work import work_of


def test_the_estimate_of_published_runs() -> None:
    """531 step times of 10 sources (tests/oracle/planning/runs.jsonl): the mean error is at most 11 %."""
    errors = [abs(planning_runs.error(row)) for row in planning_runs.timed()]
    assert len(errors) == 531
    assert sum(errors) / len(errors) <= 0.11
    assert sorted(errors)[len(errors) // 2] <= 0.07


def test_the_choice_among_measured_layouts() -> None:
    """Whoever takes the layout that is estimated fastest loses 2 % in the middle of all groups against the best one."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in planning_runs.timed():
        key = ("unit", "model", "gpu", "n_gpus", "global_batch", "seq", "precision")
        groups[tuple(row[name] for name in key)].append(row)
    regrets = []
    for rows in groups.values():
        if len(rows) >= 3:
            chosen = min(rows, key=lambda row: float(planning_runs.parts(row).seconds))
            regrets.append(chosen["step_time_s"] / min(row["step_time_s"] for row in rows) - 1)
    assert len(regrets) >= 20
    assert median(regrets) <= 0.02


def test_arrays_are_single_evaluations() -> None:
    """Of every layout of two models 300 drawn ones, one by one."""
    card = named("h100")[0]
    machine = machine_of(card)
    assert machine is not None
    for name, sequences in (("llama-3-8b", 128), ("mixtral-8x7b", 64)):
        work = work_of(tfcalc.load(name), 4096)
        rates = rates_of(machine.generation, "megatron")
        at = enumerate_layouts(Space(work, 64, sequences, Axes()), machine.domain)
        found, left_out = evaluate(work, at, machine, rates, "bf16", stack="megatron", room=None)
        assert left_out == 0
        for place in random.Random(7).sample(range(len(found.memory)), 150):
            alone = found.at(place).layouts
            again, _ = evaluate(work, alone, machine, rates, "bf16", stack="megatron", room=None)
            assert again.memory == pytest.approx(found.memory[place], rel=1e-12)
            assert again.seconds == pytest.approx(found.seconds[place], rel=1e-12)


def test_everything_divides() -> None:
    """No layout is enumerated twice, and each uses all GPUs and all sequences."""
    work = work_of(tfcalc.load("mixtral-8x7b"), 4096)
    at = enumerate_layouts(Space(work, 48, 96, Axes()), 8)
    assert np.all(at.tp * at.pp * at.cp * at.dp == 48)
    assert np.all(at.dp * at.micro_batch * at.batches == 96)
    assert np.all(32 % at.tp == 0)
    assert np.all(8 % at.ep == 0)
    rows = set(zip(*(np.broadcast_to(column, at.tp.shape) for column in at if column is not None), strict=True))
    assert len(rows) == at.tp.size


def test_no_estimate_is_below_the_floor() -> None:
    """FLOPs over the dense peak are certain: no estimate of a published run is faster."""
    for row in planning_runs.timed():
        if row["precision"] in ("bf16", "fp16"):
            tokens = row["global_batch"] * row["seq"]
            floor = planning_runs.work(row).flops * tokens / (planning_runs.machine(row).peak * row["n_gpus"])
            assert float(planning_runs.parts(row).seconds) > floor


@pytest.mark.parametrize("faster", [{"product": 2.0}, {"flash_forward": 2.0}, {"memory": 2.0}])
def test_faster_rates_take_no_longer(faster: dict[str, float]) -> None:
    """A rate that doubles makes no step slower."""
    machine = machine_of(named("h100")[0])
    assert machine is not None
    work = work_of(tfcalc.load("llama-3-8b"), 4096)
    rates = rates_of(machine.generation, "megatron")
    quick = rates._replace(**{name: getattr(rates, name) * times for name, times in faster.items()})
    at = Layouts(tp=2, pp=2, dp=2, batches=8)
    seconds = [float(StepTime(work, machine, by).parts(at).seconds) for by in (rates, quick)]
    assert seconds[1] < seconds[0]


def test_every_rate_is_used() -> None:
    """A rate that nobody reads would stand in the file for nothing: each changes some published run."""
    known = dict(table())
    for section in ("machine",):
        for name in known[section]:
            changed = {**known, section: {**known[section], name: known[section][name] * 1.5}}
            rows = planning_runs.timed()[::9]
            assert any(planning_runs.error(row, changed) != planning_runs.error(row) for row in rows), name
