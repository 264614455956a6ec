"""Configs at the edge of what families read: lists without entries, and sizes that happen to be equal."""

from __future__ import annotations

from typing import Any

import pytest

import tfcalc
from tfcalc.configs.published import HFModel
from tfcalc.errors import InvalidModel

EMPTY: dict[str, dict[str, object]] = {
    "no kinds of layers": {"model_type": "nemotron_h", "layers_block_type": []},
    "no kinds by their older name": {"model_type": "nemotron_h", "layer_types": []},
    "an empty pattern": {"model_type": "nemotron_h", "hybrid_override_pattern": "", "num_hidden_layers": 0},
    "an empty pattern inside": {"model_type": "nemo_speechlm", "text_config": {"hybrid_override_pattern": ""}},
    "no blocks": {"model_type": "funnel", "block_sizes": []},
    "no languages": {"model_type": "xmod", "languages": []},
    "no stages": {"model_type": "swin", "depths": [], "num_heads": []},
    "no layers that are read": {"model_type": "llava", "vision_feature_layer": []},
    "a window of nothing": {"model_type": "led", "attention_window": [0], "encoder_layers": 1},
    "half a window of nothing": {"model_type": "led", "attention_window": [1], "encoder_layers": 1},
    "the same of all layers": {"model_type": "longformer", "attention_window": 1},
}


@pytest.mark.parametrize("config", EMPTY.values(), ids=EMPTY)
def test_a_list_that_leaves_nothing_is_refused(config: dict[str, object]) -> None:
    """They were an IndexError, a ValueError of max(), a division by zero, and a local variable without a value."""
    with pytest.raises(InvalidModel, match=r"no layers|empty list|must be at least 2"):
        tfcalc.params(tfcalc.from_config(config))


@pytest.mark.parametrize("model_type", ["gemma4_text", "dots3_note_text"])
@pytest.mark.parametrize("key", ["²", "9" * 5_000, "x"])
def test_a_key_that_names_no_layer_is_passed_over(model_type: str, key: str) -> None:
    """``int("²")`` raises, though Python calls it a digit; so does one of 5,000 digits."""

    def params(named: str) -> int:
        return tfcalc.params(tfcalc.from_config({"model_type": model_type, "per_layer_config": {named: {}}})).answer

    assert params(key) == params("999")  # a layer that there is not


def nas(*multiples: float, width: int = 64) -> dict[str, object]:
    """Layers of Nemotron-NAS whose feed-forward networks are so many times two thirds of the width."""
    there = {"no_op": False, "replace_with_linear": False}
    blocks = [{"attention": {"n_heads_in_group": 8, **there}, "ffn": {"ffn_mult": each, **there}} for each in multiples]
    sizes = {"hidden_size": width, "num_attention_heads": 8, "vocab_size": 100, "num_hidden_layers": len(blocks)}
    return {"model_type": "nemotron-nas", **sizes, "block_configs": blocks}


def coinciding() -> dict[str, tuple[dict[str, object], int]]:
    """Models with layers whose closed forms differ and come to the same numbers; and how many kinds these are."""
    gemma: dict[str, object] = {"model_type": "gemma4_text", "head_dim": 64, "global_head_dim": 64}
    return {
        "two widths": (nas(1.75, 5.75), 2),  # 256 is the least
        "wide layers": (nas(1.0, 1.01, width=8192), 2),
        "a third between them": (nas(1.75, 30.0, 5.75, 1.75), 3),
        "two head widths": (gemma, 2),
    }


@pytest.mark.parametrize(("config", "kinds"), coinciding().values(), ids=coinciding())
def test_layers_that_come_to_the_same_numbers_stand_apart(config: dict[str, object], kinds: int) -> None:
    """The tree of numbers had fewer parts than that of formulas: every question with both was a ValueError of zip()."""
    model = tfcalc.from_config(config)
    assert isinstance(model, HFModel)
    report: Any = tfcalc.params(model, depth=9).to_dict()
    (base,) = (part for part in report["components"] if part["name"] == "model")
    layers = [part for part in base["parts"] if part["name"].startswith("layers[")]
    assert len(layers) == kinds
    assert sum(part["copies"] for part in layers) == model.values()["n"]
    assert sum(part["params"] for part in base["parts"]) == base["params"]
    closed = tfcalc.formula("complete", model=model)
    assert closed.at(**{letter: model.values()[letter] for letter in closed.legend}) == report["total_params"]
    for ask in (tfcalc.flops, tfcalc.memory):
        assert ask(model).answer
    assert tfcalc.formulas(model).parts
    assert sum(line.value for line in tfcalc.explain("complete", model).lines) == report["total_params"]
