"""Other objects than sizes and words, where a library's caller puts them: refused in one line before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

import tfcalc
from tfcalc.core.polynomial import symbol
from tfcalc.plans import Serving, Training

OBJECTS = {
    "numpy's int": np.int64(512),
    "numpy's bool": np.bool_(True),
    "an array": np.array([1, 2]),
    "a fraction": Fraction(512),
    "a decimal": Decimal(8),
    "sympy's symbol": sympy.Symbol("h"),
    "sympy's int": sympy.Integer(512),
    "a symbol": symbol("h"),
    "bytes": b"512",
    "a list": [512],
    "a type": int,
}


def asks(
    model: object, run: tfcalc.Workload | None = None, by: tfcalc.Conventions | None = None
) -> dict[str, Callable[[], object]]:
    """Every question; of a classic model also the memory of training, for its checks come first."""
    chosen: Any = model
    return {
        "params": lambda: tfcalc.params(chosen, run) if by is None else tfcalc.flops(chosen, run, by),
        "flops": lambda: tfcalc.flops(chosen, run, by),
        "memory": lambda: tfcalc.memory(chosen, run, by),
        "train": lambda: tfcalc.memory(chosen, run, by, training=Training()),
        "serve": lambda: tfcalc.memory(chosen, run, by, serving=Serving()),
        "explain": lambda: tfcalc.explain("ffn", chosen, "flops", run, by),
    }


@pytest.mark.parametrize("value", OBJECTS.values(), ids=OBJECTS)
@pytest.mark.parametrize("kind", [tfcalc.Transformer, tfcalc.Workload, tfcalc.Conventions])
def test_another_object_in_a_field_is_refused_by_every_question(kind: Any, value: object) -> None:
    for field in fields(kind):
        if field.type is bool and isinstance(value, np.bool_):
            continue
        given = kind(**{field.name: value})
        chosen = {
            tfcalc.Transformer: (given,),
            tfcalc.Workload: (tfcalc.Transformer(kind="decoder"), given),
            tfcalc.Conventions: (tfcalc.Transformer(kind="decoder"), tfcalc.Workload(), given),
        }[kind]
        for ask in asks(*chosen).values():
            with pytest.raises(tfcalc.InvalidModel, match=field.name) as refusal:
                ask()
            assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("value", [each for name, each in OBJECTS.items() if name != "a list"])
def test_another_object_in_a_config_is_refused_where_the_model_is_built(value: object) -> None:
    """Also in a field that nobody reads: --json shows it."""
    for config in ({"unread": value}, {"hidden_size": value}, {"rope_scaling": {"factor": [1, value]}}):
        with pytest.raises(tfcalc.InvalidModel, match=r"cannot be in a config\.json.*; convert it by int") as refusal:
            tfcalc.from_config({"model_type": "llama", **config})
        assert "\n" not in str(refusal.value)


def test_what_json_has_a_word_for_is_no_other_object() -> None:
    config = {"model_type": "llama", "id2label": {0: "no"}, "time": float("inf"), "sizes": (1, 2), "null": None}
    shown = json.loads(tfcalc.params(tfcalc.from_config(config)).to_json())["model"]["config"]
    assert shown == {"model_type": "llama", "id2label": {"0": "no"}, "time": "inf", "sizes": [1, 2], "null": None}


def test_a_word_of_an_enum_is_taken_where_its_text_is_the_word() -> None:
    class Kind(StrEnum):
        DECODER = "decoder"

    class Named(str, Enum):  # noqa: UP042
        DECODER = "decoder"

    shown = tfcalc.params(tfcalc.Transformer(kind=Kind.DECODER)).to_json()
    assert json.loads(shown)["model"]["kind"] == "decoder"
    with pytest.raises(tfcalc.InvalidModel, match=r"kind <Named\.DECODER: 'decoder'> is not known"):
        tfcalc.params(tfcalc.Transformer(kind=Named.DECODER))


def test_arguments_in_each_others_place_are_refused() -> None:
    model, run, plan = tfcalc.Transformer(kind="decoder"), tfcalc.Workload(), Training()
    wrong: Any
    for wrong in (tfcalc.Conventions(), plan, {}):
        with pytest.raises(tfcalc.InvalidModel, match="is not a workload"):
            tfcalc.memory(model, wrong, training=Training())
    for wrong in (run, plan, {}):
        with pytest.raises(tfcalc.InvalidModel, match="are not conventions"):
            tfcalc.memory(model, run, wrong, training=Training())
    for wrong in (run, Serving(), True):
        with pytest.raises(tfcalc.InvalidModel, match="is not a plan"):
            tfcalc.memory(model, training=wrong)
    for wrong in ("{}", ["llama"], 3):
        with pytest.raises(tfcalc.InvalidModel, match="is not a config"):
            tfcalc.from_config(wrong)
