"""What T5 and its kin add to attention's scores for the distance of two tokens."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import Place
from tfcalc.tape.value import Node, Value


def is_relative(part: Component) -> bool:
    """Whether it is a table of distances: one of positions that is not added to the stream."""
    added = any(each.name.startswith("+") for each in part.own.elementwise)
    return part.kind == "position" and bool(part.own.weights) and not added


def share_bias(m: Running, part: Component) -> None:
    """T5: the first layer makes it for all layers of the stack; again, where that layer runs again.

    In its place, attention to the encoder's output adds zeros. Where layers run again, these get a gradient, which
    stays beside them (T5Attention.forward, ``requires_grad``).
    """
    bias = m.t.checkpoint(lambda _: relative_bias(m, part), m.ids) if m.run.every else relative_bias(m, part)
    zeros = no_bias(m, bias)
    if zeros is not None:
        zeros.storage.home = (*m.t.module, Place("position_bias"))
        if m.run.every:
            zeros.node = Node("zeros", "", (), (), False, 0, 1)  # it never runs
            m.weights[f"{m.t.path}.position_bias"] = zeros
    m.shared = m.shared._replace(bias=bias, memory_bias=zeros)


def own_bias(m: Running, part: Component) -> None:
    """UMT5: each layer has a table of its own, and adds zeros of its own in the other attention."""
    bias = relative_bias(m, part)
    m.shared = m.shared._replace(bias=bias, memory_bias=no_bias(m, bias))


def relative_bias(m: Running, part: Component) -> Value:
    """A number for each head and each pair of places, from the bucket of their distance (T5Attention.compute_bias).

    It lies in memory by pairs, and is read by heads.
    """
    table, pairs = part.own.weights[0], m.stream.length * m.stream.length
    with m.t.inside(part.name):
        buckets = Value(m.t.new(pairs, "int64", "buckets"), pairs, "int64")
        return m.t.embedding(m.weight(table), buckets, table.shape[1]).view(heads=True)


def no_bias(m: Running, bias: Value) -> Value | None:
    """A zero for each head and pair of a place and one of the encoder's, in a decoder."""
    memory_of, queries = m.shared.memory_of, m.stream.length
    if memory_of is None:
        return None
    heads = divide(bias.elements, queries * queries)
    size, kind = heads * queries * memory_of.length, m.t.numerics.compute
    return Value(m.t.new(size, kind, "zeros"), size, kind)
