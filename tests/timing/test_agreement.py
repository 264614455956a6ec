"""Layouts that are recommended hold what ``ranks`` says that their GPUs hold."""

from __future__ import annotations

from typing import Any

import pytest

import tfcalc
from tfcalc.answers.plan import Plan
from tfcalc.answers.plan_case import PlanCase
from tfcalc.answers.plan_question import PlanQuestion
from tfcalc.errors import InvalidModel
from tfcalc.hardware import named
from tfcalc.placed.layout import PipelineEnds, ends_of
from tfcalc.search.axes import Axes
from tfcalc.search.possible import placed, stages_of
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("llama-3-8b", {"tp": 2, "pp": 4, "dp": 2}),
        ("llama-3-8b", {"tp": 8, "pp": 2, "vpp": 4, "dp": 2}),
        ("llama-3-70b", {"tp": 4, "pp": 4, "vpp": 10, "cp": 2, "dp": 4}),
        ("mixtral-8x7b", {"tp": 2, "pp": 4, "ep": 4, "etp": 1, "dp": 4}),
        ("mixtral-8x7b", {"tp": 2, "pp": 2, "ep": 2, "etp": 2, "dp": 4}),
        ("qwen3-30b-a3b", {"ep": 8, "etp": 1, "dp": 8}),
    ],
)
@pytest.mark.parametrize("zero", ["0", "1"])
def test_states_are_those_of_ranks(name: str, at: dict[str, Any], zero: str) -> None:
    """Weights, gradients and states of the fullest stage, but for the padding of the vocabulary: within 1 %."""
    model = tfcalc.load(name)
    training = tfcalc.Training(precision="bf16-master-fp32-grads", zero=zero, grad_accum=8)
    layout = tfcalc.Layout(sequence_parallel=at.get("tp", 1) > 1)._replace(**at)
    stages = tfcalc.ranks(model, layout, tfcalc.Workload(seq_len=4096), training).stages
    memory = DeviceMemory(work_of(model, 4096), Layouts(**at, batches=8, zero=int(zero)))
    closed = max(float(memory.states()), float(memory.states(last=True)))
    assert closed == pytest.approx(max(stage.states_bytes for stage in stages), rel=0.01)


@pytest.mark.parametrize(
    ("name", "gpus", "sequences", "length", "fixed"),
    [
        ("llama-3-8b", 64, 256, 8192, Axes()),
        ("llama-3-70b", 1024, 2048, 8192, Axes(pp=(2, 4, 8))),
        ("llama-3.1-405b", 1024, 2048, 8192, Axes()),
        ("deepseek-v3", 2048, 15360, 4096, Axes(tp=(1, 2))),
        ("qwen3-235b-a22b", 512, 1024, 4096, Axes(pp=(8, 16, 32))),
        ("qwen2.5-7b", 24, 192, 4096, Axes()),
    ],
)
def test_recommended_layouts_are_taken_by_ranks(name: str, gpus: int, sequences: int, length: int, fixed: Axes) -> None:
    """The fastest and the ends of the front: ``ranks`` takes each, and its fullest stage has as many bytes, to 1 %.

    Those whose layers do not divide over the stages (405B: 126 of 16) are filled by the ends that are told.
    """
    model = tfcalc.load(name)
    case = PlanCase(PlanQuestion(model, named("h100")[0], gpus, sequences, length, fixed))
    for place in {*case.found.fastest(4), *case.found.front[:1], *case.found.front[-2:]}:
        at = case.found.at(place)
        run = tfcalc.Workload(seq_len=length, batch_size=at.micro_batch)
        plan = tfcalc.Training(precision="bf16-master-fp32-grads", zero=str(at.zero), grad_accum=at.batches)
        found = tfcalc.ranks(model, placed(at, case.space), run, plan)
        assert found.layout.gpus == gpus
        closed = max(float(stage.states) for stage in case.by.memory(at).stages)
        assert closed == pytest.approx(max(stage.states_bytes for stage in found.stages), rel=0.01)


def test_of_layouts_that_take_the_same_one_is_listed() -> None:
    """Sequences shared by 2 or 4 GPUs, of which each has 2 or 4 at once, take as long and as many bytes as by none."""
    case = PlanCase(PlanQuestion(tfcalc.load("llama-3-8b"), named("h100")[0], 64, 512, 8192, Axes()))
    fastest = [case.evaluated(place) for place in case.found.fastest(5)]
    assert len({(one.seconds, one.memory) for one in fastest}) < 5
    listed = case.recommended(5)
    assert len({(round(one.seconds, 6), one.memory) for one in listed}) == 5
    assert listed[0].layouts == fastest[0].layouts
    assert listed[0].layouts.cp == 1


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("llama-3-8b", Axes(zero=(3,))),
        ("llama-3-8b", Axes(zero=(3,), tp=(2,), pp=(4,), again=(1,))),
        ("qwen3-32b", Axes(zero=(1,), tp=(4,))),
        ("qwen3-32b", Axes(zero=(3,), micro_batch=(4,))),
        ("mistral-7b-v0.1", Axes(zero=(2,), tp=(2,), again=(0,))),
        ("llama-3-8b", Axes(zero=(2,), micro_batch=(2,))),
        ("qwen3-32b", Axes(zero=(2,), tp=(8,), again=(0,))),
        ("gpt2-xl", Axes(zero=(1,), micro_batch=(2,))),
        ("gpt2-xl", Axes(zero=(3,))),
    ],
)
def test_the_closed_form_is_the_tapes_peak(name: str, fixed: Axes) -> None:
    """What ZeRO-3 gathers, norms of heads, and masks of dropout: within 0.5 % of the step that memory runs."""
    case = PlanCase(PlanQuestion(tfcalc.load(name), named("h100")[0], 64, 512, 1024, fixed))
    at = case.found.at(case.found.fastest(1)[0])
    assert case.on_tape(at) == pytest.approx(float(case.by.evaluated(at).memory), rel=0.005)


