"""What a serving engine has loaded on one rank: its share of the weights, and a table of sines for rotary positions."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.number import Num, ceil_div

WHOLE_KINDS = ("norm", "router", "position", "parameter", "buffer")
"""What every rank holds whole: all but the maps and tables whose rows or columns are divided."""

WHOLE = ("W_DQ", "b_DQ", "W_DKV", "b_DKV", "b_O", "b_2")
"""Tensors that every rank holds whole: latent attention's maps down, and biases that are added to sums of all ranks."""

KEYS_AND_VALUES = ("W_K", "W_V", "b_K", "b_V")


def per_rank(weights: Component, tensor_parallel: int, kv_heads: int | None = None) -> Component:
    """The share of one of ``tensor_parallel`` ranks in these weights, a tree of tensors.

    Linear maps, the embedding and the output head are divided evenly, norms, routers and positions are not. Where there
    are fewer ``kv_heads`` than ranks, each rank holds one of them.

    Source: vLLM's ColumnParallelLinear, RowParallelLinear, QKVParallelLinear, VocabParallelEmbedding and
    ReplicatedLinear; Shoeybi et al. 2019 (Megatron-LM, arXiv 1909.08053), section 3.
    """
    return weights._replace(
        own=Cost(held=tuple(_share(held, weights.kind, tensor_parallel, kv_heads) for held in weights.own.held)),
        parts=tuple(per_rank(part, tensor_parallel, kv_heads) for part in weights.parts),
    )


def _share(held: Held, kind: str, ranks: int, kv_heads: int | None) -> Held:
    name = held.name.partition(" ")[0]
    if kind in WHOLE_KINDS or name in WHOLE:
        return held
    if name in KEYS_AND_VALUES and kv_heads is not None:
        ranks = min(ranks, kv_heads)
    return held if ranks == 1 else held._replace(factors=(ceil_div(held.size, ranks),))


def rotary_table(positions: Num, width: Num, bits: int = 16) -> Component:
    """A cosine and a sine for each pair of the ``width`` that is rotated, at each position: ``p·d`` numbers in all.

    Each rank holds it whole, and once for all layers that rotate alike; "model loading took" counts it. Source: vLLM's
    RotaryEmbedding (``cos_sin_cache``).
    """
    return Component("rotary", "memory", Cost(held=(Held("cos and sin", (positions, width), bits),)))


def loaded(weights: Component, tensor_parallel: int, *tables: Component, kv_heads: int | None = None) -> Component:
    """What one rank reports as loaded: its share of the weights, and the tables."""
    share = weights if tensor_parallel == 1 else per_rank(weights, tensor_parallel, kv_heads)
    return Component("loaded", "memory", parts=(share, *tables))
