"""Paths of an answer's JSON: ``memory.peak_bytes``, ``params.components.model.params``, ``compare.models[1].heads``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tfcalc.errors import UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.opening import told_apart

ABOUT_ONE_MODEL = ("params", "flops", "memory", "overview")
"""The commands that are asked about one model, and answer with numbers."""
PARTS = ("parts", "timeline", "phases")
"""Lists whose parts stand beside the keys of what has them."""
LABELS = ("phase", "name", "key", "target", "path")
"""What the parts of a list are known by, where no other part has the same; a ``path`` only of what has no name."""
BRACKETS = re.compile(r"\[['\"]?([^\[\]]*?)['\"]?\]")

VERSION = "schema_version"
ABOUT_IT = (VERSION, "model", "conventions")
"""Keys of an answer that say what was asked."""

Step = str | int


class Place(NamedTuple):
    """Place that keys lead to: the ``steps`` of a program (keys, and places in lists), the ``value`` there.

    ``left`` are further keys, where the value is a single one.
    """

    steps: tuple[Step, ...]
    value: object
    left: tuple[str, ...] = ()


def dotted(path: str) -> str:
    """The path with a dot before each key.

    >>> dotted("compare.models[1].total_params"), dotted("diff.rows['total_params'].new")
    ('compare.models.1.total_params', 'diff.rows.total_params.new')
    """
    return BRACKETS.sub(r".\1", path)


def reach(answer: Mapping[str, object], keys: Sequence[str]) -> object:
    """Return what the keys lead to, a value or an object with parts.

    Raises UsageError with the nearest keys where there is none.
    """
    found = locate(answer, keys)
    if found.left:
        passed = keys[: len(keys) - len(found.left)]
        raise UsageError(f"{quoted(found.left[0])} is not{_within(passed)}, which has no parts", "leave it out")
    return found.value


def locate(answer: Mapping[str, object], keys: Sequence[str]) -> Place:
    """Return the place that the keys lead to, as far as there are parts.

    Raises UsageError with the nearest keys where there is none.

    >>> locate({"models": [{"name": "gpt2", "layers": 12}]}, ["models", "gpt2", "layers", "more"])
    Place(steps=('models', 0, 'layers'), value=12, left=('more',))
    """
    found, left = Place((), answer), tuple(keys)
    while left:
        inner, taken = None, len(left)
        while taken and (inner := _entry(found.value, ".".join(left[:taken]))) is None:
            taken -= 1
        if inner is None and _inside(found.value):
            passed = keys[: len(keys) - len(left)]
            raise UsageError(f"{quoted(left[0])} is not{_within(passed)}", nearest_key(found.value, left[0]))
        if inner is None:
            return found._replace(left=left)
        found, left = Place((*found.steps, *inner[0]), inner[1]), left[taken:]
    return found


def numbers(answer: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    """Yield the keys of the numbers of an answer, but for those that say what was asked: its model, its conventions.

    Components are called by their names, where these tell them apart.

    >>> list(numbers({"total": 3, "components": [{"name": "a", "parts": [{"name": "b", "params": 3}]}]}))
    [('total',), ('components', 'a', 'b', 'params')]
    """
    for key, value in answer.items():
        if key not in ABOUT_IT:
            yield from _numbers(value, (key,))


def _numbers(value: object, passed: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield passed
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            within = key == "parts" and passed[:1] == ("components",)
            yield from _numbers(inner, passed if within else (*passed, key))
    elif isinstance(value, list):
        called = [str(each.get("name", each.get("phase", ""))) if isinstance(each, Mapping) else "" for each in value]
        for name, inner in zip(told_apart(called), value, strict=True):
            yield from _numbers(inner, (*passed, name))


def nearest_key(value: object, key: str = "") -> str:
    """The nearest of the keys that are words, as a remedy."""
    return nearest(key, [name for name in _inside(value) if not name.isdigit()])


def _within(keys: Sequence[str]) -> str:
    return f" in {'.'.join(keys)}" if keys else " in the answer"


def _entry(value: object, name: str) -> tuple[tuple[Step, ...], object] | None:
    """Return what has this name inside a value, as :func:`_inside` does; of a mapping no other entry is read."""
    if not isinstance(value, Mapping):
        return _inside(value).get(name)
    if name in value:
        return (name,), value[name]
    for key in reversed(PARTS):
        if key in value and (found := _entry(value[key], name)) is not None:
            return (key, *found[0]), found[1]
    return None


def _inside(value: object) -> dict[str, tuple[tuple[Step, ...], object]]:
    """Return the contents of a value, by key, with the steps to each; its own keys come before those of its parts."""
    if isinstance(value, Mapping):
        found = {
            name: ((key, *steps), part)
            for key in PARTS
            if key in value
            for name, (steps, part) in _inside(value[key]).items()
        }
        return found | {name: ((name,), part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        named: dict[str, tuple[tuple[Step, ...], object]] = {
            str(place): ((place,), part) for place, part in enumerate(value)
        }
        for label in LABELS:
            names = [_label(part, label) for part in value]
            named |= {
                name: ((place,), part)
                for place, (name, part) in enumerate(zip(names, value, strict=True))
                if name and names.count(name) == 1
            }
        return named
    return {}


def _label(part: object, label: str) -> str:
    if not isinstance(part, Mapping) or (label == "path" and "name" in part):
        return ""
    found = part.get(label, "")
    return found if isinstance(found, str) else ""
