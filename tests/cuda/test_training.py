"""The training steps of tests/cuda, on CPU and on a model of two layers: that they train what they say."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # torch's and transformers' own

import torch  # noqa: E402  # after the skip, like what follows

from tests.cuda.settings import Setting  # noqa: E402
from tests.cuda.training import prepared, saved_bytes, train_step  # noqa: E402

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "tie_word_embeddings": False,
}
TINY = Setting("tiny", "fp32", "eager", batch=2, seq=8)


@pytest.mark.parametrize(
    "setting",
    [
        TINY,
        Setting("tiny", "fp32", "eager", 2, 8, checkpointing=True),
        Setting("tiny", "fp32", "eager", 2, 8, loop="tutorial"),
    ],
)
def test_a_step_trains(setting: Setting) -> None:
    torch.manual_seed(0)
    model, inputs = prepared(setting, CONFIG, "cpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    found = [train_step(setting, model, inputs, optimizer, scaler) for _ in range(5)]
    assert [hasattr(held, "logits") for held in found] == [setting.loop == "tutorial"] * 5
    losses = [float(held.loss if setting.loop == "tutorial" else held) for held in found]
    assert losses[-1] < losses[0]


def test_lora_trains_its_adapters_alone() -> None:
    """Two matrices of rank 4 for q (32 x 32) and v (32 x 16) in each of two layers; B begins with zeros."""
    setting = Setting("tiny", "fp32", "eager", 2, 8, lora=4)
    torch.manual_seed(0)
    model, inputs = prepared(setting, CONFIG, "cpu")
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert sum(weight.numel() for weight in trained.values()) == 2 * 4 * (32 + 32 + 32 + 16)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = torch.optim.AdamW(trained.values(), lr=1e-2, weight_decay=0.0)
    train_step(setting, model, inputs, optimizer, torch.amp.GradScaler("cpu", enabled=False))
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name in trained if ".lora_B." in name}  # A has no gradient while B is zero


def test_saved_bytes_of_a_linear_layer() -> None:
    """A linear layer saves its input for its weight's gradient, the mean of squares the result twice (2 · r · dr)."""
    layer = torch.nn.Linear(8, 4, bias=False)

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> object:
            loss = (self.layer(x * 2.0) ** 2).mean()
            return type("Out", (), {"loss": loss})

    assert saved_bytes(TINY, Loss(), {"x": torch.ones(3, 8)}) == 4 * (3 * 8 + 3 * 4)
