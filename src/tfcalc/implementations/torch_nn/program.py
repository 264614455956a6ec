"""The classic Transformer as PyTorch's modules run it, on a new tape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.errors import InvalidModel
from tfcalc.implementations.torch_nn.whole import RULES
from tfcalc.implementations.transformers.habits import Habits, Probability
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import Ledger
from tfcalc.tape.operations import Numerics, Torch
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.families.transformer import Transformer

DROPPED: Probability = ("dropout", 0.1)
"""nn.Transformer's default; one probability for all places."""

POSITIONS = ("none", "sinusoidal", "learned")
"""Those outside the layers, whose code is an addition."""


def running(
    model: Transformer, run: Workload, numerics: Numerics, *, every_layer: bool = True, batch_first: bool = True
) -> Running:
    """The model's parts, ready to run; its tape counts what is live if every layer runs.

    Attention wants the batch as the second axis: with ``batch_first`` it copies what it reads, if there is more than
    one sequence. Raises InvalidModel where torch.nn.Transformer has no such layers.
    """
    check(model)
    habits = Habits(
        norms="pre" if model.pre_norm else "post",
        rmsnorm="fused",
        dropped=DROPPED,
        dropped_scores=DROPPED,
        dropped_embeddings=DROPPED,
        dropped_inside=DROPPED,
        loss="own",
        shifted=False,
    )
    tape = Torch(Ledger(watch=every_layer), numerics, apart=run.batch_size != 1)
    return Running(tape, run, {"batch_first": batch_first}.get, habits, RULES, every_layer=every_layer)


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
