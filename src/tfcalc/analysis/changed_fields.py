"""Fields of a model that differ from another's, and the model with some of them changed alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

from tfcalc.configs.published import HFModel, finite
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import shortened

if TYPE_CHECKING:
    from tfcalc.model import Model

MODEL_TYPE = "model_type"
ABSENT = object()
"""The value of a field that a config leaves out."""
LONGEST = 40
"""Characters of a value that is shown."""
LISTED = 24
"""Characters of a list that is shown entry by entry."""


class FieldChange(NamedTuple):
    """A field by its ``keys``, from the outermost, and its values in both models; ABSENT where one has none.

    ``default`` is what the first model takes instead of an absent value, ABSENT where that is not known; ``read`` says
    whether the family of either looks at it.
    """

    keys: tuple[str, ...]
    old: object
    new: object
    default: object = ABSENT
    read: bool = True

    @property
    def path(self) -> str:
        """``text_config.hidden_size``."""
        return ".".join(map(str, self.keys))

    @property
    def said(self) -> str:
        """``num_key_value_heads 8 -> 16``."""
        if isinstance(self.old, list) and isinstance(self.new, list) and len(self.old) == len(self.new) > 1:
            unlike = sum(one != other for one, other in zip(self.old, self.new, strict=True))
            if max(len(json.dumps(self.old)), len(json.dumps(self.new))) > LISTED:
                return f"{self.path} {unlike:,} of {len(self.old):,} entries"
        default = "" if self.default in (ABSENT, None) else f" (default {_brief(self.default)})"
        return f"{self.path} {_brief(self.old)}{default} -> {_brief(self.new)}"


def _brief(value: object) -> str:
    if value is ABSENT:
        return "not given"
    if isinstance(value, str):
        return shortened(value, LONGEST) or '""'
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    text = json.dumps(value)
    if isinstance(value, list) and len(text) > LISTED:
        return f"{len(value):,} entries"
    return shortened(text, LONGEST)


def same_family(first: Model, second: Model) -> bool:
    """Return True if both are described by the same fields: two configs of one model_type, or two classic models."""
    if isinstance(first, HFModel) and isinstance(second, HFModel):
        return first.family.model_type == second.family.model_type
    return type(first) is type(second)


def changed_fields(first: Model, second: Model) -> tuple[FieldChange, ...]:
    """The fields that differ, in the order of the first model's config, and what only the second has behind them."""
    if not same_family(first, second):
        return (FieldChange((MODEL_TYPE,), _type(first), _type(second)), *_of_configs(first, second))
    if isinstance(first, HFModel):
        return _of_configs(first, second)
    return tuple(FieldChange(*each) for each in _unlike(_sizes(first), _sizes(second)))


def _of_configs(first: Model, second: Model) -> tuple[FieldChange, ...]:
    """The fields of two configs, but for their model_type as it is read."""
    if not isinstance(first, HFModel) or not isinstance(second, HFModel):
        return ()
    seen, defaults = first.reading.seen | second.reading.seen, first.reading.assumed
    found = (FieldChange(*each) for each in _unlike(first.data, second.data))
    return tuple(
        each._replace(
            default=defaults.get(each.path, ABSENT) if each.old is ABSENT else ABSENT,
            read=each.path in seen,
        )
        for each in found
        if same_family(first, second) or each.keys != (MODEL_TYPE,)
    )


def with_fields(model: Model, changed: Iterable[FieldChange]) -> Model:
    """The model with the new values of these fields in the place of its own. Raises InvalidModel."""
    if isinstance(model, HFModel):
        data = dict(model.data)
        for each in changed:
            _put(data, each.keys, each.new)
        return HFModel(data, name=model.name, treated_as=model.treated_as, dtype_note=model.dtype_note)
    return replace(model, **{each.keys[0]: each.new for each in changed})  # type: ignore[type-var]  # a dataclass


def _unlike(
    old: Mapping[str, object], new: Mapping[str, object], scope: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object, object]]:
    """The keys at which they differ: inside a nested config where both have one."""
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _unlike(before, after, (*scope, name))
        elif finite(before) != finite(after) or isinstance(before, bool) is not isinstance(after, bool):
            yield (*scope, name), before, after


def _put(data: dict[str, object], keys: tuple[str, ...], value: object) -> None:
    """Write a value into a nested config, whose other values stay; ABSENT takes it out."""
    for scope in keys[:-1]:
        inside = data.get(scope)
        data[scope] = data = dict(inside) if isinstance(inside, Mapping) else {}
    if value is ABSENT:
        data.pop(keys[-1], None)
    else:
        data[keys[-1]] = value


def _sizes(model: Model) -> dict[str, object]:
    return {item.name: getattr(model, item.name) for item in fields(model)} if is_dataclass(model) else {}


def _type(model: Model) -> str:
    return model.family.model_type if isinstance(model, HFModel) else type(model).__name__
