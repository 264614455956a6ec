"""What T5 and its kin add to attention's scores for the distance of two tokens."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import Place
from tfcalc.tape.tape import Node, Value


def is_relative(part: Component) -> bool:
    """Whether it is a table of distances: one of positions that is not added to the stream."""
    return part.kind == "position" and not part.own.elementwise


def relative_bias(m: Running, part: Component) -> Value:
    """A number for each head and each pair of places, from the bucket of their distance (T5Attention.compute_bias).

    It lies in memory by pairs, and is read by heads. The first layer makes it: again, where that layer runs again.
    """

    def made(_: Value) -> Value:
        table, pairs = part.own.weights[0], m.stream.length * m.stream.length
        buckets = Value(m.t.new(pairs, "int64", "buckets"), pairs, "int64")
        return m.t.embedding(m.weight(table), buckets, table.shape[1]).view(heads=True)

    with m.t.inside(part.name):
        return m.t.checkpoint(made, m.ids) if m.run.every else made(m.ids)


def no_bias(m: Running, bias: Value) -> Value | None:
    """The zeros that attention to the encoder's output adds in its place: the first layer's, for all layers.

    Where layers run again they get a gradient, which stays beside them (T5Attention.forward, ``requires_grad``).
    """
    memory_of, queries = m.shared.memory_of, m.stream.length
    if memory_of is None:
        return None
    heads = divide(bias.elements, queries * queries)
    size, kind = heads * queries * memory_of.length, m.t.numerics.compute
    zeros = Value(m.t.new(size, kind, "zeros"), size, kind)
    zeros.storage.home = (*m.t.module, Place("position_bias"))
    if m.run.every:
        zeros.node = Node("zeros", "", (), (), False, 0, 1)  # it never runs
        m.weights[f"{m.t.path}.position_bias"] = zeros
    return zeros