@pytest.mark.parametrize("states", ["bf16-master-fp32-grads-bf16-moments", "bf16-master-bf16-moments"])
@pytest.mark.parametrize("zero", [1, 3])
def test_moments_in_16_bits(states: str, zero: int) -> None:
    """The tape's peak, and the states of ranks, have them too."""
    model, fixed = tfcalc.load("llama-3-8b"), Axes(zero=(zero,), tp=(2,), pp=(2,), vpp=(1,))
    case = PlanCase(PlanQuestion(model, named("h100")[0], 64, 512, 1024, fixed, states=states))
    at = case.found.at(case.found.fastest(1)[0])
    assert case.on_tape(at) == pytest.approx(float(case.by.evaluated(at).memory), rel=0.005)
    plan = tfcalc.Training(precision=states, zero=str(at.zero), grad_accum=at.batches)
    found = tfcalc.ranks(model, placed(at, case.space), tfcalc.Workload(seq_len=1024, batch_size=at.micro_batch), plan)
    closed = max(float(stage.states) for stage in case.by.memory(at).stages)
    assert closed == pytest.approx(max(stage.states_bytes for stage in found.stages), rel=0.01)


@pytest.mark.parametrize("name", ["gpt-oss-20b", "falcon-7b", "gemma-2-9b", "t5-base"])
def test_models_without_rules_are_told(name: str) -> None:
    """``ranks`` refuses to; a plan says so among what it assumed, and beside its table of layouts that split them."""
    model = tfcalc.load(name)
    case = PlanCase(PlanQuestion(model, named("h100")[0], 8, 64, 1024, Axes()))
    with pytest.raises(InvalidModel) as refused:
        tfcalc.ranks(model, tfcalc.Layout(tp=2))
    assert case.possible.unruled == refused.value.message
    found = Plan(case)
    assert any(refused.value.message in line for line in found.assumptions)
    split = [one.layout.words for one in found.layouts if one.layout.words.startswith(("tp", "pp"))]
    told = [line for line in found.sheet().notes if line.startswith("By the closed form alone")]
    assert told == [f"By the closed form alone, as {refused.value.message}: {', '.join(split)}"] * bool(split)


def test_ends_of_pipelines_by_hand() -> None:
    """126 layers with embedding and loss are 8 of each of 16; 61 on 16 are 3, fourteen times 4, and 2."""
    assert ends_of(126, 16) == PipelineEnds(8, counts_embedding=True, counts_loss=True)
    assert ends_of(61, 16) == PipelineEnds(4, first=3, last=2)
    assert ends_of(32, 8) == PipelineEnds(4)
    assert ends_of(94, 64) is None
    kinds = tfcalc.load("deepseek-v3")
    space = PlanCase(PlanQuestion(kinds, named("h100")[0], 16, 64, 1024, Axes())).space
    assert stages_of(space, 16, 1) == (((3, 0), (0, 4), (0, 2)), 1)  # three dense layers come first
    assert stages_of(space, 32, 1) == (((1, 0), (0, 2), (0, 0)), 2)  # on the first two stages
    assert stages_of(space, 1, 1) == (((3, 58), (0, 0), (3, 58)), 1)


def test_a_plan_has_the_bytes_of_the_fullest_rank() -> None:
    """The fullest of 32 stages of DeepSeek-V3 is the third, the first with experts: less is in flight than before."""
    fixed = Axes(tp=(2,), pp=(32,), cp=(1,), ep=(16,), etp=(1,), micro_batch=(2,), zero=(1,), again=(0,))
    model = tfcalc.load("deepseek-v3")
    case = PlanCase(PlanQuestion(model, named("b200")[0], 1024, 4096, 4096, fixed))
    at = case.found.at(case.found.fastest(1)[0])
    run = tfcalc.Workload(seq_len=4096, batch_size=at.micro_batch, recompute="none")
    plan = tfcalc.Training(precision="bf16-master-fp32-grads", zero="1", grad_accum=at.batches)
    allocated = [stage.allocated_bytes for stage in tfcalc.ranks(model, placed(at, case.space), run, plan).stages]
    assert allocated.index(max(allocated)) == 2
    assert case.peak(case.by.evaluated(at)) == pytest.approx(max(allocated), rel=5e-4)
