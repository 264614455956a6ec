"""Live: peaks of a micro-batch whose gradients are added to those of earlier ones, beside the storages of PyTorch.

A parameter that is used twice gets one sum: AccumulateGrad waits for its two gradients, and the first of a tied matrix
is live from the head to the table of tokens.
"""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Training, Workload, memory
from tfcalc.configs.published import HFModel

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

from tests.verify.live import Live  # noqa: E402  # after the skip, like what follows
from tests.verify.test_peaks_against_transformers import RECIPES, config  # noqa: E402
from tests.verify.test_steps_in_backward import ALBERT, BATCH, SEQ, WIDE  # noqa: E402
from tfcalc.verify.cuda_choices import cuda_choices  # noqa: E402
from tfcalc.verify.saved import forward, tensors_of  # noqa: E402
from tfcalc.verify.step import step, without_data  # noqa: E402

TIED = {"tie_word_embeddings": True}
MODELS = {
    "untied": config("llama") | WIDE | {"tie_word_embeddings": False},
    "tied": config("llama") | WIDE | TIED,
    "gpt2": config("gpt2") | WIDE | TIED,
    "albert": ALBERT | WIDE,  # four layers that are one
}
CASES = [(name, *case) for name in MODELS for case in (("bf16", "none"), ("bf16-mixed", "none"), ("bf16", "full"))]


def backward_of_storages(fields: dict[str, Any], recipe: str, recompute: str) -> int:
    """The most that is live in backward, over the weights and the gradients of earlier micro-batches."""
    again = "nonreentrant" if recompute == "full" else None
    with without_data():
        model, inputs = step(
            fields, batch=BATCH, seq=SEQ, attention="sdpa", recipe=RECIPES[recipe], recompute=again, dropout=False
        )
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        there = [each for weight in model.parameters() for each in (weight, weight.grad)]
        with cuda_choices("flash", as_recorded=True), Live() as live:
            for each in (*there, *model.buffers(), *tensors_of(inputs)):
                live.see(each)
            base = live.bytes
            loss = forward(model, inputs, RECIPES[recipe], None)
            live.peak()
            loss.backward()
            backward: int = live.peak() - base
    return backward


@pytest.mark.parametrize(("name", "recipe", "recompute"), [case for case in CASES if case[::2] != ("albert", "full")])
def test_a_sum_of_gradients_is_live_until_it_is_added(name: str, recipe: str, recompute: str) -> None:
    fields = MODELS[name]
    live = backward_of_storages(fields, recipe, recompute)
    run = Workload(phase="train", batch_size=BATCH, seq_len=SEQ, kernel="flash", recompute=recompute, dropout=False)
    found = memory(HFModel(fields), run, training=Training(precision=recipe, grad_accum=2, device="recorded"))
    backward = next(phase for phase in found.more["timeline"] if phase["phase"] == "backward")
    counted = backward["peak_bytes"] - backward["states_bytes"] - found.gradients_bytes
    assert counted == pytest.approx(live, rel=0.001)
