"""The options that a file of budgets may set: of its models, of its scenarios, and at its top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfcalc.budgets.file_schema import OptionSchemas, Schema, schema
from tfcalc.budgets.keys import KnownOptions
from tfcalc.cli.commands import command, every
from tfcalc.cli.options import DEPTH, MODEL_ARGUMENT, MODEL_FIELDS, MODEL_OPTIONS, READ_AS, SHOW, UNITS, Option, keyed
from tfcalc.report.paths import ABOUT_ONE_MODEL

NOT_RUN = frozenset(("max", *(option.name for option in (*MODEL_OPTIONS, *SHOW, *UNITS, DEPTH, MODEL_ARGUMENT))))
"""Options of the commands that say which model is meant, how an answer looks, or what is the most allowed."""


def of_model() -> tuple[Option, ...]:
    """Options that describe a model beside its config or its preset: which type it is read as, and its sizes."""
    return (*(option for option in READ_AS if option.name == "treat_as"), *MODEL_FIELDS)


def of_scenario() -> tuple[Option, ...]:
    """Options that describe a run: those of the commands that budgets ask, except those that are only typed."""
    asked = (option for option in _asked() if option.name not in NOT_RUN and not option.typed)
    return tuple({option.name: option for option in asked}.values())


def _asked() -> Iterator[Option]:
    for name in ABOUT_ONE_MODEL:
        yield from command(name).options


def known_options() -> KnownOptions:
    """The names of all of them, by their keys."""
    return KnownOptions(lambda: _by_key(every()), _by_key(of_model()), _by_key(of_scenario()))


def _by_key(options: Iterable[Option]) -> dict[str, str]:
    return {key: option.name for key, option in keyed(options).items()}


def file_schema() -> Schema:
    """The JSON Schema of a tfcalc.toml."""
    at_the_top = (option for option in every() if not option.typed)
    return schema(OptionSchemas(_schemas(at_the_top), _schemas(of_model()), _schemas(of_scenario())))


def _schemas(options: Iterable[Option]) -> dict[str, Schema]:
    """Schema of each key's value: either one, for a key that means one thing to one command and another to the next."""
    found: dict[str, list[Schema]] = {}
    for option in options:
        meant = {"description": option.help} | _may_be(option)
        for key in keyed([option]):
            if meant not in found.setdefault(key, []):
                found[key].append(meant)
    return {key: meant[0] if len(meant) == 1 else {"anyOf": meant} for key, meant in found.items()}


def _may_be(option: Option) -> Schema:
    """The values of an option in TOML, each in its first spelling."""
    if option.switch:
        return {"type": "boolean"}
    if option.number:
        return {"anyOf": [{"type": "integer", "minimum": option.least}, {"type": "string"}]}
    if option.amount:
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}
    if not option.known:
        return {"type": "string"}
    words = [word for word in (*option.known, *option.spellings) if not word.endswith(":N")]
    counted = [word.removesuffix("N") for word in option.known if word.endswith(":N")]
    patterns = [{"type": "string", "pattern": f"^{prefix}[1-9][0-9]{{0,5}}$"} for prefix in counted]
    return {"anyOf": [{"enum": words}, *patterns]} if patterns else {"enum": words}
