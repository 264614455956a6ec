"""Live: what layers read waits in the host's memory until backward runs them again, as transformers does it itself."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Training, Workload, memory
from tfcalc.configs.published import HFModel

torch = pytest.importorskip("torch")
modeling_utils = pytest.importorskip("transformers.modeling_utils")
pytestmark = pytest.mark.torch

from tests.verify.live import Live  # noqa: E402  # after the skip, like what follows
from tests.verify.test_peaks_against_transformers import RECIPES, config  # noqa: E402
from tfcalc.verify.cuda_choices import cuda_choices  # noqa: E402
from tfcalc.verify.saved import forward, tensors_of  # noqa: E402
from tfcalc.verify.step import step, without_data  # noqa: E402

BATCH, SEQ = 16, 96
DEEP = {"llama": {"num_hidden_layers": 9, "vocab_size": 50}, "gpt2": {"n_layer": 9, "vocab_size": 50}} | {
    "qwen3": {"num_hidden_layers": 9, "vocab_size": 50}
}
"""Layers enough, and words so few, that what the layers have read is most of the peak."""


class Host(torch.autograd.graph.saved_tensors_hooks):  # type: ignore[misc,name-defined]
    """save_on_cpu whose copies on the host are not looked at: on CPU tensors both are in one memory."""

    live: Live
    bytes = 0

    def __init__(self, **_: object) -> None:
        def pack(tensor: Any) -> Any:
            self.live.looks = False
            copy = tensor.clone()
            self.live.looks = True
            Host.bytes += copy.nbytes
            return copy

        super().__init__(pack, lambda copy: copy.clone())


@pytest.mark.parametrize(
    ("model_type", "recipe"),
    [("gpt2", "bf16"), ("gpt2", "bf16-mixed"), ("qwen3", "bf16"), ("qwen3", "bf16-mixed"), ("llama", "bf16")],
)
def test_the_peak_and_what_the_host_holds(model_type: str, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = config(model_type) | DEEP[model_type]
    monkeypatch.setattr(modeling_utils, "save_on_cpu", Host)
    with without_data():
        model, inputs = step(
            fields, batch=BATCH, seq=SEQ, attention="sdpa", recipe=RECIPES[recipe], recompute=None, dropout=False
        )
        model.activation_checkpointing_enable(offload=True)
        with cuda_choices("flash", as_recorded=True), Live() as live:
            monkeypatch.setattr(Host, "live", live, raising=False)
            monkeypatch.setattr(Host, "bytes", 0)
            for each in (*model.parameters(), *model.buffers(), *tensors_of(inputs)):
                live.see(each)
            base = live.bytes
            loss = forward(model, inputs, RECIPES[recipe], None)
            ahead = live.peak() - base
            loss.backward()
            backward = live.peak() - base
            model.zero_grad()
    run = Workload(phase="train", batch_size=BATCH, seq_len=SEQ, kernel="flash", recompute="full", dropout=False)
    plan = Training(precision=recipe, optimizer="none", offload_activations=True, device="recorded")
    report = memory(HFModel(fields), run, training=plan)
    found = {phase["phase"]: phase["peak_bytes"] - phase["states_bytes"] for phase in report.more["timeline"]}
    assert report.totals["host_bytes"] == Host.bytes == 9 * BATCH * SEQ * int(model.config.hidden_size) * width(recipe)
    assert max(found["forward"], found["loss"]) == ahead
    assert found["backward"] == pytest.approx(backward, rel=1e-2)


def width(recipe: str) -> int:
    """Bytes of what layers read: between them autocast leaves fp32 as it is."""
    return 2 if recipe == "bf16" else 4
