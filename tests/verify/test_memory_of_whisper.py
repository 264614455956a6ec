"""Live: what Whisper saves for backward, convolution and cross-attention included, is what is said."""

from __future__ import annotations

import pytest

from tfcalc import Workload, memory
from tfcalc.configs.published import HFModel
from tfcalc.plans import Training

pytestmark = pytest.mark.torch

SMALL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": 90,
    "num_mel_bins": 16,
    "max_source_positions": 20,
    "max_target_positions": 24,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def test_training_memory_of_whisper_is_pytorchs() -> None:
    import torch
    import transformers

    from tfcalc.verify.saved import saved
    from tfcalc.verify.step import without_data

    config = transformers.WhisperConfig(**SMALL)
    config._attn_implementation = "eager"
    with without_data():
        model = transformers.WhisperForConditionalGeneration(config).train()
        sounds, ids = torch.zeros(2, 16, 40), torch.zeros(2, 11, dtype=torch.int64)
        inputs = {"input_features": sounds, "decoder_input_ids": ids, "labels": ids, "use_cache": False}
        theirs = saved(model, inputs)
    ours = HFModel({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], **SMALL})
    run = Workload(phase="train", recompute="none", batch_size=2, seq_len=11, kernel="eager")
    found = memory(ours, run, training=Training(device="recorded")).totals["activations_bytes"]
    assert found == theirs.total
