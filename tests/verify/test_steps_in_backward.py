"""Live: peaks where each parameter is stepped as soon as backward has its gradient, beside the storages of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Training, Workload, memory
from tfcalc.configs.published import HFModel

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

from tests.verify.live import Live  # noqa: E402  # after the skip, like what follows
from tests.verify.peaks import OPTIMIZERS  # noqa: E402
from tests.verify.test_peaks_against_transformers import RECIPES, config  # noqa: E402
from tfcalc.verify.cuda_choices import cuda_choices  # noqa: E402
from tfcalc.verify.saved import forward, tensors_of  # noqa: E402
from tfcalc.verify.step import step, without_data  # noqa: E402

BATCH, SEQ = 1, 8
WIDE = {"vocab_size": 2000}
"""So few tokens and so many words that the peak is where gradients of weights are."""
ALBERT = {"model_type": "albert", "embedding_size": 32, "hidden_size": 64, "num_attention_heads": 4} | {
    "num_hidden_layers": 4,
    "intermediate_size": 1024,
    "architectures": ["AlbertForMaskedLM"],
}
"""Four layers that are one: a weight's gradient is complete when the first of them has added to it."""
CASES = (
    *((name, *case) for name in ("llama", "gpt2") for case in (("bf16", "full"), ("bf16-mixed", "none"))),
    ("albert", "bf16", "none"),  # transformers does not checkpoint it
)


def with_steps_in_backward(model: Any, name: str) -> list[Any]:
    """Its optimizers, one for each parameter, in steady state: as torchtune's ``register_optim_in_bwd_hooks``."""
    steps = {weight: OPTIMIZERS[name]([weight]) for weight in model.parameters()}
    for weight, optimizer in steps.items():
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        optimizer.zero_grad()

    def stepped(weight: Any) -> None:
        steps[weight].step()
        steps[weight].zero_grad()

    for weight in steps:
        weight.register_post_accumulate_grad_hook(stepped)
    return list(steps.values())


def peaks_of_storages(fields: dict[str, Any], recipe: str, recompute: str, optimizer: str) -> tuple[int, int]:
    """Of forward and of backward, over what was there before."""
    again = "nonreentrant" if recompute == "full" else None
    with without_data():
        model, inputs = step(
            fields, batch=BATCH, seq=SEQ, attention="sdpa", recipe=RECIPES[recipe], recompute=again, dropout=False
        )
        steps = with_steps_in_backward(model, optimizer)
        states = [each for one in steps for state in one.state.values() for each in state.values()]
        with cuda_choices("flash", as_recorded=True), Live() as live:
            for each in (*model.parameters(), *model.buffers(), *tensors_of(inputs), *states):
                live.see(each)
            base = live.bytes
            loss = forward(model, inputs, RECIPES[recipe], None)
            ahead = live.peak() - base
            loss.backward()
            return ahead, live.peak() - base


@pytest.mark.parametrize("optimizer", ["adamw_fused", "adamw", "adamw_forloop"])
@pytest.mark.parametrize(("model_type", "recipe", "recompute"), CASES)
def test_backward_steps_and_frees(model_type: str, recipe: str, recompute: str, optimizer: str) -> None:
    fields = (ALBERT if model_type == "albert" else config(model_type)) | WIDE
    ahead, backward = peaks_of_storages(fields, recipe, recompute, optimizer)
    run = Workload(phase="train", batch_size=BATCH, seq_len=SEQ, kernel="flash", recompute=recompute, dropout=False)
    plan = Training(
        precision=recipe, optimizer=optimizer.replace("_", "-"), optimizer_in_backward=True, device="recorded"
    )
    timeline = memory(HFModel(fields), run, training=plan).more["timeline"]
    found = {phase["phase"]: phase["peak_bytes"] - phase["states_bytes"] for phase in timeline}
    assert "step" not in found
    exact = 0 if model_type != "albert" else 2e-4  # a bias's gradient is there while those of its matrix are added up
    assert max(found["forward"], found["loss"]) == ahead
    assert found["backward"] == pytest.approx(backward, rel=exact)
