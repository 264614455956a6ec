"""The JSON Schema of an answer whose keys are declared (:mod:`tfcalc.report.declared`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfcalc.report.declared import FurtherKeys

if TYPE_CHECKING:
    from tfcalc.report.declared import Answer, Key, Keyed

Schema = dict[str, Any]
GROWS = "Keys may be added within a schema_version, so ignore those that you do not know."


def answer_schema(base: type[Answer], forms: Sequence[type[Answer]] = ()) -> Schema:
    """The schema of what a command answers: what all of its ``forms`` have (``base``), and what each has.

    The definitions of shared.json are referred to.
    """
    keys = dict(base.keys)
    for form in forms:
        keys |= {name: key for name, key in form.keys.items() if name not in keys}
    ordered = sorted(keys, key=lambda name: keys[name].place)
    found: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tfcalc {base.command} --json",
        "description": base.about,
        "$comment": GROWS,
        "type": "object",
        "required": ["schema_version", "command", *_required(base.keys.values())],
        "properties": {
            "schema_version": {"$ref": "shared.json#/$defs/schema_version"},
            "command": {"const": base.command, "type": "string", "description": "the command that was asked"},
            **{name: _key(keys[name], base) for name in ordered},
        },
        "additionalProperties": False,
    }
    titled = [form for form in forms if form.form]
    if described := [*(_form(form, base) for form in titled), *_forms_of_keys(keys.values())]:
        exclusive = base.exclusive or all(form.constants for form in titled)
        found["oneOf" if exclusive else "anyOf"] = described
    if together := _together(key for each in (base, *forms) for key in each.keys.values()):
        found["dependentRequired"] = together
    if defined := {
        key.record.definition: key.record for key in keys.values() if key.record and key.record.definition[0]
    }:
        found["$defs"] = {name: {**_record(kind), "description": about} for (name, about), kind in defined.items()}
    return found


def _required(keys: Any) -> list[str]:
    return [key.name for key in keys if key.when is None]


def _form(form: type[Answer], base: type[Answer]) -> Schema:
    """A form of the answer: the keys that it always has beyond those of all, and its definitions."""
    found: Schema = {"title": form.form}
    required = [name for name in _required(form.keys.values()) if name not in base.keys]
    if required:
        found["required"] = required
    conventions: Schema = {}
    if form.constants:
        conventions["properties"] = {name: {"const": value} for name, value in form.constants.items()}
    if further := [name for name in form.stated if name not in base.stated]:
        conventions["required"] = further
    properties = {name: {"items": {"required": list(keys)}} for name, keys in form.record_keys.items()}
    if conventions:
        properties["conventions"] = conventions
    if properties:
        found["properties"] = properties
    if form.lacks:
        found["not"] = {"required": list(form.lacks)}
    return found


def _forms_of_keys(keys: Iterable[Key[Any]]) -> Iterator[Schema]:
    """The forms that keys name, each with the keys that come with it, and those of the objects in a list."""
    inner = {key.name: key.record.keys.values() for key in keys if key.record is not None}
    for title in dict.fromkeys(key.when.form for key in keys if key.when is not None and key.when.form):
        found: Schema = {"title": title, "required": _of_form(keys, title)}
        further = {name: required for name, within in inner.items() if (required := _of_form(within, title))}
        if further:
            found["properties"] = {name: {"items": {"required": required}} for name, required in further.items()}
        yield found


def _of_form(keys: Iterable[Key[Any]], title: str) -> list[str]:
    return [key.name for key in keys if key.when is not None and key.when.form == title]


def _key(key: Key[Any], base: type[Answer]) -> Schema:
    if key.schema.get("$ref") == "shared.json#/$defs/conventions":
        return {**key.schema, "required": list(base.stated)}
    return _value(key)


def _value(key: Key[Any]) -> Schema:
    """The schema of a key's value."""
    if key.record is None:
        return dict(key.schema)
    name, _ = key.record.definition
    described = {"$ref": f"#/$defs/{name}"} if name else _record(key.record)
    return {**key.schema, "items": described} if key.schema["type"] == "array" else {**described, **key.schema}


def _record(record: type[Keyed]) -> Schema:
    found: Schema = {
        "type": "object",
        "required": _required(key for key in record.keys.values() if not isinstance(key, FurtherKeys)),
        "properties": {},
        "additionalProperties": False,
    }
    for name, key in record.keys.items():
        if isinstance(key, FurtherKeys):
            found["required"] += key.required
            found["properties"] |= key.schema["properties"]
            found |= {"patternProperties": dict(key.pattern)} if key.pattern else {}
        else:
            found["properties"][name] = _value(key)
    return found


def _together(keys: Any) -> dict[str, list[str]]:
    """Keys that come with another."""
    found: dict[str, list[str]] = {}
    for key in keys:
        if key.when is not None and key.when.anchor and key.name != key.when.anchor:
            others = found.setdefault(key.when.anchor, [])
            others += [] if key.name in others else [key.name]
            if key.when.mutual:
                found[key.name] = [key.when.anchor]
    return found
