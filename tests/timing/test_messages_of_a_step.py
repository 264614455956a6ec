"""No step is shorter than its messages take on a GPU's link to other nodes: bytes of ``ranks``, places of all GPUs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import pytest

import tfcalc
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.hardware import named
from tfcalc.placed.layout import Layout
from tfcalc.placed.messages import Sent
from tfcalc.placed.ranks import OfData, Ranks, SentBits, sent_in_a_step
from tfcalc.search.axes import Axes
from tfcalc.search.layouts import ChosenLayout, Enumeration, LayoutEvaluator
from tfcalc.search.possible import Space
from tfcalc.timing.rates import Machine, machine_of, rates_of
from tfcalc.timing.step import Layouts, PassSeconds, RankGroup, StepTime
from tfcalc.timing.work import work_of
from tfcalc.workload import Workload


def members(at: Layouts, group: str) -> list[int]:
    """The GPUs of the first one's group, as Megatron-core numbers them.

    Source: parallel_state.py, ``initialize_model_parallel``: order "tp-cp-ep-dp-pp", and that of experts without cp.
    """
    tp, cp, dp, ep, etp = (int(size) for size in (at.tp, at.cp, at.dp, at.ep, at.etp))
    stage = tp * cp * dp
    apart = {
        "tensor": (1, tp),
        "whole weights": (1, tp),
        "context": (tp, cp),
        "data": (tp, cp * dp),
        "expert tensor": (1, etp),
        "expert": (etp, ep),
        "expert data": (etp * ep, stage // (etp * ep)),
        "pipeline": (stage, int(at.pp)),
    }
    step, number = apart[group]
    return [step * place for place in range(number)]


def seconds_on_the_link(sent: Sent, at: Layouts, machine: Machine, active: int) -> float:
    """Seconds at the line rate of the busiest GPU's link: those of one node share a collective, and no more."""
    nodes = [gpu // machine.domain for gpu in members(at, sent.group)]
    if len(set(nodes)) == 1:
        return 0.0
    if sent.name == "all-to-all":  # a token goes to a node once: to so many of the others, in the mean
        others = len(set(nodes)) - 1
        visited = others * (1 - (1 - 1 / len(set(nodes))) ** active) / active
        return value_of(sent.times) * value_of(sent.bytes) * visited / machine.nic
    shared_by = 1 if sent.name == "send" else nodes.count(0)
    return value_of(sent.times) * value_of(sent.by_each) / shared_by / machine.nic


class Case(NamedTuple):
    """A model on GPUs."""

    model: str
    card: str
    gpus: int
    length: int
    sequences: int
    stack: str = "megatron"


CASES = (
    Case("deepseek-v3", "h200", 1024, 4096, 4096),
    Case("qwen3-235b-a22b", "h100", 1024, 4096, 2048),
    Case("mixtral-8x22b", "h100", 128, 8192, 512),
    Case("mixtral-8x7b", "h100", 128, 8192, 512, "fsdp"),
    Case("llama-3-70b", "h100", 256, 8192, 512),
    Case("llama-3-8b", "a100-80", 256, 8192, 512, "fsdp"),
)


def drawn(case: Case, space: Space) -> Iterator[tuple[Layouts, list[list[Sent]]]]:
    """Yield layouts with the messages of the first and of the last stage's GPUs.

    Left out: replicas, which ``ranks`` does not have, and FSDP's stage 2 in a pipeline, whose weights ``ranks`` has
    gathered for each micro-batch.
    """
    fsdp = case.stack == "fsdp"
    rows = list(Enumeration(space).rows())
    random.Random(3).shuffle(rows)
    for row in rows:
        at = ChosenLayout(*row).layouts(space)
        if (fsdp and at.zero == 2 and at.pp > 1) or (at.shards is not None and at.shards != at.dp * at.cp):
            continue
        layout = Layout(
            tp=at.tp,
            sequence_parallel=at.tp > 1,
            pp=at.pp,
            vpp=at.vpp,
            cp=at.cp,
            dp=at.dp,
            ep=at.ep,
            etp=at.etp if space.experts > 1 else None,
        )
        run = Workload(
            batch_size=at.micro_batch,
            seq_len=case.length,
            phase="train",
            recompute="full" if at.again else "none",
        )
        try:
            stages = Ranks(tfcalc.load(case.model).module(), layout, run).stages
        except InvalidModel:
            continue
        how = OfData(int(at.zero), SentBits(16, 32), fsdp=fsdp)
        ends = stages[0], stages[-1]
        yield at, [sent_in_a_step(rank, int(at.batches), how, activations=16, tied=False) for rank in ends]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model} {case.stack}")
def test_no_step_is_shorter_than_its_messages(case: Case) -> None:
    """Of drawn layouts: the bytes of all groups that cross nodes, over the line rate of a GPU's link."""
    machine = machine_of(named(case.card)[0])
    assert machine is not None
    model = tfcalc.load(case.model)
    work = work_of(model, case.length)
    space = Space(work, model.module(), case.gpus, case.sequences, Axes(), stack=case.stack)
    by = LayoutEvaluator(space, machine, rates_of(machine.generation, case.stack), "bf16").time
    active = next((layer.experts.active for layer in work.layers if layer.experts), 1)
    for at, of_ends in islice(drawn(case, space), 60):
        least = max(sum(seconds_on_the_link(one, at, machine, active) for one in sent) for sent in of_ends)
        assert least <= float(by.parts(at).seconds), at


