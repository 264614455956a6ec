"""Live: the peaks of training steps, phase by phase, beside PyTorch's memory tracker, on random small models."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tfcalc import Workload, memory
from tfcalc.configs.published import HFModel
from tfcalc.plans import Training

pytestmark = pytest.mark.torch

RECIPES = {"fp32": "fp32", "bf16": "bf16", "bf16-mixed": "autocast"}
TWO_STACKS = ("t5", "bart")
FAMILIES = (
    *("bert", "gpt2", "gpt_neox", "llama", "mistral", "opt", "qwen2", "t5", "bart"),
    *("bloom", "falcon", "gemma3_text", "olmo2", "phi", "qwen3"),
)
FEW_WORDS = ("bloom", "gemma3_text", "olmo2", "phi", "qwen3")
"""Peaks of models with few words are in a layer, not in the loss."""
EAGER_ALONE = ("bloom",)
CASES = (("fp32", "eager", "none"), ("bf16", "flash", "none"), ("bf16-mixed", "flash", "full"))
PHASES = {"forward": "fwd_peak", "backward": "bwd_peak", "step": "step_peak"}


def config(model_type: str) -> dict[str, Any]:
    """A small model, its sizes drawn at random."""
    random = Random(model_type)
    heads, layers = random.choice([4, 8]), random.randint(2, 4)
    h, f = heads * 16, 8 * random.randint(20, 40)
    vocabulary = random.randint(*((50, 70) if model_type in FEW_WORDS else (300, 900)))
    sizes = {
        "bart": {"d_model": h, "encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": f}
        | {"decoder_ffn_dim": f, "encoder_attention_heads": heads, "decoder_attention_heads": heads},
        "gpt2": {"n_embd": h, "n_head": heads, "n_layer": layers, "n_inner": f},
        "opt": {"hidden_size": h, "word_embed_proj_dim": h, "num_attention_heads": heads, "ffn_dim": f}
        | {"num_hidden_layers": layers},
        "t5": {"d_model": h, "d_kv": 16, "num_heads": heads, "num_layers": layers, "d_ff": f},
    }
    usual = {"hidden_size": h, "num_attention_heads": heads, "num_hidden_layers": layers, "intermediate_size": f}
    grouped = {"num_key_value_heads": heads // 2} if model_type in ("llama", "mistral", "qwen2", "qwen3") else {}
    windows = {"sliding_window": 40} if model_type == "mistral" else {}
    narrow = {"head_dim": 16} if model_type in ("gemma3_text", "qwen3") else {}
    head = {
        "bart": "BartForConditionalGeneration",
        "bert": "BertForMaskedLM",
        "gemma3_text": "Gemma3ForCausalLM",
        "t5": "T5ForConditionalGeneration",
    }
    heads_of = {"architectures": [head[model_type]]} if model_type in head else {}
    return {
        "model_type": model_type,
        "vocab_size": vocabulary,
        **sizes.get(model_type, usual),
        **grouped,
        **windows,
        **narrow,
        **heads_of,
    }


@pytest.mark.parametrize(
    ("model_type", "recipe", "kernel", "recompute"),
    [(name, *case) for name in FAMILIES for case in CASES if name not in EAGER_ALONE or "eager" in case],
)
def test_each_phase_peaks_where_the_tracker_has_it(model_type: str, recipe: str, kernel: str, recompute: str) -> None:
    from tests.verify.peaks import peaks
    from tfcalc.verify.step import step, without_data

    fields, batch, seq = config(model_type), 4, 96
    target = seq // 2 if model_type in TWO_STACKS else None
    with without_data():
        model, inputs = step(
            fields,
            batch=batch,
            seq=seq,
            target=target,
            attention="eager" if kernel == "eager" else "sdpa",
            recipe=RECIPES[recipe],
            recompute="nonreentrant" if recompute == "full" else None,
        )
        tracked = peaks(model, inputs, recipe=RECIPES[recipe], optimizer="adamw", as_recorded=True)
    run = Workload(
        phase="train",
        batch_size=batch,
        seq_len=target or seq,
        source_len=seq if target else None,
        kernel=kernel,
        recompute=recompute,
    )
    plan = Training(precision=recipe, optimizer="adamw", device="recorded")
    timeline = memory(HFModel(fields), run, training=plan).more["timeline"]
    phases = {phase["phase"]: phase["peak_bytes"] for phase in timeline}
    phases["forward"] = max(phases["forward"], phases["loss"])
    for ours, theirs in PHASES.items():
        assert phases[ours] == pytest.approx(tracked.total(theirs), rel=0.01), ours
