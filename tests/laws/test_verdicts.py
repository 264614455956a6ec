"""Verdicts on random questions: a remedy gives what it promises, and where none is told a search finds none either."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tfcalc import Training, fits, load
from tfcalc.answers.verdict import Fit
from tfcalc.errors import TfcalcError
from tfcalc.model import Model, default_run
from tfcalc.search.gpus import of_card
from tfcalc.workload import AUTO, Workload

MODELS = (
    "gpt2",
    "llama-3.2-1b",
    "llama-3-8b",
    "qwen3-0.6b",
    "mixtral-8x7b",
    "t5-base",
    "bert-base-uncased",
    "mamba-1.4b",
)
CARDS = ("1GB", "2GB", "4GB", "8GB", "t4", "rtx-4090", "a100-40", "h100", "2x8GB", "4xt4", "8xrtx-3090", "8xh100")
PLANS: tuple[dict[str, Any], ...] = (
    *({}, {"lora": 16}, {"lora": 16, "base_weights": "nf4-dq"}),
    *({"precision": "bf16-mixed"}, {"optimizer": "adamw-8bit"}, {"grad_accum": 4}),
)
RUNS: tuple[dict[str, Any], ...] = ({}, {"recompute": "none"}, {"batch_size": 4}, {"batch_size": 16, "seq_len": 512})
OPTIONS: dict[str, tuple[Any, ...]] = {
    "loss": (AUTO, "checkpointed", "fused", "chunked"),
    "alloc_conf": ("default", "expandable_segments"),
    "optimizer_in_backward": (False, True),
    "recompute": ("none", "full"),
    "offload_activations": (False, True),
    "optimizer": ("adamw-fused", "adamw-8bit", "paged-adamw-8bit", "adafactor", "sgd"),
    "precision": (AUTO, "bf16"),
    "lora": (None, 16),
    "base_weights": ("", "nf4-dq"),
    "offload": ("none", "optimizer", "all"),
    "zero": ("0", "1", "2", "3"),
    "layout": ("flat", "fsdp2"),
    "gpus": (2, 8, 64),
}
"""Everything that the memory of training depends on, but for less than what was asked for."""
TRIES = 30


def question(draw: random.Random) -> tuple[Model, str, Workload, Training]:
    model, card = load(draw.choice(MODELS)), draw.choice(CARDS)
    run = default_run(model).replaced(phase="train", **draw.choice(RUNS))
    return model, card, run, Training(**draw.choice(PLANS))


def asked(model: Model, card: str, run: Workload, plan: Training) -> Fit | None:
    """The verdict; None where there is no such plan, which is told as soon as its state is asked for."""
    try:
        found = fits(model, of_card(card), run, training=plan)
        return found if found.status else None
    except TfcalcError:
        return None


def tried_at_random(draw: random.Random, model: Model, card: str, run: Workload, plan: Training) -> str:
    """The state of the verdict with options drawn, all else as asked, on as many cards as the draw says."""
    values = {name: draw.choice(known) for name, known in OPTIONS.items()}
    batch, accumulated = run.batch_size, plan.grad_accum
    run = run.replaced(recompute=values.pop("recompute"))
    if draw.random() < 0.5:
        run, values["grad_accum"] = run.replaced(batch_size=1), accumulated * batch
    name = card.partition("x")[2] or card
    found = asked(model, f"{values.pop('gpus')}x{name}", run, plan.replaced(**values, gpus=None))
    return found.status if found else "no"


@pytest.mark.one_in(40)
@pytest.mark.parametrize(
    "seed", [*range(100), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(100, 300))]
)
def test_a_remedy_gives_what_it_promises_and_an_impossibility_is_one(seed: int) -> None:
    draw = random.Random(seed)
    model, card, run, plan = question(draw)
    found = asked(model, card, run, plan)
    if found is None or found.fits:
        return
    for remedy in found.remedies:
        change = remedy.change
        again = asked(model, _card(card, change.values), change.applied(run), change.applied(plan).replaced(gpus=None))
        assert again is not None, change.name
        assert (again.report.answer, again.status) == (remedy.total, remedy.status), change.name
    if not any(remedy.fits for remedy in found.remedies):
        states = [tried_at_random(draw, model, card, run, plan) for _ in range(TRIES)]
        assert not {"fits", "tight"}.intersection(states)


def _card(card: str, values: Any) -> str:
    """The cards of a remedy: those that were asked about, or more of them."""
    return f"{values['gpus']}x{card.partition('x')[2] or card}" if "gpus" in values else card