@pytest.mark.parametrize("case", CASES[:5], ids=lambda case: case.model)
def test_stage_0_is_in_no_search_as_1_takes_no_more(case: Case) -> None:
    """ZeRO's paper, section 7: stages 0 and 1 send as many bytes, and 1 has a share of the states of 0."""
    machine = machine_of(named(case.card)[0])
    assert machine is not None
    model = tfcalc.load(case.model)
    space = Space(work_of(model, case.length), model.module(), case.gpus, case.sequences, Axes(zero=(1,)))
    by = LayoutEvaluator(space, machine, rates_of(machine.generation, case.stack), "bf16")
    rows = list(Enumeration(space).rows())
    for row in random.Random(4).sample(rows, 60):
        first = ChosenLayout(*row).layouts(space)
        shared, whole = by.evaluated(first), by.evaluated(first._replace(zero=0))
        assert float(shared.seconds) <= float(whole.seconds)
        assert float(shared.memory) <= float(whole.memory)


@pytest.mark.parametrize(
    ("stack", "zero"), [*(("megatron", zero) for zero in range(4)), ("deepspeed", 2), ("fsdp", 2), ("fsdp", 3)]
)
def test_bytes_of_gradients_and_weights_are_those_of_ranks(stack: str, zero: int) -> None:
    """What a step's estimate puts on the links to other nodes: 64 GPUs of 8 a node, which share a link each.

    Of ZeRO 3 it gathers the two tables twice, as it does layers; they stay whole between forward and backward.
    """
    machine = machine_of(named("h100")[0])
    assert machine is not None
    model, batches = tfcalc.load("llama-3-8b"), 4
    by = StepTime(work_of(model, 4096), machine, rates_of(machine.generation, stack))
    at = Layouts(dp=64, batches=batches, zero=zero, shards=64 if stack == "fsdp" else None)
    *_, seconds = by.between_steps(at, PassSeconds(), 0)
    (rank,) = Ranks(model.module(), Layout(dp=64), Workload(seq_len=4096, phase="train")).stages
    by_ranks = OfData(zero, SentBits(16, 32), fsdp=stack == "fsdp").sent(rank, batches)
    sent = sum(value_of(one.times) * value_of(one.by_each) for one in by_ranks)
    twice = batches * 2 * (2 * 128_256 * 4096) * 63 / 64 * (zero == 3)
    assert seconds * by.network * machine.domain == pytest.approx(sent + twice, rel=1e-4)


def test_places_of_groups() -> None:
    """The groups of a layout are those of Megatron-core's numbers, and as many of one are in a node."""
    machine = machine_of(named("h100")[0])
    assert machine is not None
    work = work_of(tfcalc.load("mixtral-8x7b"), 4096)
    by = StepTime(work, machine, rates_of("hopper", "megatron"))
    for tp, cp, ep, etp in ((1, 1, 8, 1), (2, 2, 8, 1), (8, 2, 4, 2), (4, 1, 2, 4), (1, 4, 8, 8)):
        at = Layouts(tp=tp, cp=cp, ep=ep, etp=etp, dp=64, pp=2)
        dense, experts = at.with_the_same(at.dp * at.cp)
        groups: dict[str, RankGroup] = {
            "tensor": at.sharing_a_layer,
            "context": at.sharing_a_sequence,
            "expert": at.sharing_experts,
            "data": dense,
            "expert data": experts,
        }
        for name, group in groups.items():
            gpus = members(at, name)
            assert gpus == [int(group.apart) * place for place in range(int(group.ranks))], name
            assert by.in_a_node(group) == sum(gpu < machine.domain for gpu in gpus), name


def test_experts_of_a_whole_node_are_gathered_over_one_link_each() -> None:
    """Eight groups of experts fill a node, so that each GPU gathers its own from other nodes alone.

    By hand: a GPU of 128 has 1/8 of the experts' parameters, of which 1/16 is its own. In a micro-batch it gathers the
    others twice in 16 bits, and sums their gradients up in 32: (2 · 2 + 4) bytes of each. 512 sequences on 32 copies
    are 16 micro-batches. At 50 GB/s (links.csv) that is 40.6 s.
    """
    experts = 56 * 8 * 3 * 6144 * 16384  # layers, experts, matrices, sizes: Mixtral-8x22B's config.json
    seconds = 16 * experts / 8 * 15 / 16 * (2 * 2 + 4) / 50e9
    assert seconds == pytest.approx(40.6, abs=0.05)
    at: dict[str, Any] = {"tp": 1, "pp": 1, "vpp": 1, "cp": 4, "ep": 8, "etp": 1, "micro_batch": 1, "zero": 3}
    found = tfcalc.plan("mixtral-8x22b", "128xh100", 512, 8192, checkpointing="none", **at)
    assert found.micro_batches == 16
    assert found.step_seconds >= seconds
