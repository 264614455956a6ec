"""The command line that builds a model: its name, and the options of what it has of its own."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import TYPE_CHECKING, cast

from tfcalc.dimensions import Choice, Dimension, facet
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel
    from tfcalc.model import Model


def words(model: Model, name: str = "") -> list[str]:
    """``["gpt2", "--layers", "6"]``; ``name`` is what its config is found by, where the model does not know it."""
    if isinstance(model, Transformer):
        return _fields(model)
    published = cast("HFModel", model)
    found = [name or published.name]
    if published.treated_as:
        found += ["--as", published.treated_as]
    flags = {name: known.flags[0] for name, known in Transformer().dimensions().items() if known.flags}
    changed: dict[str, str] = {}
    for path, size in published.changed.items():
        called = [each for each in (*published.also_called(path), path) if each in flags]
        changed |= {flags[called[0]]: str(size)} if called else {}  # one option sets the layers of both stacks
    return [*found, *(word for option in changed.items() for word in option)]


def _fields(model: Transformer) -> list[str]:
    """The fields that differ from the defaults, as options."""
    found: list[str] = []
    for item in fields(model):
        known, value = facet(item), getattr(model, item.name)
        if value == item.default or not isinstance(known, Dimension | Choice) or not known.flags:
            continue
        flag = known.flags[0]
        if isinstance(value, bool):
            found.append(flag.split("/")[0 if value else 1])
        else:
            found += [flag, str(value)]
    return found


def command(model: Model, name: str = "") -> str:
    """``tfcalc params gpt2 --layers 6``."""
    return shlex.join(["tfcalc", "params", *words(model, name)])
