"""Lists and patterns of layers in configs: empty, too short, too long, of other kinds, beside numbers of layers."""

from __future__ import annotations

import copy
import random
import re
from functools import cache
from typing import Any

from tfcalc import catalog
from tfcalc.configs.config import model_types
from tools.fuzz.checks import look, whole
from tools.fuzz.configs import PRESETS_OF, TYPES, base_of, encoded, fields_of, put
from tools.fuzz.findings import FOUND
from tools.fuzz.program import call

assert model_types() == TYPES
WORDS = ("full_attention", "sliding_attention", "linear_attention", "mamba", "attention", "moe", "mlp", "conv", "dense")
LISTED = re.compile("types?$|pattern|layers|blocks?|depths|sizes|indices|freq|period|interval|_list|kinds|ratio|step")
ODD: tuple[Any, ...] = (
    *([], [None], [[]], [{}], "", "M", "M*-E", "*", "|", "a,b", {}, None, 0, -1, 1, 2, 1.5, True, [0], [1], [1, 2]),
    *([0, 0], [-1], [10**12], [1.5], ["x"], [True], [1] * 3, [[1, 2], [3]], [[], []], ["full_attention"] * 2),
)
ASKED = ("params", "flops", "flops --train", "flops --phase decode", "memory", "memory --train", "memory --serve")


@cache
def _lists(model_type: str) -> tuple[str, ...]:
    """Fields of the family that hold lists in some preset, or whose names say that they might."""
    named = [field for field in fields_of(model_type) if LISTED.search(field.rpartition(".")[2])]
    held = [
        field
        for name in PRESETS_OF.get(model_type, ())[:3]
        for field, value in catalog.preset(name).config.items()
        if isinstance(value, list | dict) and field != "architectures"
    ]
    return tuple(dict.fromkeys([*named, *held])) or tuple(fields_of(model_type))


def lists(draw: random.Random) -> None:
    """A config of some family with one to three of its lists changed."""
    model_type = draw.choice(TYPES)
    FOUND.families.add(model_type)
    data = base_of(model_type)
    if PRESETS_OF.get(model_type) and draw.random() < 0.5:
        data = copy.deepcopy(catalog.preset(draw.choice(PRESETS_OF[model_type])).config)
    for field in draw.sample(_lists(model_type), min(draw.choice((1, 1, 2, 3)), len(_lists(model_type)))):
        put(data, field, _changed(draw, data.get(field)))
    if draw.random() < 0.3:
        layers = [one for one in fields_of(model_type) if one.endswith(("layers", "layer", "n_layer", "depth"))]
        put(data, draw.choice(layers or ["num_hidden_layers"]), draw.choice((0, 1, 2, 3, 7, 13)))
    argv = [*draw.choice(ASKED).split(), "--json"]
    argv.insert(1, "-")
    if draw.random() < 0.1:
        argv = ["formula", "layer", "--model", "-", "--json"]
    outcome = call(argv, stdin=encoded(data))
    look(argv, outcome, stdin=encoded(data))
    if outcome.ok and outcome.out.startswith(b"{"):
        whole(outcome.out.decode(), argv, encoded(data))


def _changed(draw: random.Random, value: Any) -> Any:
    """A list that is cut, doubled, emptied, mixed, or something else."""
    kind = draw.random()
    if isinstance(value, list) and value and kind < 0.5:
        return draw.choice(
            (value[:-1], value * 2, value[:1], value[::-1], [*value, value[0]], value[1:], [*value[:1], None, *value])
        )
    if isinstance(value, str) and value and kind < 0.5:
        return draw.choice((value[:-1], value * 2, value[:1], value[::-1], value + "?"))
    if kind < 0.75:
        return copy.deepcopy(draw.choice(ODD))
    return [draw.choice(WORDS) for _ in range(draw.choice((1, 2, 6, 12, 24, 32)))]
