"""The JSON Schema of the file, for editors: it completes keys and words, and marks most mistakes while one types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from tfcalc.budgets import keys
from tfcalc.budgets.keys import BUDGET, LONGEST_NAME, MODEL, MOST, MOST_PATTERNS, TOP, BudgetKey
from tfcalc.budgets.limits import EQUALS, FITS_GPU, MAX, MIN, RELATIVE, RULES
from tfcalc.dimensions import Choice, facet
from tfcalc.hardware import MOST_PRICE
from tfcalc.named_tuple import NamedTuple
from tfcalc.workload import Conventions

Schema = dict[str, object]
OptionSchema = Mapping[str, Schema]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBER = r"\s*\+?\d[\d_,]*(\.\d*)?([eE][+-]?\d{1,3})?\s*"
NAMES = rf"^(?=.*\S)[^\x00-\x1f\x7f]{{1,{LONGEST_NAME}}}$"
RELATIVE_PATH = r"^(?![/\\~]|.:[/\\])(?=.*\S)[^\x00-\x1f\x7f]*$"


class OptionSchemas(NamedTuple):
    """Schemas of the options, by key: at the file's top, of a model, and of a scenario."""

    top: OptionSchema
    model: OptionSchema
    scenario: OptionSchema


def schema(options: OptionSchemas) -> Schema:
    """The schema of a tfcalc.toml whose options are these."""
    tables: dict[str, Schema] = {
        "version": {"enum": [keys.VERSION]},
        "conventions": _object(_conventions()),
        "models": _named(_model(options.model)),
        "prices": _named({"type": "number", "exclusiveMinimum": 0, "maximum": MOST_PRICE}),
        "scenarios": _named(_object(options.scenario)),
        "budget": {"type": "array", "items": _budget(), "maxItems": MOST},
    }
    described = {key.name: _described(key) | tables[key.name] for key in TOP}
    return {
        "$schema": DIALECT,
        "title": "tfcalc.toml",
        "description": "Options' values, and capacity budgets of transformers: tfcalc budget",
        **_object({**options.top, **described}),
    }


def _object(properties: OptionSchema) -> Schema:
    """A table with these keys and no others; one of several words may be written with - as with _."""
    dashed = {f"^{name.replace('_', '-')}$": value for name, value in properties.items() if "_" in name}
    return {
        "type": "object",
        "properties": dict(properties),
        **({"patternProperties": dashed} if dashed else {}),
        "additionalProperties": False,
    }


def _named(value: Schema) -> Schema:
    return {"type": "object", "propertyNames": {"pattern": NAMES}, "additionalProperties": value, "maxProperties": MOST}


def _described(key: BudgetKey) -> Schema:
    return {"description": key.meaning, "examples": [key.example]}


def _conventions() -> dict[str, Schema]:
    """A key of one word each, as :class:`~tfcalc.workload.Conventions` declares it."""
    found: dict[str, Schema] = {}
    for item in fields(Conventions):
        choice = facet(item)
        if isinstance(choice, Choice):
            found[item.name] = {"description": choice.meaning, "enum": list(choice.known)}
    return found


def _model(options: OptionSchema) -> Schema:
    own: dict[str, Schema] = {key.name: _described(key) | {"type": "string", "pattern": r"\S"} for key in MODEL}
    own["config"]["pattern"] = RELATIVE_PATH
    sources = {"not": {"required": [key.name for key in MODEL]}}
    return {**_object({**own, **options}), "minProperties": 1, **sources}


def _budget() -> Schema:
    """One [[budget]]: what it needs, and which keys go together."""
    changes = [rule for rule in RULES if rule != EQUALS]
    return {
        "type": "object",
        "properties": {key.name: _described(key) | _value(key) for key in BUDGET},
        "additionalProperties": False,
        "required": [key.name for key in BUDGET if key.needed],
        "oneOf": [
            {"required": ["metric"], "anyOf": _having(RULES), "not": {"required": [FITS_GPU]}},
            {"required": [FITS_GPU], "not": {"anyOf": _having(("metric", *RULES, "warn"))}},
        ],
        "not": {"required": [EQUALS], "anyOf": _having((MAX, MIN))},
        "if": {"required": ["warn"]},
        "then": {"oneOf": _having(changes), "not": {"required": [EQUALS]}},
    }


def _having(names: Iterable[str]) -> list[Schema]:
    return [{"required": [name]} for name in names]


def _value(key: BudgetKey) -> Schema:
    """Schema of a key's value."""
    text: Schema = {"type": "string", "pattern": r"\S"}
    if key.known:
        return {"enum": list(key.known), "default": key.known[0]}
    if key.kind == keys.TEXTS:
        return {"anyOf": [text, {"type": "array", "items": text, "minItems": 1, "maxItems": MOST_PATTERNS}]}
    if key.kind == keys.DATE:
        return {"type": "string", "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
    if key.kind == keys.AMOUNT:
        ending = "%|" if key.name in RELATIVE or key.name == "warn" else ""
        written = {"type": "string", "pattern": rf"^{NUMBER}({ending}[A-Za-z]*)\s*$"}
        return {"anyOf": [{"type": "number", "minimum": 0}, written]}
    return text if key.name != "why" else {"type": "string"}
