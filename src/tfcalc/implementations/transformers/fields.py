"""The fields of a config, as a family names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfcalc.configs.family import Family
    from tfcalc.implementations.transformers.running import Field


def field_of(data: Mapping[str, Any], family: Family) -> Field:
    """What reads a field of a config, under any of its names: given, or the family's default, or the one asked with."""
    defaults = family.defaults

    def field(name: str, default: Any = None) -> Any:
        inner, _, own = name.rpartition(".")
        if inner:  # a nested config's
            return (data.get(inner) or {}).get(own, default)
        names = (name, *(short for short, long in family.aliases.items() if long == name))
        for given in (data, data.get("text_config") or {}):
            for known in names:
                if known in given:
                    return given[known]
        return defaults.get(name, default)

    return field
