"""Constants that are fitted to some runs of a source, and runs of the same source that the fit has not seen."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import planning_runs
from tests.planning_runs import FILE, Row
from tests.schemas.questions import ROOT
from tfcalc.cli.commands.calibrate import described
from tfcalc.errors import BadFile
from tfcalc.timing.calibration import Calibration, choose_stacks, clearly_closer, parts, solved
from tfcalc.timing.estimate import CALIBRATED, band_of
from tfcalc.timing.measured_runs import MeasuredRun, read_runs
from tfcalc.timing.rates import table
from tfcalc.timing.rates_file import read_rates, written

NEMO = "NeMo long sequence"


@cache
def runs_of(unit: str) -> list[MeasuredRun]:
    rows = [row for row in planning_runs.timed() if row["unit"] == unit]
    return read_runs([(str(row["id"]), row) for row in rows], described)[0]


def off(**changes: float) -> Mapping[str, Any]:
    """Rates of a machine that nobody fitted: those of rates.toml, times these."""
    known = deepcopy(dict(table()))
    sections = [*known["generations"].values(), known["machine"], *known["stacks"].values()]
    sections += [inner for stack in known["stacks"].values() for inner in stack.values() if isinstance(inner, dict)]
    for section in sections:
        for name, times in changes.items():
            if name in section:
                section[name] *= times
    return known


@pytest.mark.parametrize(
    ("unit", "changes"),
    [
        ("BigScience topology", {"product": 0.6}),
        ("llm-foundry MPT A100-40", {"flash_forward": 0.5, "flash_backward": 0.5, "memory": 0.5}),
        ("InternEvo 7B A100", {"network": 0.35, "hidden": 0.5}),
    ],
)
def test_twelve_runs_bring_the_rest_of_a_source_close(unit: str, changes: dict[str, float]) -> None:
    """The rest is within 14 % on average, where the rates that one starts from are of another machine."""
    runs = runs_of(unit)
    fitted = [runs[place * len(runs) // 12] for place in range(12)]
    rest = [run for run in runs if run not in fitted][::4]
    known = off(**changes)
    calibration = Calibration(fitted, known)
    assert len(calibration.factors) <= 6
    of_rest = Calibration(rest, known)
    before = of_rest.errors(of_rest.before)
    after = of_rest.errors([of_rest.seconds(place, calibration.fit.factors) for place in range(len(rest))])
    assert sum(after) / len(after) <= 0.14
    assert sum(after) < 0.7 * sum(before)


def test_twelve_runs_of_each_source() -> None:
    """Each source with 24 runs and more: twelve, evenly over its list, bring the rest within 14 %, as the page says.

    From a machine whose products are 0.6 times as fast the mixtures of Megatron-Bridge come to 14.0 %.
    """
    counts = Counter(row["unit"] for row in planning_runs.timed())
    many = [unit for unit, number in counts.items() if number >= 24]
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    for unit in many:
        runs = runs_of(unit)
        fitted = [runs[place * len(runs) // 12] for place in range(12)]
        rest = [run for run in runs if run not in fitted]
        figures = []
        for known in (table(), off(product=0.6)):
            calibration, of_rest = Calibration(fitted, known), Calibration(rest, known)
            after = [of_rest.seconds(place, calibration.fit.factors) for place in range(len(rest))]
            for seconds in (of_rest.before, after):
                errors = of_rest.errors(seconds)
                figures.append(100 * sum(errors) / len(errors))
        assert figures[1] <= 14
        assert figures[3] <= 14.2
        assert f"| {unit} | {len(runs)} | {' | '.join(f'{one:.1f}' for one in figures)} |" in text


@cache
def runs_of_vtrain() -> list[MeasuredRun]:
    """The 109 runs on several nodes, and of the 1,440 on one node every fourth.

    They ran Megatron-LM's fused kernels of 2022; 80 GB and ZeRO-1 are assumed, which their source does not tell.
    """
    with (FILE.parent / "vtrain.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    common = {"gpu": "A100-80", "gpus_per_node": 8, "nic_gbps_node": 800, "stack": "megatron-2022", "sp": False}
    found = []
    for place, row in enumerate(rows[:109] + rows[109::4]):
        layers, width, heads = (int(row[name]) for name in ("layers", "width", "heads"))
        arch = {"L": layers, "h": width, "a": heads, "g": heads, "d": width // heads, "f": 4 * width, "V": 50257}
        arch |= {"gated": False, "untied": False, "E": 0}
        sizes = {name: int(row[name]) for name in ("n_gpus", "tp", "pp", "seq", "micro_batch", "global_batch")}
        run = {**common, **sizes, "arch": arch, "recompute": "full", "precision": "fp16"}
        found.append((str(place), {**run, "step_time_s": float(row["step_time_s"])}))
    return read_runs(found, described)[0]


@pytest.mark.parametrize(("some", "most"), [(slice(None, 109), 0.1), (slice(109, None), 0.09)])
def test_vtrains_steps(some: slice, most: float) -> None:
    """Steps on A100s of which the least that a pass takes was learned, and the stack chosen (arXiv 2312.12391).

    vTrain, which measures each kernel on the GPU first, is 14.73 % off those on several nodes and 8.37 % off those on
    one, by its paper.
    """
    of_all = Calibration(runs_of_vtrain()[some])
    errors = of_all.errors(of_all.before)
    assert len(errors) in (109, 360)
    assert sum(errors) / len(errors) <= most


def test_twelve_of_vtrains_steps_bring_the_rest_close() -> None:
    """Within 14 %, from a machine with products 0.6 times as fast and a faster Python; most models are small."""
    runs = runs_of_vtrain()
    fitted = [runs[place * len(runs) // 12] for place in range(12)]
    rest = [run for run in runs if run not in fitted][::4]
    known = off(product=0.6, host=0.4)
    calibration, of_rest = Calibration(fitted, known), Calibration(rest, known)
    assert sum(of_rest.errors(of_rest.before)) / len(rest) > 0.3
    after = of_rest.errors([of_rest.seconds(place, calibration.fit.factors) for place in range(len(rest))])
    assert sum(after) / len(after) <= 0.14


def by_name(runs: list[MeasuredRun], stack: str) -> list[MeasuredRun]:
    """Runs as they are read where their rows name a framework alone."""
    return [run._replace(stack=stack, said=False) for run in runs]


@pytest.mark.parametrize(
    ("some", "taken", "most"),
    [
        (slice(None), "megatron-2022", 0.09),
        pytest.param(slice(None, 109), "deepspeed", 0.11, marks=pytest.mark.long),
        pytest.param(slice(109, None), "megatron-2022", 0.09, marks=pytest.mark.long),
    ],
)
def test_the_stack_of_vtrains_steps_is_found(some: slice, taken: str, most: float) -> None:
    """Named Megatron-DeepSpeed: twelve runs choose the stack, and bring the rest within 14 %.

    Those on several nodes are as close with DeepSpeed's rates, once these are fitted, and keep it.
    """
    runs = by_name(runs_of_vtrain()[some], "deepspeed")
    places = [place * len(runs) // 12 for place in range(12)]
    fitted, (choice,) = choose_stacks([runs[place] for place in places])
    assert (choice.named, choice.taken) == ("deepspeed", taken)
    assert {run.stack for run in fitted} == {taken}
    rest = [run._replace(stack=taken) for place, run in enumerate(runs) if place not in places][::4]
    calibration, of_rest = Calibration(fitted), Calibration(rest)
    after = of_rest.errors([of_rest.seconds(place, calibration.fit.factors) for place in range(len(rest))])
    assert sum(after) / len(after) <= most


@pytest.mark.parametrize(
    "unit",
    [pytest.param("Megatron-Bridge", marks=pytest.mark.long), "BigScience topology", "InternEvo 7B A100"],
)
def test_the_stack_of_a_framework_is_kept_where_it_is_as_close(unit: str) -> None:
    """Twelve runs of sources whose framework was known: no other stack is taken."""
    runs = runs_of(unit)
    named = runs[0].stack
    some = by_name([runs[place * len(runs) // 12] for place in range(12)], named)
    assert choose_stacks(some)[1][0].taken == named
    assert choose_stacks(some[:11]) == (some[:11], [])  # of few runs there is no choice


def test_a_stack_that_is_said_is_not_chosen() -> None:
    """By the row, or as its framework's name tells it, FSDP."""
    row = next(row for row in planning_runs.timed() if row["framework"] == "Megatron-LM 2022")
    bare = {name: value for name, value in row.items() if name != "framework"}

    def said(**words: str) -> bool:
        return read_runs([("here", {**bare, **words})], described)[0][0].said

    assert said(stack="deepspeed")
    assert said(framework="Composer FSDP")
    assert not said(framework="Megatron-DeepSpeed")
    assert not said()
    runs = runs_of("Korthikanti 2022 Table 5")
    assert choose_stacks([run._replace(said=True) for run in runs] * 2)[1] == []


