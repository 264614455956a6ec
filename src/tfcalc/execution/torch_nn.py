"""What of the classic Transformer PyTorch's own modules can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.errors import InvalidModel

if TYPE_CHECKING:
    from tfcalc.zoo.transformer import Transformer

DROPPED = 0.1
"""nn.Transformer's default probability; one for all places."""

POSITIONS = ("none", "sinusoidal", "learned")
"""Those outside the layers, whose code is an addition."""


def check(model: Transformer) -> None:
    """Raise InvalidModel for what torch.nn.Transformer cannot be."""
    heads = model.n_heads
    others = {"n_kv_heads": heads, "value_dim": model.size("head_dim")}
    for name, same in others.items():
        if model.size(name) != same:
            raise InvalidModel(
                f"{name} {model.size(name)} in torch.nn.Transformer, which has one head width", f"use {same}"
            )
    if model.size("head_dim") * heads != model.d_model:
        raise InvalidModel(
            f"head_dim {model.size('head_dim')} in torch.nn.Transformer with d_model {model.d_model} and {heads} heads",
            "leave head_dim out: it is d_model / heads",
        )
    if model.positions not in POSITIONS:
        fact = (
            f"memory of a run with positions {model.positions!r} is not counted: torch.nn.Transformer has none of them"
        )
        raise InvalidModel(fact, f"choose {', '.join(POSITIONS)}")
    if model.pattern != "dense":
        fact = (
            f"memory of a run with pattern {model.pattern!r} is not counted: torch.nn.Transformer has no such attention"
        )
        raise InvalidModel(fact, "choose dense")
