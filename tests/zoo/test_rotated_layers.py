"""Which layers turn queries and keys by their position."""

from typing import Any

import pytest

from tfcalc import Workload, from_config
from tfcalc.analysis.common import run_tree

ARCHITECTURES: dict[str, tuple[dict[str, Any], set[int]]] = {
    # Command A, arXiv 2504.00698: three layers that slide have rotary positions, every fourth knows none.
    "cohere2": ({"sliding_window": 4}, {0, 1, 2, 4, 5, 6}),
    # EXAONE 4.0, arXiv 2507.11407: likewise where it is a hybrid; all where it is not (transformers' Exaone4Attention).
    "exaone4": ({"sliding_window": 4, "sliding_window_pattern": 4}, {0, 1, 2, 4, 5, 6}),
    # SmolLM3: every fourth layer without (transformers' SmolLM3Config, no_rope_layer_interval).
    "smollm3": ({"no_rope_layer_interval": 4}, {0, 1, 2, 4, 5, 6}),
}


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_some_layers_know_no_positions(model_type: str) -> None:
    own, expected = ARCHITECTURES[model_type]
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 8}
    model = from_config({"model_type": model_type, "vocab_size": 50, "intermediate_size": 24} | sizes | own)
    found: set[int] = set()
    for node in run_tree(model, Workload(seq_len=12)).walk():
        mixers = [part for part in node.component.parts if part.name == "self_attn"]
        if any(part.kind == "rotary" for mixer in mixers for part in mixer.parts):
            found |= set(node.component.places or range(8))
    assert found == expected
