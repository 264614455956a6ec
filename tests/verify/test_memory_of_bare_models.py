"""Live: what models without a head keep for backward, as embedding models are trained, equal to PyTorch's bytes."""

from __future__ import annotations

import pytest

from tfcalc import Workload, memory
from tfcalc.configs.published import HFModel
from tfcalc.plans import Training

pytestmark = pytest.mark.torch

SMALL = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "vocab_size": 90,
    "head_dim": 8,
}


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [
        ("gemma3_text", "Gemma3TextModel"),
        ("llama", "LlamaModel"),
        ("mistral", "MistralModel"),
        ("qwen3", "Qwen3Model"),
    ],
)
def test_a_model_without_a_head_keeps_what_pytorch_keeps(model_type: str, architecture: str) -> None:
    import torch
    import transformers

    from tfcalc.verify.saved import saved
    from tfcalc.verify.step import without_data

    config = transformers.AutoConfig.for_model(model_type, **SMALL)
    config._attn_implementation = "eager"
    with without_data():
        model = getattr(transformers, architecture)(config).train()
        inputs = {"input_ids": torch.empty(2, 15, dtype=torch.int64), "use_cache": False}
        theirs = saved(model, inputs, loss=lambda out: out.last_hidden_state)
    ours = HFModel({"model_type": model_type, "architectures": [architecture], **SMALL})
    run = Workload(phase="train", recompute="none", batch_size=2, seq_len=15, kernel="eager")
    assert memory(ours, run, training=Training(device="recorded")).totals["activations_bytes"] == theirs.total