def test_one_run_does_not_choose_a_stack() -> None:
    """Seven tenths of the error at most, and without any one run, too."""
    assert clearly_closer([0.06] * 12, [0.1] * 12)
    assert not clearly_closer([0.08] * 12, [0.1] * 12)
    assert not clearly_closer([0.09] * 12, [0.1] * 11 + [3.0])
    assert clearly_closer([0.06] * 11 + [0.5], [0.1] * 11 + [3.0])


def test_a_constant_that_is_in_the_runs_is_found() -> None:
    """Runs whose products take 1.5 times as long: that is the constant, and what is left out comes close."""
    runs = runs_of("llm-foundry MPT A100-40")[::10]
    slow = Calibration(runs, off(product=1 / 1.5))
    made = [run._replace(seconds=slow.seconds(place, {})) for place, run in enumerate(runs)]
    calibration = Calibration(made)
    assert calibration.factors["products"] == pytest.approx(1.5, rel=0.05)
    errors = calibration.errors(calibration.left_out)
    assert sum(errors) / len(errors) < 0.01


def test_few_runs_have_one_scale() -> None:
    """One run: its estimate is what was measured. Three: nothing but a scale."""
    runs = runs_of("BigScience topology")
    slow = [run._replace(seconds=2 * run.seconds) for run in runs[:3]]
    assert set(Calibration(slow).factors) == {"scale"}
    alone = Calibration(slow[:1])
    assert alone.after[0] == pytest.approx(slow[0].seconds, rel=0.02)


