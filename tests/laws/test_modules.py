"""Every family builds the modules that it built: a change of the house leaves equal values.

Modules are values, so that a refactoring is right exactly if each family builds what it built before. ``modules.txt``
has a line for each model type and head: of its defaults, and of configs drawn from its space, the beginning of a hash
of the module and of what was read to build it. ``pytest tests/laws/test_modules.py --overwrite`` records it anew.

A class or a field that is renamed goes into ``CLASSES`` or ``FIELDS``, so that a new name alone changes no hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.verify.random_configs import load
from tfcalc.configs.config import Config, ConfigRecord, model_types
from tfcalc.configs.family import Family, find
from tfcalc.errors import TfcalcError
from tfcalc.nn.module import Frozen

RECORDED = Path(__file__).with_name("modules.txt")
DRAWN = 6
"""Configs of each model type, beside its defaults."""
DIGITS = 8
REFUSED = "refused"
CLASSES: dict[str, str] = {
    "ContrastiveModel": "Compared",
    "AudioLanguageModel": "Listener",
    "InlineDecoder": "OpenDecoder",
    "InlineTower": "OpenTower",
    "ModelWithHead": "WithHead",
    "NormAfterSublayer": "Behind",
    "PaddedEncoder": "FilledEncoder",
    "PaddedStack": "FilledStack",
    "Parameter": "Stored",
    "PreNormSharedNorm": "PreNormBeside",
    "Replicated": "Several",
    "Routing": "Routed",
    "SequenceSummary": "Summary",
    "VisionLanguageModel": "ImageReader",
    "Weight": "Tensor",
}
"""Of a class that was renamed: its name today, and the one that was recorded."""
FIELDS: dict[str, str] = {"PreNorm.sublayers": "subs"}
"""Of a field that was renamed, ``Class.field`` of today and the field's recorded name; derived classes have it, too."""

JOINED = {"RopeCode", "RouterCode"}
"""Classes whose fields were recorded as those of their owner, in their place."""
ROPE = "width angles by_window by_layer by_sequence in_float32 copies repeats halves pairs partial behind last"
ORDER = {"Rope": ROPE.split()}
"""Order in which the fields of a class were recorded, where it is another today."""


def configs(model_type: str) -> list[dict[str, Any]]:
    """The defaults of a model type, and small configs drawn from its space, if it has one."""
    draw = load().get(model_type)
    random = Random(model_type)  # the same draws each time
    drawn = [draw(random) for _ in range(DRAWN)] if draw else []
    return [{**config, "model_type": model_type} for config in ({}, *drawn)]


def recorded_as(kind: type, field: str) -> str:
    """The name that a field had when the hashes were recorded."""
    names = (FIELDS.get(f"{base.__name__}.{field}") for base in kind.__mro__)
    return next((name for name in names if name is not None), field)


def fields(value: Frozen) -> Iterator[tuple[str, object]]:
    """The fields of a value, by their recorded names and in their recorded order."""
    own: dict[str, object] = {}
    for name, of in value.__dict__.items():
        own |= of.__dict__ if type(of).__name__ in JOINED else {name: of}
    order = ORDER.get(type(value).__name__)
    return ((recorded_as(type(value), name), own[name]) for name in (order or own))


def written(value: object, seen: dict[int, tuple[object, str]]) -> str:
    """A value as text that is the same in every process; a module by the hash of its own text, made once."""
    if isinstance(value, Frozen):
        if id(value) not in seen:
            name = type(value).__name__
            given = (f"{field}={written(of, seen)}" for field, of in fields(value))
            seen[id(value)] = value, sha256(f"{CLASSES.get(name, name)}({','.join(given)})".encode()).hexdigest()
        return seen[id(value)][1]
    if isinstance(value, tuple):
        name = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{CLASSES.get(name, name)}[{','.join(written(each, seen) for each in value)}]"
    text = repr(value)
    assert " at 0x" not in text, f"{text} is another text in each process"
    return text


def hashed(family: Family, config: dict[str, Any], head: str) -> str:
    """The hash of what a family builds of a config, with the sizes, the assumptions and the fields that were read."""
    reading = ConfigRecord(find, {})
    try:
        read = Config(config, config["model_type"], family.defaults, family.aliases, head, reading)
        module = family.module(read, head)
    except TfcalcError:
        return REFUSED
    facts = (
        sorted(reading.sizes.items()),
        sorted(reading.assumed.items()),
        sorted(reading.seen),
        sorted((path, field.letter) for path, field in reading.fields.items()),
    )
    text = written(module, {}) + json.dumps(facts, default=str)
    return sha256(text.encode()).hexdigest()[:DIGITS]


def lines(model_type: str) -> Iterator[str]:
    """A line for each head of a model type, as the file has it."""
    family, drawn = find(model_type), configs(model_type)
    for head in family.heads:
        yield " ".join((model_type, head or "-", *(hashed(family, config, head) for config in drawn)))


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[str]]:
    """The lines of each model type."""
    found: dict[str, list[str]] = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        found.setdefault(line.split()[0], []).append(line)
    return found


@pytest.mark.parametrize("model_type", model_types())
def test_each_family_builds_what_it_built(
    model_type: str, recorded: dict[str, list[str]], request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--overwrite"):
        pytest.skip("they are recorded anew")
    assert model_type in recorded, f"{model_type} is new: make records"
    assert list(lines(model_type)) == recorded[model_type], f"{model_type} is built otherwise"


def test_the_file_has_all_model_types(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--overwrite"):
        found = "".join(f"{line}\n" for model_type in model_types() for line in lines(model_type))
        RECORDED.write_text(found, encoding="utf-8")
    kept = RECORDED.read_text(encoding="utf-8").splitlines()
    assert list(dict.fromkeys(line.split()[0] for line in kept)) == model_types()
    assert sum(len(line.split()) - 2 for line in kept) > 9000
