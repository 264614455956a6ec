"""What backward computes again, of models that run: all of a layer, or as much as backward needs."""

from __future__ import annotations

import pytest

from tfcalc import Workload, flops, from_config

H, F, LAYERS, LENGTH = 64, 160, 3, 32
LLAMA = {
    "model_type": "llama",
    "hidden_size": H,
    "intermediate_size": F,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 100,
}
EMU = LLAMA | {"model_type": "emu3_text_model", "attention_dropout": 0.1}


def trained(config: dict[str, object], recompute: str, *, early_stop: bool) -> int:
    run = Workload(batch_size=1, seq_len=LENGTH, phase="train", recompute=recompute, early_stop=early_stop)
    found = flops(from_config(config), run).answer
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize(("recompute", "again"), [("full", LAYERS), ("every:2", 2)])
def test_early_stop_spares_the_last_product_of_a_layer_that_is_computed_again(recompute: str, again: int) -> None:
    """torch.utils.checkpoint, not reentrant, has W_2's input before W_2 runs: 2·l·f·h FLOPs less for each layer."""
    whole, spared = (trained(LLAMA, recompute, early_stop=stops) for stops in (False, True))
    assert whole - spared == again * 2 * LENGTH * F * H


def test_nothing_is_spared_where_dropout_follows() -> None:
    """Dropout's mask is made behind the last product, and backward needs it."""
    assert trained(EMU, "full", early_stop=True) == trained(EMU, "full", early_stop=False)
