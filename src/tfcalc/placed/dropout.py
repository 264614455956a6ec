"""Where Megatron-LM drops numbers: wherever its options ask for it, whatever a config says."""

from __future__ import annotations

from typing import Any

from tfcalc.nn.attention import Attention
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward, InLayer
from tfcalc.nn.layers import Parallel, PostNorm, PreNorm
from tfcalc.nn.module import Module
from tfcalc.placed.modules import FewerGroups, Stage
from tfcalc.zoo.classic import Located

HIDDEN = (Stage, PreNorm, PostNorm, Parallel)
"""What drops some of the embedding, or of what its sub-layers make (``--hidden-dropout``, 0.1 by default)."""
PROBABILITIES = (Attention, FewerGroups, Located)
"""What drops some of its probabilities (``--attention-dropout``, 0.1 by default)."""
NOTHING = (FeedForward, GatedFeedForward, InLayer)
"""What drops nothing inside."""


def with_dropout(module: Module, seen: dict[int, Module] | None = None) -> Module:
    """The same module with dropout in these places; what was one module stays one."""
    seen = {} if seen is None else seen
    if id(module) not in seen:
        fields = {name: _each(value, seen) for name, value in module.__dict__.items()}
        seen[id(module)] = type(module)(**fields | _dropping(module))
    return seen[id(module)]


def _dropping(module: Module) -> dict[str, Any]:
    if type(module) in HIDDEN:
        return {"dropped": True, "undropped": ()} if "undropped" in module.fields_ else {"dropped": True}
    return {"dropout": type(module) in PROBABILITIES} if type(module) in PROBABILITIES + NOTHING else {}


def _each(value: Any, seen: dict[int, Module]) -> Any:
    if isinstance(value, Module):
        return with_dropout(value, seen)
    return tuple(_each(each, seen) for each in value) if type(value) is tuple else value
