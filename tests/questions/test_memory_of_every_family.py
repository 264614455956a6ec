"""Memory of every family, at its default and at random small configs: an answer or one clear line, never a crash."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.verify.random_configs import load
from tfcalc import InvalidModel, Workload, memory
from tfcalc.configs.family import modules
from tfcalc.configs.published import Published
from tfcalc.held.plans import Serving, Training
from tfcalc.implementations.transformers.measured import MOST, errors

TYPES = sorted({name for names in modules().values() for name in names})
STEP = Workload(phase="train", batch_size=2, seq_len=20)
ASKED: dict[str, dict[str, Any]] = {
    "train": {"workload": STEP, "training": Training(precision="bf16")},
    "recompute": {"workload": STEP.replaced(recompute="full"), "training": Training(precision="bf16-mixed")},
    "serve": {"workload": Workload(seq_len=20), "serving": Serving()},
}


def configs(model_type: str) -> list[dict[str, Any]]:
    random, draw = Random(model_type), load().get(model_type)
    drawn = [draw(random) for _ in range(2)] if draw else []
    return [{"model_type": model_type, **fields} for fields in [{}, *drawn]]


@pytest.mark.parametrize("model_type", TYPES)
def test_every_family_has_an_answer_or_a_line_that_says_why_not(model_type: str) -> None:
    said: list[object] = []
    for config in configs(model_type):
        for asked in ASKED.values():
            try:
                said.append(memory(Published(config), **asked).answer)
            except InvalidModel as refusal:
                said.append(refusal)
    assert not any("\n" in str(each) for each in said)
    assert any(isinstance(each, int) for each in said) or abs(errors().get(model_type, 1)) > MOST


@pytest.mark.parametrize("name", ["LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification"])
def test_a_model_trains_with_any_head(name: str) -> None:
    """How much is kept is held against PyTorch in tests/verify/test_memory_of_bare_models.py."""
    small = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
    totals = memory(Published({**small, "architectures": [name]}), **ASKED["train"]).totals
    assert totals["activations_bytes"]
