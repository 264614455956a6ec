"""The keys that a schema describes, as a list: path, type, when it is there, meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tfcalc.named_tuple import NamedTuple
from tfcalc.schemas import HERE, Schema

ALWAYS = "always"
ANY = "*"
"""A key that is a name of one's own: ``models.*.config``."""
VARIANTS = ("oneOf", "anyOf")
"""What lists the forms that an answer may have, each with a title that says when."""

OF_VALUES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
"""The types of words that are listed."""

Forms = Sequence[tuple[str, Schema]]
"""The forms of an answer, as far as they speak of one of its objects."""


class ListedKey(NamedTuple):
    """A key by its ``path`` (``components[].params``), with its types and its ``meaning``.

    ``when`` is when its object has it: ``always``, or with the forms (``--train``) and keys (``with fits``) that
    it comes with; nothing where that depends on what was asked.
    """

    path: str
    types: tuple[str, ...]
    when: tuple[str, ...]
    meaning: str


def keys(schema: Schema) -> Iterator[ListedKey]:
    """Yield every key of a complete schema, parents first; an object that contains itself is entered once.

    A key that several forms have is that of the first.
    """
    found: dict[str, ListedKey] = {}
    for key in _below(schema, schema.get("$defs", {}), [], "", ()):
        found.setdefault(key.path, key)
    yield from found.values()


def _keys(schema: Schema, known: Schema, forms: Forms, within: str, entered: tuple[str, ...]) -> Iterator[ListedKey]:
    """The keys of an object, of the objects in it, and of those in its lists."""
    for name, stated in schema.get("properties", {}).items():
        path, reference = f"{within}{name}", stated.get("$ref", "")
        whole = _resolved(stated, known)
        yield ListedKey(path, _types(whole, known), _when(name, schema, forms), str(whole.get("description", "")))
        if reference not in entered:
            yield from _below(whole, known, _of(name, forms), path, (*entered, reference) if reference else entered)


def _below(schema: Schema, known: Schema, forms: Forms, path: str, entered: tuple[str, ...]) -> Iterator[ListedKey]:
    if "properties" in schema:
        yield from _keys(schema, known, [*forms, *_forms(schema)], f"{path}." if path else "", entered)
    if "items" in schema:
        stated = schema["items"]
        reference = stated.get("$ref", "")
        if reference not in entered:
            inside = [(title, form["items"]) for title, form in forms if "items" in form]
            behind = (*entered, reference) if reference else entered
            yield from _below(_resolved(stated, known), known, inside, f"{path}[]", behind)
    if isinstance(further := schema.get("additionalProperties"), dict):
        yield from _below(further, known, [], f"{path}.{ANY}", entered)
    for one in _alternatives(schema, known):
        titled = [(one["title"], one)] if "title" in one else []
        yield from _below({**one, "required": []}, known, titled, path, entered)


def _alternatives(schema: Schema, known: Schema) -> list[Schema]:
    """The definitions of which a value meets one, where it has no keys of its own."""
    listed = [] if "properties" in schema else schema.get("anyOf", [])
    return [_resolved(one, known) for one in listed]


def _forms(schema: Schema) -> Forms:
    """The titled forms of an object, and the keys that come together."""
    forms = [(form["title"], form) for word in VARIANTS for form in schema.get(word, []) if "title" in form]
    together = [
        (f"with {key}", {"required": [key, *others]}) for key, others in schema.get("dependentRequired", {}).items()
    ]
    return [*forms, *together]


def _of(name: str, forms: Forms) -> Forms:
    """Return what the forms say of the object at this key."""
    return [(title, form["properties"][name]) for title, form in forms if name in form.get("properties", {})]


def _when(name: str, schema: Schema, forms: Forms) -> tuple[str, ...]:
    if name in schema.get("required", []):
        return (ALWAYS,)
    return tuple(title for title, form in forms if name in form.get("required", []))


def _resolved(schema: Schema, known: Schema) -> Schema:
    """Return the schema with the definition that it refers to; keys beside the reference are added, or override it."""
    if "$ref" not in schema:
        return schema
    found = known[schema["$ref"].removeprefix(HERE)]
    required = [*found.get("required", []), *schema.get("required", [])]
    return {**found, **schema, **({"required": required} if required else {})}


def _types(schema: Schema, known: Schema) -> tuple[str, ...]:
    if "type" in schema:
        stated: Any = schema["type"]
        return (stated,) if isinstance(stated, str) else tuple(stated)
    if "enum" in schema:
        return tuple(dict.fromkeys(OF_VALUES[type(value)] for value in schema["enum"]))
    return tuple(dict.fromkeys(one for each in _alternatives(schema, known) for one in _types(each, known)))
