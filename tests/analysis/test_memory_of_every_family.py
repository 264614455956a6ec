"""Memory of every family, at its default and at random small configs: an answer or one clear line, never a crash."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.verify.random_configs import load
from tfcalc import InvalidModel, Workload, catalog, flops, memory
from tfcalc.configs.config import model_types
from tfcalc.configs.published import HFModel
from tfcalc.plans import Serving, Training
from tfcalc.training.measured import known

TYPES = model_types()
STEP = Workload(phase="train", batch_size=2, seq_len=20)
ASKED: dict[str, dict[str, Any]] = {
    "train": {"workload": STEP, "training": Training(precision="bf16")},
    "recompute": {"workload": STEP.replaced(recompute="full"), "training": Training(precision="bf16-mixed")},
    "serve": {"workload": Workload(seq_len=20), "serving": Serving()},
}
MORE: dict[str, dict[str, Any]] = {
    "fused": {"workload": STEP, "training": Training(precision="bf16", backend="fused", optimizer="sgd")},
    "fused, recomputed": {
        "workload": STEP.replaced(recompute="full"),
        "training": Training(precision="bf16-mixed", backend="fused", optimizer="sgd"),
    },
    "adapters": {"workload": STEP, "training": Training(precision="bf16", lora=4, optimizer="sgd")},
    "fused, adapters": {"workload": STEP, "training": Training(backend="fused", lora=4, optimizer="sgd")},
    "one token": {"workload": STEP.replaced(batch_size=1, seq_len=1), "training": Training(optimizer="sgd")},
    "serve, paged": {"workload": Workload(seq_len=20), "serving": Serving(cache="paged")},
}
"""Asked of one config of each family: with SGD the peak is seldom the optimizer's step, and the tape runs twice."""


def configs(model_type: str) -> list[dict[str, Any]]:
    random, draw = Random(model_type), load().get(model_type)
    drawn = [draw(random) for _ in range(2)] if draw else []
    found = [{"model_type": model_type, **fields} for fields in [{}, *drawn]]
    return [*found, *({**found[-1], "architectures": [name]} for name in list(known(model_type))[:1])]


@pytest.mark.one_in(160)
@pytest.mark.parametrize("model_type", TYPES)
def test_every_family_has_an_answer_or_a_line_that_says_why_not(model_type: str) -> None:
    said: list[object] = []
    drawn = configs(model_type)
    questions = [
        *((config, asked) for config in drawn for asked in ASKED.values()),
        *((drawn[-1], more) for more in MORE.values()),
    ]
    for config, asked in questions:
        try:
            said.append(memory(HFModel(config), **asked).answer)
        except InvalidModel as refusal:
            said.append(refusal)
    assert not any("\n" in str(each) for each in said)
    assert any(isinstance(each, int) for each in said) or not known(model_type)


@pytest.mark.parametrize("name", ["LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification"])
def test_a_model_trains_with_any_head(name: str) -> None:
    """How much is kept is held against PyTorch in tests/verify/test_memory_of_bare_models.py."""
    small = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
    totals = memory(HFModel({**small, "architectures": [name]}), **ASKED["train"]).totals
    assert totals["activations_bytes"]


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [
        ("tapas", "TapasForQuestionAnswering"),
        ("bert", "BertForMultipleChoice"),
    ],
)
def test_a_class_that_was_not_compared_with_pytorch_is_refused(model_type: str, architecture: str) -> None:
    model = HFModel({"model_type": model_type, "architectures": [architecture]})
    expected = f"training memory is not supported for {architecture}; of {model_type} it was compared"
    with pytest.raises(InvalidModel, match=expected) as refused:
        memory(model, STEP, training=Training())
    assert len(str(refused.value)) <= 600
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("preset", [name for name in catalog.names() if name.startswith("whisper")])
def test_whisper_presets_serve_and_train(preset: str) -> None:
    """What is kept is held against PyTorch in tests/verify/test_memory_of_whisper.py."""
    model = catalog.load(preset)
    assert memory(model, Workload(), serving=Serving()).answer > 0
    assert memory(model, STEP, training=Training()).totals["activations_bytes"]


def test_a_class_by_another_name_has_the_error_of_that_with_the_same_head() -> None:
    """Llama 1 was published as LLaMAForCausalLM, which transformers has renamed."""
    assert memory(catalog.load("llama-65b"), STEP, training=Training()).answer > 0


@pytest.mark.parametrize("phase", ["forward", "train"])
def test_flops_of_every_family_at_one_token_are_an_answer_or_a_line(phase: str) -> None:
    """A batch of one, a window that a token fills: sizes that coincide change no structure."""
    refused = []
    for model_type in TYPES:
        try:
            assert flops(HFModel({"model_type": model_type}), Workload(seq_len=1, phase=phase)).answer > 0
        except InvalidModel:
            refused.append(model_type)
    assert len(refused) < len(TYPES) / 10


def test_adapters_beside_queries_of_layers_that_reuse_keys_are_no_projections_of_their_own() -> None:
    """Gemma 4's last layers have W_Q and W_O alone. Rank 2: 2(i + o) for q, o (and k, v), gate, up and down.

    Layers 0 and 1: q 16 → 16, k and v 16 → 8, o 16 → 16; layer 2 (reuses) q and o. MLP 16 → 24 twice, 24 → 16.
    """
    text = {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_global_key_value_heads": 1,
        "head_dim": 8,
        "global_head_dim": 8,
        "num_hidden_layers": 3,
        "intermediate_size": 24,
        "vocab_size": 50,
        "layer_types": ["full_attention"] * 3,
        "num_kv_shared_layers": 1,
        "hidden_size_per_layer_input": 0,
        "use_double_wide_mlp": False,
        "attention_k_eq_v": False,
    }
    model = HFModel({"model_type": "gemma4_text", **text, "architectures": ["Gemma4ForCausalLM"]})
    found = memory(model, STEP, training=Training(lora=2, optimizer="adamw"))
    own, reusing = (32 + 32) + 2 * (16 + 8), 32 + 32
    trained = 2 * (2 * own + reusing + 3 * 3 * (16 + 24))
    tensors = 2 * (2 * 7 + 5)
    assert found.totals["optimizer_bytes"] == trained * 2 * 4 + tensors * 4  # AdamW counts the steps of each
