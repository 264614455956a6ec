"""Dropout in Megatron-LM: applied by its options, whatever a config says."""

from __future__ import annotations

from typing import Any

from tfcalc.nn.attention import Attention
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward, InLayer
from tfcalc.nn.layers import Parallel, PostNorm, PreNorm
from tfcalc.nn.module import Module
from tfcalc.placed.modules import FewerGroups, PipelineStage
from tfcalc.zoo.classic import Located

HIDDEN = (PipelineStage, PreNorm, PostNorm, Parallel)
"""Modules with dropout on embeddings, or on the outputs of sub-layers (``--hidden-dropout``, 0.1 by default)."""
PROBABILITIES = (Attention, FewerGroups, Located)
"""Modules with dropout on attention probabilities (``--attention-dropout``, 0.1 by default)."""
NOTHING = (FeedForward, GatedFeedForward, InLayer)
"""Modules without dropout inside."""


def with_dropout(module: Module, seen: dict[int, Module] | None = None) -> Module:
    """Return a copy of the module with dropout in these places; a module that occurs twice stays one object."""
    seen = {} if seen is None else seen
    if id(module) not in seen:
        fields = {name: _field_with_dropout(value, seen) for name, value in module.__dict__.items()}
        seen[id(module)] = type(module)(**fields | _dropout_fields(module))
    return seen[id(module)]


def _dropout_fields(module: Module) -> dict[str, Any]:
    if type(module) in HIDDEN:
        return {"dropped": True, "undropped": ()} if "undropped" in module.fields_ else {"dropped": True}
    return {"dropout": type(module) in PROBABILITIES} if type(module) in PROBABILITIES + NOTHING else {}


def _field_with_dropout(value: Any, seen: dict[int, Module]) -> Any:
    if isinstance(value, Module):
        return with_dropout(value, seen)
    return tuple(_field_with_dropout(item, seen) for item in value) if type(value) is tuple else value
