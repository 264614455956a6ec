"""Block-sparse attention of transformers' BigBird."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.core.number import floor_div
from tfcalc.nn.module import Context
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import cat, part, reshape, select, split, transpose, unsqueeze
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.blocks.blocked_attention import BlockAttention


def block_sparse(mixer: BlockAttention, ctx: Context, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend by blocks: the first and the last see all blocks, the others a few; without dropout.

    Source: transformers' BigBirdBlockSparseAttention.
    """
    assert mixer.blocks is not None
    assert ctx.filled is not None
    assert ctx.filled.there is not None
    (b, a, length, d), size, trace = q.shape, mixer.blocks.block, q.trace
    count, wide = floor_div(length, size), mixer.blocks.random * size
    places = trace.new((b, a, (count - 2) * mixer.blocks.random), "int64", "random blocks")
    queries, keys, values = (reshape(each, b, a, count, size, d) for each in (q, k, v))
    chosen_keys, chosen_values = (
        trace.call(Call("gather", (each,), (b, a, count - 2, wide, d), each.dtype, saves=(each, places)))
        for each in (keys, values)
    )
    rows = [
        _mixed(select(queries, 2), k, v),
        _mixed(select(queries, 2), _few(keys, chosen_keys), _few(values, chosen_values)),
        _between(part(queries, 2, count - 4), (keys, chosen_keys), (values, chosen_values), size),
        _mixed(select(queries, 2), _few(keys, chosen_keys), _few(values, chosen_values)),
        _mixed(select(queries, 2), k, v),
    ]
    whole = cat([blocks if len(blocks.shape) == 5 else unsqueeze(blocks, 2) for blocks in rows], 2)
    rows.clear()  # drops the references of this list; in transformers the parts are out of scope, too
    whole = trace.call(Call("mul", (whole,), q.shape, whole.dtype, saves=(ctx.filled.there,)))
    trace.until_layer_ends(trace.new((b, a, length, length), whole.dtype, "all weights"))
    return whole


def _mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return matmul(softmax(scaled(matmul(q, transpose(k, 2, 3)))), v)


def _few(blocks: Tensor, chosen: Tensor) -> Tensor:
    """Concatenate four blocks and the random ones."""
    return cat([*(select(blocks, 2) for _ in range(4)), select(chosen, 2)], 2)


def _between(q: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], size: int) -> Tensor:
    """Attend from all blocks but two at each end to three neighbours, random blocks, the first and the last."""
    near, chosen, first, last = _seen(q, *keys)
    p = cat(
        [
            scaled(einsum("bhlqd,bhkd->bhlqk", q, first)),
            scaled(matmul(q, transpose(near, 3, 4))),
            scaled(matmul(q, transpose(chosen, 3, 4))),
            scaled(einsum("bhlqd,bhkd->bhlqk", q, last)),
        ]
    )
    p = softmax(p)
    to_first, to_near, to_chosen, to_last = split(p, [size, 3 * size, chosen.shape[3], size])
    near, chosen, first, last = _seen(q, *values)
    mixed = add(matmul(to_near, near), matmul(to_chosen, chosen))
    mixed = add(mixed, einsum("bhlqk,bhkd->bhlqd", to_first, first))
    return add(mixed, einsum("bhlqk,bhkd->bhlqd", to_last, last))


def _seen(q: Tensor, blocks: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    count = q.shape[2]
    near = cat([part(blocks, 2, count) for _ in range(3)], 3)
    return near, part(chosen, 2, count), select(blocks, 2), select(blocks, 2)
