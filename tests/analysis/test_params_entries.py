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
