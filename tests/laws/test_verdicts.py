"""Verdicts on random questions: a remedy gives what it promises, and where none is told a search finds none either."""

from __future__ import annotations

import random

import pytest

from tests.laws.verdicts import MODELS, SMALL, Asked, contradictions, question
from tfcalc import InvalidModel, Serving, Training, Workload, load
from tfcalc.answers.overview import METHODS
from tfcalc.catalog import names
from tfcalc.model import default_run
from tfcalc.search.gpus import MOST_RESERVED, RUNS_IN
from tfcalc.training.peaks import Peaks

TRIES = 30


@pytest.mark.one_in(40)
@pytest.mark.parametrize(
    "seed", [*range(100), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(100, 300))]
)
def test_a_remedy_gives_what_it_promises_and_an_impossibility_is_one(seed: int) -> None:
    draw = random.Random(seed)
    asked = question(draw, MODELS if seed >= 100 else SMALL, serving=seed >= 100)
    found = asked.verdict()
    if found is not None and not found.fits:
        assert list(contradictions(draw, asked, found, TRIES)) == []


FOUND = {
    "the closest may fit, and is said to": ("llama-3-8b", "4GB", Training(grad_accum=4)),
    "more GPUs may have all states in the host's memory": ("deepseek-v2-lite", "4GB", Training(optimizer="adamw-8bit")),
    "an engine with a paged cache takes several GPUs": ("gpt-oss-20b", "8GB", Serving(cache="dynamic")),
}
"""What the search found when it was run first, each with its cause."""


@pytest.mark.parametrize(("name", "card", "plan"), FOUND.values(), ids=FOUND)
def test_what_was_found(name: str, card: str, plan: Training | Serving) -> None:
    model = load(name)
    run = default_run(model)
    trained = run.replaced(phase="train", recompute="none")
    asked = Asked(name, model, card, run if isinstance(plan, Serving) else trained, plan)
    found = asked.verdict()
    assert found is not None
    assert list(contradictions(random.Random(1), asked, found, 3)) == []


def test_adapters_are_trained_over_unquantized_weights_where_zero_3_shares_no_others() -> None:
    """A question that the search contradicted: 4 bits of 32B parameters leave FSDP's root and a layer no room."""
    asked = Asked(
        "qwen2.5-32b",
        model := load("qwen2.5-32b"),
        "2x8GB",
        default_run(model).replaced(phase="train", batch_size=4),
        Training(lora=16, base_weights="nf4-dq"),
    )
    found = asked.verdict()
    assert found is not None
    assert not found.fits
    (remedy,) = (one for one in found.remedies if one.fits)
    assert remedy.change.values["base_weights"] == ""
    assert "--lora 16" in remedy.change.flags(asked.run, asked.plan)
    again = asked.changed(remedy.change).verdict()
    assert again is not None
    assert (again.status, again.report.answer) == (remedy.status, remedy.total)


LONGEST = 100_000
"""Allocations of the steps that are simulated here: a fifth of a second."""


@pytest.mark.one_in(60, 20)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", names())
def test_what_is_taken_for_granted_of_the_allocator_is_so_where_it_is_simulated(name: str, method: str) -> None:
    peaks, run = Peaks(load(name)), Workload(phase="train", seq_len=2048, recompute="full")
    run, plan = peaks.resolved(run, METHODS[method][1])
    try:
        need = peaks.peak(run, plan, noting=True)
    except InvalidModel as why:
        pytest.skip(str(why))
    if peaks.events_of(run, plan) > LONGEST:
        pytest.skip("it takes long")
    assert peaks.reserved_within(run, plan, int(RUNS_IN * need)) is not None
    assert peaks.reserved(run, plan).reserved <= MOST_RESERVED * need
