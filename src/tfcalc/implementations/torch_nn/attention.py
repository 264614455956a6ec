"""torch.nn.MultiheadAttention without weights as a result: torch.nn.functional.multi_head_attention_forward."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.core.component import Component
from tfcalc.core.cost import Tensor
from tfcalc.core.number import Num, divide, total
from tfcalc.implementations.transformers.attend import KEPT_BY_EFFICIENT, KEPT_BY_FLASH, Shape, math
from tfcalc.implementations.transformers.attention import shape
from tfcalc.implementations.transformers.running import Running, by_letter, of_memory
from tfcalc.tape.operations import padded
from tfcalc.tape.value import Value


def attention(m: Running, part: Component, x: Value) -> Value:
    """Queries, keys and values from one packed matrix, scaled_dot_product_attention, and the output projection."""
    sizes, maps = shape(m, part), by_letter(part)
    q, k, v = from_memory(m, maps, x) if of_memory(part) else from_itself(m, maps, x)
    mixed = attended(m, sizes, q, k, v)
    del q, k, v
    mixed = batch_second(m, sizes, mixed)
    return m(maps["W_O"], mixed)


def from_itself(m: Running, maps: dict[str, Component], x: Value) -> tuple[Value, Value, Value]:
    """Self-attention: one product, whose result is copied so that queries, keys and values lie behind each other."""
    weights = _joined([maps["W_Q"], maps["W_K"], maps["W_V"]])
    rows, width = maps["W_Q"].own.products[0].factors[1], weights[0].shape[1]
    made = m.t.linear(in_rows(m, transposed(m, x)), *_both([m.weight(each) for each in weights]), rows, width)
    q, k, v = _parts(m, made, 3)
    return q, k, v


def from_memory(m: Running, maps: dict[str, Component], x: Value) -> tuple[Value, Value, Value]:
    """Attention to the encoder's output: the matrix and the bias are split into those of queries and of the others.

    Autocast keeps its copies of parameters, not of parts of them.
    """
    assert m.shared.memory is not None
    x, memory = transposed(m, x), transposed(m, m.shared.memory)
    weights = _joined([maps["W_Q"], maps["W_K"], maps["W_V"]])
    rows = [maps[letter].own.products[0].factors[1] for letter in ("W_Q", "W_K")]
    queries = maps["W_Q"].own.weights[0].shape[1]
    split = [_split(m, tensor, queries) for tensor in weights]
    q = m.t.linear(in_rows(m, x), *_both([m.t.lower(each[0]) for each in split]), rows[0], queries)
    both = [m.t.lower(each[1]) for each in split]
    made = m.t.linear(in_rows(m, memory), *_both(both), rows[1], weights[0].shape[1] - queries)
    k, v = _parts(m, made, 2)
    return q, k, v


def transposed(m: Running, x: Value) -> Value:
    """The batch as the second axis, where it is given as the first: a view."""
    return m.t.result("transpose", [x], x.elements, x.dtype, passes=True, shares=x.storage)


def in_rows(m: Running, x: Value) -> Value:
    """What a product reads: of a view that is not in one piece, a copy."""
    x = m.t.lower(x)
    if not (m.field("batch_first") and m.t.apart):
        return x
    return m.t.result("copy", [x], x.elements, x.dtype, passes=True)


def attended(m: Running, sizes: Shape, q: Value, k: Value, v: Value) -> Value:
    """scaled_dot_product_attention by the kernel that was asked for; what is not fused is ``math``."""
    if m.run.kernel == "flash":
        return m.t.fused_attention(q, k, v, m.stream.tokens * sizes.heads, sizes.mixed, KEPT_BY_FLASH)
    if m.run.kernel == "efficient":
        rows = m.stream.batch * padded(m.stream.length) * sizes.heads
        return m.t.fused_attention(q, k, v, rows, sizes.mixed, KEPT_BY_EFFICIENT)
    return math(m, sizes, q, k, v)


def batch_second(m: Running, sizes: Shape, mixed: Value) -> Value:
    """``permute(2, 0, 1, 3)`` in one piece.

    Flash attention's result lies in memory as the queries do, in which the batch is second; the memory-efficient
    kernel has the batch first, and ``math`` batch and heads.
    """
    apart = {"flash": False, "efficient": m.t.apart}.get(m.run.kernel, m.t.apart or sizes.heads != 1)
    return m.t.copied(mixed, mixed.elements, "permute") if apart else mixed


def _joined(maps: Sequence[Component]) -> list[Tensor]:
    """``in_proj_weight`` and ``in_proj_bias``: those of the maps beside each other."""
    return [
        tensors[0]._replace(
            name=f"in_proj_{name}", shape=(*tensors[0].shape[:-1], total(tensor.shape[-1] for tensor in tensors))
        )
        for name, tensors in zip(
            ("weight", "bias"), zip(*(each.own.weights for each in maps), strict=True), strict=False
        )
    ]


def _both(weights: Sequence[Value]) -> tuple[Value, Value | None]:
    return weights[0], weights[1] if len(weights) > 1 else None


def _split(m: Running, tensor: Tensor, queries: Num) -> list[Value]:
    """The queries' share of a packed tensor, and the rest: views."""
    weight = m.weight(tensor)
    share = divide(tensor.size * queries, tensor.shape[-1])
    return m.t.split(weight, [share, tensor.size - share])


def _parts(m: Running, packed: Value, number: int) -> list[Value]:
    """``unflatten``, ``transpose``, ``contiguous``, and a view of each part; its gradient is as large as the whole."""
    packed = m.t.copied(packed, packed.elements, "contiguous")
    size = divide(packed.elements, number)
    return [m.t.result("select", [packed], size, packed.dtype, shares=packed.storage) for _ in range(number)]
