"""Seconds of published training steps, and the choice among layouts that were measured."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from itertools import combinations, product
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import tfcalc
from tests import planning_runs
from tests.planning_runs import Row
from tests.schemas.questions import ROOT
from tfcalc.errors import InvalidModel
from tfcalc.hardware import named
from tfcalc.search import layouts
from tfcalc.search.axes import Axes
from tfcalc.search.layouts import ChosenLayout, Enumeration, LayoutEvaluator, SearchedLayouts, search
from tfcalc.search.possible import Possible, Space, are_uneven, stages_of, uneven_chunks
from tfcalc.timing.estimate import band_of_pairs
from tfcalc.timing.measured_runs import layout_of
from tfcalc.timing.rates import STACKS, machine_of, rates_of, table
from tfcalc.timing.step import Layouts, StepTime
from tfcalc.timing.work import work_of

ALL = Axes()


def test_the_estimate_of_published_runs() -> None:
    """529 step times of 10 sources (tests/oracle/planning/runs.jsonl): the mean error is at most 10 %."""
    errors = [abs(planning_runs.error(row)) for row in planning_runs.timed()]
    assert len(errors) == 529
    assert sum(errors) / len(errors) <= 0.1
    assert sorted(errors)[len(errors) // 2] <= 0.07


def test_the_runs_that_cannot_have_been() -> None:
    """Two of NeMo's long sequences: 8 and 4 sequences for 512 / (4 · 8) and 1,024 / (4 · 16) copies of the model."""
    left_out = [row for row in planning_runs.rows() if "micro_batch" in row and planning_runs.impossible(row)]
    assert [(row["unit"], row["n_gpus"], row["tp"], row["cp"], row["global_batch"]) for row in left_out] == [
        ("NeMo long sequence", 512, 4, 8, 8),
        ("NeMo long sequence", 1024, 4, 16, 4),
    ]
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    for row in left_out:
        assert planning_runs.impossible(row) in text


def test_megatron_of_2022() -> None:
    """Eight steps of Korthikanti et al. 2022 (arXiv 2205.05198, table 5), those that calculon is shown on."""
    errors = [abs(planning_runs.error(row)) for row in planning_runs.timed() if row["unit"].startswith("Korthikanti")]
    assert len(errors) == 8
    assert sum(errors) / len(errors) <= 0.05


