"""The shapes that transformers' modules give back are those that tfcalc lists."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tfcalc import Workload, from_config, shapes

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
pytestmark = pytest.mark.torch

BATCH, LENGTH = 3, 7
CONFIGS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {
        "model_type": "llama",
        "vocab_size": 50,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 10,
    },
    "GPT2LMHeadModel": {"model_type": "gpt2", "vocab_size": 50, "n_embd": 48, "n_layer": 2, "n_head": 6},
    "BertModel": {
        "model_type": "bert",
        "vocab_size": 50,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
    },
}
LAYER = re.compile(r"\.\d+(?=\.|$)")


def given_back(architecture: str, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of what each module gives back, or of the first tensor of it."""
    built = transformers.AutoConfig.for_model(**config)
    with torch.device("meta"):
        model = getattr(transformers, architecture)(built).eval()
    found: dict[str, tuple[int, ...]] = {}

    def hook(path: str) -> Any:
        def note(_module: Any, _given: Any, made: Any) -> None:
            first = made[0] if isinstance(made, tuple) else made
            if isinstance(first, torch.Tensor):
                found[LAYER.sub("", path)] = tuple(first.shape)

        return note

    for path, module in model.named_modules():
        module.register_forward_hook(hook(path))
    model(torch.zeros((BATCH, LENGTH), dtype=torch.long, device="meta"))
    return found


@pytest.mark.parametrize("architecture", CONFIGS)
def test_modules_give_back_what_is_listed(architecture: str) -> None:
    config = CONFIGS[architecture]
    theirs = given_back(architecture, config)
    model = from_config({**config, "architectures": [architecture]})
    ours = shapes("complete", model, Workload(batch_size=BATCH, seq_len=LENGTH)).results
    last = {".".join(made.modules[:depth]): made.sizes for made in ours for depth in range(1, len(made.modules) + 1)}
    compared = theirs.keys() & last.keys()
    assert {path: last[path] for path in compared} == {path: theirs[path] for path in compared}
    assert len(compared) >= 9, sorted(compared)
