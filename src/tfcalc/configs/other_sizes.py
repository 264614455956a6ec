"""A config with other sizes written into it, and with as many types of layers as it has layers then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfcalc.configs.config import MOST_LAYERS, ConfigRecord
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel

LAYERS, LAYER_TYPES, ATTENTION_TYPES = "num_hidden_layers", "layer_types", "attention_types"
COUNTS = (LAYERS, "num_layers")
"""Fields that say of how many layers there are kinds."""
KINDS = ("layers_block_type", "hybrid_override_pattern")
"""Fields that have a kind for each layer, beside those that end as the two above: lists, or a text of letters."""


def with_sizes(data: Mapping[str, object], sizes: Mapping[str, Num]) -> dict[str, object]:
    """The config with these sizes written into it; types of layers are cut, or begun again, to be as many as these."""
    changed = dict(data)
    for path, size in sizes.items():
        *scopes, name = path.split(".")
        inside = changed
        for scope in scopes:
            nested = inside.get(scope)
            inside[scope] = inside = dict(nested) if isinstance(nested, Mapping) else {}
        inside[name] = size
        if name in COUNTS and isinstance(size, int):
            for field in _kinds(inside):
                inside[field] = _for_layers(inside[field], min(size, MOST_LAYERS))
    return changed


def has_kinds(data: Mapping[str, object], path: str) -> bool:
    """Return whether the size at this path is the number of layers whose kinds the config lists."""
    *scopes, name = path.split(".")
    inside: object = data
    for scope in scopes:
        inside = inside.get(scope) if isinstance(inside, Mapping) else None
    return name in COUNTS and isinstance(inside, Mapping) and bool(_kinds(inside))


def _kinds(inside: Mapping[str, object]) -> list[str]:
    """The fields that have a kind for each layer."""
    return [
        field
        for field, kinds in inside.items()
        if (field.endswith((LAYER_TYPES, ATTENTION_TYPES)) or field in KINDS)
        and isinstance(kinds, list | str)
        and kinds
    ]


def _for_layers(types: Any, count: int) -> Any:
    """Type of each of ``count`` layers; GPT-Neo lists groups that are repeated, Nemotron-H writes letters.

    >>> _for_layers(["full", "sliding"], 3), _for_layers([[["global", "local"], 2]], 3), _for_layers("ME*-", 6)
    (['full', 'sliding', 'full'], [[['global', 'local', 'global'], 1]], 'ME*-ME')
    """
    if isinstance(types, str):
        return "".join(_for_layers(list(types), count))
    if not all(isinstance(each, list) and list(map(type, each)) == [list, int] for each in types):
        return [types[place % len(types)] for place in range(count)]
    return [[_for_layers([kind for kinds, times in types for kind in kinds * min(times, count)], count), 1]]


def check_layer_types(data: Mapping[str, object], reading: ConfigRecord) -> None:
    """One for each layer, whether the family looks at them or not: transformers takes no other list either."""
    for scope in ("", "text_config."):
        inside = data.get(scope.removesuffix(".")) if scope else data
        types = inside.get(LAYER_TYPES) if isinstance(inside, Mapping) else None
        count = reading.sizes.get(f"{scope}{LAYERS}")
        if isinstance(types, list) and count is not None and len(types) != reading.guarded(f"{scope}{LAYERS}", count):
            raise InvalidModel(f"{scope}{LAYER_TYPES} has {len(types)} entries, not {count}", "give one for each layer")