def test_megatron_of_2021_which_nothing_was_fitted_to() -> None:
    """The ten steps of Narayanan et al. 2021 (arXiv 2104.04473, table 1), from the FLOP/s that it prints.

    Its equation 3 gives the FLOPs, each layer run again in backward: 96 B s l h² (1 + s/6h + V/16lh), where s is 2,048
    and V 51,200. Micro-batches are not in the table and taken to be of one sequence; no chunks, no ZeRO, no sequence
    parallelism.
    """
    machine = machine_of(named("A100-SXM-80")[0], 8, 25e9)
    assert machine is not None
    length, vocabulary, errors = 2048, 51200, []
    for line in (ROOT / "tests" / "oracle" / "published.jsonl").read_text(encoding="utf-8").splitlines():
        if (row := json.loads(line))["table"] != "Megatron-2021 T1":
            continue
        layers, width, heads, batch, gpus = (row[name] for name in ("L", "h", "heads", "batch", "gpus"))
        arch = {"L": layers, "h": width, "a": heads, "g": heads, "d": width // heads, "f": 4 * width, "V": vocabulary}
        arch |= {"gated": False, "untied": False, "E": 0}
        shape = 1 + length / (6 * width) + vocabulary / (16 * layers * width)
        seconds = 96 * batch * length * layers * width**2 * shape / (row["tflops_gpu"] * 1e12 * gpus)
        copies = gpus // (row["tp"] * row["pp"])
        at = Layouts(tp=row["tp"], pp=row["pp"], dp=copies, batches=batch / copies, zero=0, again=1)
        work = planning_runs.work({"arch": arch, "seq": length})
        by = StepTime(work, machine, rates_of("ampere", "megatron-2022"), precision="fp16")
        errors.append(abs(float(by.parts(at._replace(sequence_parallel=False)).seconds) / seconds - 1))
    assert len(errors) == 10
    assert sum(errors) / 10 <= 0.08
    assert median(errors) <= 0.05


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


def test_the_band_of_pairs() -> None:
    """How far the ratio of two published steps was from its estimate: 812 pairs that differ in layout alone."""
    groups: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in planning_runs.timed():
        key = ("unit", "model", "gpu", "n_gpus", "global_batch", "seq", "precision")
        groups[tuple(row[name] for name in key)].append(1 + planning_runs.error(row))
    errors = sorted(abs(one / other - 1) for group in groups.values() for one, other in combinations(group, 2))
    band = band_of_pairs()
    assert band.runs == len(errors)
    assert band.typical == pytest.approx(errors[len(errors) // 2], abs=0.01)
    assert band.most == pytest.approx(errors[len(errors) * 9 // 10], abs=0.03)


def space_of(name: str, length: int, gpus: int, sequences: int, fixed: Axes = ALL, stack: str = "megatron") -> Space:
    """The space of layouts of a preset."""
    model = tfcalc.load(name)
    return Space(work_of(model, length), model.module(), gpus, sequences, fixed, stack=stack)


@pytest.mark.parametrize("stack", STACKS)
def test_arrays_are_single_evaluations(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every layout of three models 1,000 drawn ones, one by one: seconds and bytes are equal."""
    machine = machine_of(named("h100")[0])
    assert machine is not None
    monkeypatch.setattr(layouts, "ONE_BY_ONE", 0)
    draw = random.Random(7)
    for name, gpus in (("llama-3-8b", 64), ("mixtral-8x7b", 64), ("llama-3.1-405b", 512)):
        space = space_of(name, 4096, gpus, 128, stack=stack)
        found = search(
            space, by := LayoutEvaluator(space, machine, rates_of("hopper", stack), "bf16"), 0.0, all_timed=True
        )
        assert isinstance(found.memory, np.ndarray)
        for place in draw.choices(range(found.number), k=334):
            alone = by.evaluated(found.at(place))
            assert alone.memory == pytest.approx(found.memory[place], rel=1e-12)
            assert alone.seconds == pytest.approx(found.seconds[place], rel=1e-12)


def test_one_by_one_is_the_same_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and arrays have the same layouts, the same fastest, smallest and equal ones, and the same front."""
    machine = machine_of(named("h100")[0])
    assert machine is not None
    space = space_of("llama-3-8b", 4096, 64, 128)
    room = 60e9
    both = []
    for most in (0, 10**6):
        monkeypatch.setattr(layouts, "ONE_BY_ONE", most)
        both.append(search(space, LayoutEvaluator(space, machine, rates_of("hopper", "megatron"), "bf16"), room))
    arrays, lists = both
    assert isinstance(lists.memory, list)
    assert arrays.chosen.tolist() == [list(one) for one in lists.chosen]
    assert 0 < len(lists.places) < lists.number
    assert list(arrays.places) == lists.places
    for number in (1, 7, 10**6):
        assert arrays.fastest(number) == lists.fastest(number)
        assert arrays.smallest(number) == lists.smallest(number)
    assert arrays.front == lists.front
    quickest = float(lists.seconds[lists.fastest(1)[0]])
    assert arrays.alike(quickest) == lists.alike(quickest)


def test_the_front_is_what_nothing_beats() -> None:
    """By comparing each layout with each other: of a front none is both faster and smaller."""
    machine = machine_of(named("h100")[0])
    assert machine is not None
    space = space_of("gpt2", 1024, 8, 64)
    found = search(space, LayoutEvaluator(space, machine, rates_of("hopper", "megatron"), "bf16"), 60e9)
    points = {(round(found.seconds[one] / found.tick), found.memory[one]) for one in found.places}
    front = {one for one in points if not any(a <= one[0] and b <= one[1] and (a, b) != one for a, b in points)}
    assert {(round(found.seconds[one] / found.tick), found.memory[one]) for one in found.front} == front
    assert len(found.front) == len(front) > 1


def test_everything_divides() -> None:
    """No layout is enumerated twice; each uses all GPUs and all sequences, and a pipeline's rounds are full."""
    space = space_of("mixtral-8x7b", 4096, 48, 96)
    rows = list(Enumeration(space).rows())
    assert len(set(rows)) == len(rows) > 100
    for at in (ChosenLayout(*row).layouts(space) for row in rows):
        assert at.tp * at.pp * at.cp * at.dp == 48
        assert at.dp * at.micro_batch * at.batches == 96
        assert 32 % at.tp == 8 % at.ep == 0
        assert at.vpp == 1 or at.batches % at.pp == 0


def test_published_layouts_can_be() -> None:
    """No rule refuses the layout of a published run, where its axes are given; of InternEvo's own ZeRO replicas apart.

    NeMo of 2023 is timed by the rates of DeepSpeed of 2022, which had no interleaving; its 175B had 12 chunks.
    The chunks of DeepSeek-V3's and Kimi K2's 61 layers are uneven (Megatron-core's pipeline_model_parallel_layout).
    """
    refused, uneven = [], 0
    for row in planning_runs.timed():
        at = layout_of(row, planning_runs.stack(row))
        fixed = Axes(pp=(at.pp,), vpp=(at.vpp,))
        space = Space(
            planning_runs.work(row),
            tfcalc.from_config(planning_runs.config(row)).module(),
            row["n_gpus"],
            int(row["global_batch"]),
            fixed,
            stack=planning_runs.stack(row),
        )
        try:
            Possible(space).check(at)
        except InvalidModel as error:
            refused.append((row["unit"], error.message))
        uneven += are_uneven(space.work.depth, at.pp, at.vpp)
    lacks = {"InternEvo 7B A100": "--replicas", "NeMo 2023 A100 scaling": "--vpp 12 with --stack deepspeed"}
    assert {unit for unit, _ in refused} == set(lacks)
    assert all(lacks[unit] in message for unit, message in refused)
    assert uneven == 26


def test_layers_of_uneven_chunks() -> None:
    """The 61 layers, embedding and loss of DeepSeek-V3 over 16 chunks of 4 stages: 15 have 4 of these, the last 3.

    Source: Megatron-Bridge's layout of this model, ``Et*4|(tttt|)*14tmL``, has at most one layer less or more.
    """
    chunks = uneven_chunks(61, 16)
    assert [len(chunk) for chunk in chunks] == [3] + 14 * [4] + [2]
    assert [place for chunk in chunks for place in chunk] == list(range(61))
    space = space_of("deepseek-v3", 4096, 256, 4096, fixed=Axes(pp=(4,), vpp=(4,)))
    assert stages_of(space, 4, 4) == (((3, 12), (0, 16), (0, 14)), 1)


def test_what_is_enumerated_is_all_that_breaks_no_rule() -> None:
    """Of all combinations of small numbers those that no rule refuses, and no others."""
    axes = Axes(tp=range(1, 5), pp=range(1, 5), vpp=range(1, 5), cp=range(1, 4), micro_batch=range(1, 5), zero=(1,))
    space = space_of("gpt2", 64, 8, 16, fixed=axes._replace(again=(0,)))
    rules = Possible(space)
    allowed = set()
    for tp, pp, vpp, cp, micro in product(axes.tp or (), axes.pp or (), axes.vpp or (), axes.cp or (), range(1, 5)):
        dp = max(1, 8 // (tp * pp * cp))
        at = ChosenLayout(tp, pp, cp, dp, 1, 1, vpp, micro, int(dp * cp > 1), 1, 0)
        with suppress(InvalidModel):
            rules.check(at.layouts(space))
            allowed.add(tuple(at))
    assert set(Enumeration(space).rows()) == allowed
    assert len(allowed) > 20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads Linux's /proc")
def test_a_million_layouts() -> None:
    """DeepSeek-V3 at 128k on 30,720 GPUs: within 400 MB, and about a second of CPU (a busy machine takes longer).

    The kernel's own high-water mark of this program: that of getrusage begins with what the parent had.
    """
    code = """
import time
from pathlib import Path
from tests.timing.test_published_steps import million
start = time.process_time()
number, seconds = million(), round(time.process_time() - start)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(number, seconds, int(status["VmHWM"].split()[0]) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    number, seconds, megabytes = map(int, done.stdout.split())
    assert number > 1_000_000
    assert seconds < 20  # where each layout is a step of Python it takes minutes
    assert megabytes < 400


def million() -> int:
    """Search more than a million layouts, and return their number."""
    return searched_million()[1].number


def searched_million() -> tuple[LayoutEvaluator, SearchedLayouts]:
    """More than a million layouts, and what evaluates them."""
    machine = machine_of(named("h100")[0])
    assert machine is not None
    axes = Axes(zero=(0, 1, 2, 3), etp=(1, 2, 4, 8), tp=(1, 2, 4, 8, 16, 32))
    space = space_of("deepseek-v3", 2**17, 30_720, 2**17 * 15, fixed=axes)
    by = LayoutEvaluator(space, machine, rates_of("hopper", "megatron"), "bf16")
    found = search(space, by, 78e9)
    found.fastest(5)
    return by, found


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
