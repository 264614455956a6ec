"""The classic Transformer as PyTorch's modules run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.backends.torch_nn import TorchNN
from tfcalc.errors import InvalidModel
from tfcalc.families.classic import module
from tfcalc.implementations.modules import ModuleProgram
from tfcalc.tape.operations import Numerics
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.families.transformer import Transformer

DROPPED = 0.1
"""nn.Transformer's default probability; one for all places."""

POSITIONS = ("none", "sinusoidal", "learned")
"""Those outside the layers, whose code is an addition."""


def of_torch(
    model: Transformer, run: Workload, numerics: Numerics, *, every_layer: bool = True, batch_first: bool = True
) -> ModuleProgram:
    """The model on a new tape. Raises InvalidModel where torch.nn.Transformer has no such layers."""
    check(model)
    return ModuleProgram(module(model), run, numerics, TorchNN(batch_first=batch_first), every_layer=every_layer)


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
        raise InvalidModel(f"positions {model.positions!r} in torch.nn.Transformer", f"choose {', '.join(POSITIONS)}")
    if model.pattern != "dense":
        raise InvalidModel(f"pattern {model.pattern!r} in torch.nn.Transformer", "choose dense")
