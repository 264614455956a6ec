"""Configs: those of a family that work, and those with some fields changed."""

from __future__ import annotations

import collections
import copy
import json
import random
from typing import Any

import tfcalc
from tfcalc import catalog
from tfcalc.configs.config import model_types
from tfcalc.configs.published import HFModel
from tfcalc.errors import TfcalcError
from tools.fuzz.material import JUNK, QUANTIZED, number_near

TYPES = model_types()
PRESETS = catalog.names()
PRESETS_OF: dict[str, list[str]] = collections.defaultdict(list)
for _name in PRESETS:
    PRESETS_OF[catalog.preset(_name).family].append(_name)

SKIPPED = {"no_op": False, "replace_with_linear": False}
NEEDS_MORE: dict[str, dict[str, Any]] = {
    "aya_vision": {"vision_config": {"num_attention_heads": 16}},
    "nemotron-nas": {
        "num_hidden_layers": 2,
        "block_configs": [{"attention": {"n_heads_in_group": 8, **SKIPPED}, "ffn": {"ffn_mult": 2.625, **SKIPPED}}] * 2,
    },
}
"""Families that no defaults describe."""

ARCHITECTURES = [
    *([], None, 7, "LlamaForCausalLM", [7], [None], ["X"], [""], ["\x1b[31m\nLlamaForCausalLM"], ["GPT2LMHeadModel"]),
    *(["=cmd()LlamaForCausalLM"], ["FooModel"], ["FooForCausalLM"], ["FooForSequenceClassification"]),
    *(["FooForMaskedLM"], ["FooForConditionalGeneration"], {"0": "x"}, ["\ud800Model"], ["A" * 3000 + "Model"]),
]
DTYPES = ["bfloat16", "float8_e4m3fn", "auto", 7, "zzz", "torch.float16", "\x1b", None, ["x"]]
NO_TYPES = [None, 7, "", "gpt3", ["gpt2"], "GPT2", "\x1b[31m", "A" * 5000, " gpt2"]
_FIELDS: dict[str, list[str]] = {}


def base_of(model_type: str) -> dict[str, Any]:
    """A config of this family that works."""
    return {"model_type": model_type, **copy.deepcopy(NEEDS_MORE.get(model_type, {}))}


def fields_of(model_type: str) -> list[str]:
    """The fields that the family reads."""
    if model_type not in _FIELDS:
        try:
            model = tfcalc.from_config(base_of(model_type))
            assert isinstance(model, HFModel)
            _FIELDS[model_type] = sorted(model.reading.seen) or ["hidden_size"]
        except TfcalcError:
            _FIELDS[model_type] = ["hidden_size", "num_hidden_layers", "vocab_size"]
    return _FIELDS[model_type]


def put(data: dict[str, Any], path: str, value: object, *, delete: bool = False) -> None:
    """Put a value at a dotted path, or take away what is there."""
    *scopes, name = path.split(".")
    for scope in scopes:
        inner = data.get(scope)
        if not isinstance(inner, dict):
            inner = data[scope] = {}
        data = inner
    if delete:
        data.pop(name, None)
    else:
        data[name] = value


def mutated(draw: random.Random, model_type: str) -> dict[str, Any]:
    """A config of this family with some fields changed: some plausible, some junk."""
    data = base_of(model_type)
    if draw.random() < 0.25 and PRESETS_OF.get(model_type):
        data = copy.deepcopy(catalog.preset(draw.choice(PRESETS_OF[model_type])).config)
    known, kind = fields_of(model_type), draw.random()
    for _ in range(draw.choice([0, 1, 1, 1, 2, 2, 3, 5])):
        field = draw.choice(known)
        put(data, field, copy.deepcopy(_value(draw, kind)), delete=draw.random() < 0.1)
    for chance, name, values in (
        (0.07, "architectures", ARCHITECTURES),
        (0.08, "quantization_config", QUANTIZED),
        (0.04, "dtype", DTYPES),
    ):
        if draw.random() < chance:
            data[name] = copy.deepcopy(draw.choice(values))
    if draw.random() < 0.04:
        slip = draw.choice(known)[:-1] + draw.choice(["\x1b", "\n", "z", "\x9b", "é", ""])
        data[slip] = copy.deepcopy(draw.choice(JUNK))
    if draw.random() < 0.02:
        data["layer_types"] = copy.deepcopy(draw.choice(JUNK))
    if draw.random() < 0.02:
        data["model_type"] = draw.choice(NO_TYPES)
    scopes = sorted({field.rpartition(".")[0] for field in known if "." in field})
    if scopes and draw.random() < 0.1:
        put(data, f"{draw.choice(scopes)}.model_type", draw.choice(TYPES))
    return data


def _value(draw: random.Random, kind: float) -> object:
    """Junk, a number, or either, alone or in a list."""
    if kind < 0.45:
        return draw.choice(JUNK)
    if kind < 0.75:
        return number_near(draw) if draw.random() < 0.8 else draw.choice([True, False, None, 0])
    value: object = draw.choice([draw.choice(JUNK), number_near(draw), draw.choice(JUNK)])
    if draw.random() < 0.2:
        return [draw.choice(JUNK) for _ in range(draw.choice([1, 2, 6, 12, 32]))]
    return value


def encoded(data: object) -> bytes:
    """The JSON of it."""
    return json.dumps(data, ensure_ascii=True).encode()
