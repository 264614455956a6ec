"""The numbers of parameters that are found one by one are those of the whole answer, and wait for no formulas."""

from __future__ import annotations

import pytest

import tfcalc
from tfcalc import Training, Transformer


@pytest.mark.parametrize("name", ["gpt2", "mixtral-8x7b", "t5-small", "bert-base-uncased", "llama-3-8b"])
def test_the_entries_are_those_of_the_answer(name: str) -> None:
    model = tfcalc.load(name)
    assert dict(tfcalc.params(model).entries()) == tfcalc.params(model).to_dict()
    assert dict(tfcalc.params(model, approx=True).entries()) == tfcalc.params(model, approx=True).to_dict()


def test_the_entries_of_the_classic_model_and_of_adapters_are_those_of_the_answer() -> None:
    assert dict(tfcalc.params(Transformer()).entries()) == tfcalc.params(Transformer()).to_dict()
    model, plan = tfcalc.load("gpt2"), Training(lora=8)
    assert dict(tfcalc.params(model, training=plan).entries()) == tfcalc.params(model, training=plan).to_dict()


def test_the_numbers_wait_for_no_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        pytest.fail("a tree of symbols was built")

    monkeypatch.setattr("tfcalc.analysis.common.with_symbols", refused)
    # 12 layers of 12 h^2 + 13 h, tables of 50,257 and 1,024 vectors, the last norm; h = 768
    expected = 12 * (12 * 768**2 + 13 * 768) + (50_257 + 1_024) * 768 + 2 * 768
    assert tfcalc.params(tfcalc.load("gpt2")).entries()["total_params"] == expected


def billions(count: int) -> float:
    return round(count / 10**9, 2)


def test_active_parameters_are_told_as_each_model_card_counts_them() -> None:
    """Cards of OpenAI (3.61B and 5.13B: no embedding), Zhipu (12B: no tables) and Qwen (3B: no tower either)."""
    for name, active in (("gpt-oss-20b", 3.61), ("gpt-oss-120b", 5.13)):
        assert billions(tfcalc.params(tfcalc.load(name)).active_non_embedding_params) == active
    assert round(tfcalc.params(tfcalc.load("glm-4.5-air")).active_layer_params / 10**9) == 12
    qwen = tfcalc.params(tfcalc.load("qwen3.5-35b-a3b"))
    assert round(qwen.active_text_params / 10**9) == 3
    said = [note for note in qwen.notes if note.startswith("Active per token")]
    for count in (qwen.active_params, qwen.active_non_embedding_params, qwen.active_text_params):
        assert f"{count:,}" in said[0]
    # by hand: the head of 248,320 words and 2,048 numbers each; the tower's tables are with the tables
    assert qwen.output_params == 248_320 * 2048
    assert qwen.active_layer_params == qwen.active_text_params - qwen.output_params


def test_experts_without_weights_are_not_counted_though_transformers_allocates_some() -> None:
    """LongCat-Flash: 560B, of which 18.6B to 31.3B active (arXiv 2509.01322). transformers 5.23 makes 741,053,585,408.

    The published files have a first map for 512 experts: 28 layers · 256 · (2 · 2,048 × 6,144) fewer.
    """
    found = tfcalc.params(tfcalc.from_config({"model_type": "longcat_flash"}))
    assert found.total_params == 741_053_585_408 - 28 * 256 * 2 * 2048 * 6144
    assert found.transformers_params == 741_053_585_408
    assert billions(found.active_non_embedding_params) == 31.38
    assert billions(found.least_active_non_embedding_params) == 18.69
    assert any("transformers 5.23 would allocate 741,053,585,408" in note for note in found.notes)
    assert "unpublished_params" not in tfcalc.params(tfcalc.load("mixtral-8x7b")).to_dict()