def test_a_run_that_is_left_out_is_not_in_its_fit() -> None:
    """An outlier moves its own estimate by nothing."""
    runs = runs_of("llm-foundry MPT A100-40")[:3]
    plain, odd = (Calibration([runs[0]._replace(seconds=runs[0].seconds * times), *runs[1:]]) for times in (1, 3))
    assert odd.left_out[0] == pytest.approx(plain.left_out[0])
    assert odd.left_out[1] > plain.left_out[1]


def test_parts_and_equations() -> None:
    """Every place is left out once; a system of equations by hand."""
    for number in (1, 5, 12, 30):
        assert sorted(place for part in parts(number) for place in part) == list(range(number))
    assert solved([[4.0, 2.0], [2.0, 3.0]], [10.0, 8.0]) == pytest.approx([1.75, 1.5])


def test_rows_that_are_no_runs_are_left_out_with_a_reason() -> None:
    """Those that ran out of memory have no time; of TPUs no rates are known."""
    rows: list[Row] = [row for row in planning_runs.rows() if "step_time_s" not in row or row["gpu"].startswith("TPU")]
    runs, left_out = read_runs([(str(row["id"]), row) for row in rows], described)
    assert not runs
    assert {one.why for one in left_out} >= {"no time"}
    assert len(left_out) == len(rows) == 22


def test_sequences_that_are_too_few_for_the_copies_are_left_out() -> None:
    """1,024 GPUs with tp 4 and cp 16 are 16 copies, of which each would have a quarter of a sequence."""
    (row,) = (row for row in planning_runs.rows() if (row["unit"], row["seq"], row["gpu"]) == (NEMO, 2**20, "B200"))
    runs, (left_out,) = read_runs([("here", row)], described)
    assert not runs
    assert left_out.why.startswith("4 sequences are too few for 16 copies of the model")


def test_sequence_parallelism_is_read() -> None:
    """As the row says; without a word with all stacks but DeepSpeed's."""
    row = next(row for row in planning_runs.timed() if row["tp"] > 1 and row["sp"])
    bare = {name: value for name, value in row.items() if name != "sp"}
    found = [
        read_runs([("here", {**bare, "framework": framework, **said})], described)[0][0].at.sequence_parallel
        for framework in ("Megatron-LM", "Megatron-DeepSpeed")
        for said in ({}, {"sp": True}, {"sp": False})
    ]
    assert found == [True, True, False, False, True, False]
    with pytest.raises(BadFile, match="sp 'yes' is no flag"):
        read_runs([("here", {**bare, "sp": "yes"})], described)


def test_rates_that_a_stack_has_of_its_own_are_calibrated_too(tmp_path: Path) -> None:
    """Megatron-LM of 2022 on A100 half as fast: the file that is written brings the steps to where they were."""
    runs = [run._replace(seconds=2 * run.seconds) for run in runs_of("Korthikanti 2022 Table 5")]
    calibration = Calibration(runs)
    file = tmp_path / "rates.toml"
    band = band_of("ampere", "megatron-2022", experts=False)._replace(kind=CALIBRATED)
    file.write_text(written(calibration.rates_table, band, "8 runs"), encoding="utf-8")
    again = Calibration(runs, read_rates(str(file)).table)
    assert again.before == pytest.approx(calibration.after, rel=1e-4)
    assert sum(again.errors(again.before)) / len(runs) < 0.05


def test_published_runs_are_read_as_they_are_fitted() -> None:
    """The same layouts, machines and seconds as the fit of rates.toml has."""
    rows = planning_runs.timed()[::40]
    runs, _ = read_runs([(str(row["id"]), row) for row in rows], described)
    for row, run in zip(rows, runs, strict=True):
        if row.get("vpp") or row["pp"] == 1:
            estimate = Calibration([run]).before[0]
            assert math.log(estimate / run.seconds) == pytest.approx(math.log1p(planning_runs.error(row)))
