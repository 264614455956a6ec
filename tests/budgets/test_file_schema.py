"""What an editor marks as a mistake is one, and what is read it leaves alone."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.budgets.files import GOOD, MISTAKES, WHOLE
from tfcalc.budgets.keys import BUDGET, MODEL, TOP
from tfcalc.cli.budget_options import file_schema, known_options

BEYOND = {
    # names of models and scenarios, which stand elsewhere in the file
    *("another model", "no models", "another scenario", "no scenarios"),
    # paths into answers, and units that follow from them
    *("another metric", "another command", "a command alone", "an ambiguous metric", "a metric with a hole"),
    *("part of a parameter", "bytes of parameters", "a count of bytes"),
    # two values, or two spellings, together
    *("nothing between", "a warning behind", "a warning under a least", "a warning in per cent"),
    *("an option twice", "the same twice", "a card of its scenario"),
    # names of cards
    "another card",
    # what JSON has no word for: a number without end
    "a limit without end",
    # a day that no calendar has: format is a hint in JSON Schema 2020-12
    "a day",
}
"""The mistakes that a schema cannot say."""


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(file_schema())
    return Draft202012Validator(file_schema())


def as_json(text: str) -> Any:
    """The values of a TOML text as an editor holds them against a schema: dates are text."""
    return json.loads(json.dumps(tomllib.loads(text), default=str))


@pytest.mark.parametrize("text", [*GOOD.values(), WHOLE], ids=[*GOOD, "whole"])
def test_what_is_read_is_valid(text: str, validator: Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(as_json(text))] == []


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_structure_is_marked(name: str, validator: Draft202012Validator) -> None:
    assert validator.is_valid(as_json(MISTAKES[name][0])) == (name in BEYOND)


def test_every_key_is_described() -> None:
    schema = file_schema()
    tables: Any = schema["properties"]
    for key in TOP:
        assert tables[key.name]["description"] == key.meaning
    budget = tables["budget"]["items"]
    assert list(budget["properties"]) == [key.name for key in BUDGET]
    assert all(one["description"] and one["examples"] for one in budget["properties"].values())
    model = tables["models"]["additionalProperties"]
    assert {key.name for key in MODEL} | known_options().model.keys() == model["properties"].keys()
    assert tables["scenarios"]["additionalProperties"]["properties"].keys() == known_options().scenario.keys()
    assert all(one["description"] for one in model["properties"].values())


def test_the_examples_are_valid() -> None:
    properties: Any = file_schema()["properties"]
    for described in (properties["models"]["additionalProperties"], properties["budget"]["items"]):
        for one in described["properties"].values():
            for example in one.get("examples", ()):
                assert Draft202012Validator(one).is_valid(example)
