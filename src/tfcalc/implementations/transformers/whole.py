"""Whole models: tables, stacks, heads, and the loss."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.implementations.transformers import layers, leaves
from tfcalc.implementations.transformers.attention import attention, rotated_width
from tfcalc.implementations.transformers.feed_forward import feed_forward
from tfcalc.implementations.transformers.running import NOTHING, Rule, Running, has
from tfcalc.tape.tape import Value


def stacked(m: Running, part: Component, x: Value) -> Value:
    """Tables, layers, and what stands around them."""
    groups = [each for each in part.parts if each.kind == "layer"]
    if groups:
        _share(m, part)
    tables = 0
    for each in part.parts:
        if each.kind == "layer":
            if each is groups[0]:
                x = _embedded(m, x) if tables else x
                x = layers.stack(m, groups, x)
        elif each.kind == "position":
            with m.t.inside(each.name):
                x = m.t.add(x, leaves.positions(m, each))
        else:
            tables += each.kind == "embedding"
            x = m(each, x)
    m.shared = NOTHING
    return x


def _embedded(m: Running, x: Value) -> Value:
    with m.t.inside("dropout"):
        return m.dropped(x, m.habits.dropped_embeddings)


def _share(m: Running, part: Component) -> None:
    """What all layers read: the mask of eager attention, cos and sin of the positions."""
    kind, shared = m.t.numerics.weights, m.shared
    if m.run.kernel == "eager" and m.habits.masked:
        pairs = m.stream.tokens * m.stream.length
        shared = shared._replace(mask=Value(m.t.new(pairs, kind, "mask"), pairs, kind))
    turned = [node.component for node in part.walk() if has(node.component, "rotary")]
    if turned:
        elements = m.stream.length * rotated_width(m, turned[0])
        shared = shared._replace(angles=(_angle(m, "cos", elements), _angle(m, "sin", elements)))
    m.shared = shared


def _angle(m: Running, name: str, elements: Num) -> Value:
    """The cosine or the sine of each position's angles, which belong to no layer."""
    storage = m.t.new(elements, m.t.numerics.weights, name)
    storage.home = f"{m.t.path}.rotary"
    return Value(storage, elements, m.t.numerics.weights)


def embeddings(m: Running, part: Component, x: Value) -> Value:
    """BERT's: words, positions and segments, their norm, and dropout."""
    for place, each in enumerate(part.parts):
        with m.t.inside(each.name):
            if place and each.kind == "position":
                x = m.t.add(x, leaves.positions(m, each))
            elif place and each.kind == "embedding":
                x = m.t.add(x, leaves.segments(m, each))
            else:
                x = m.rules[each.kind](m, each, x)
    return _embedded(m, x)


def loss(m: Running, part: Component, x: Value) -> Value:
    """Cross-entropy, of logits in fp32 where the family copies them; labels moved by a token are a copy."""
    tokens = m.stream.tokens
    if m.habits.loss == "float32":
        x = m.t.to(x, "float32")
    targets = m.ids
    if m.habits.shifted:  # padded by one token, and the first one cut off: a view where there is one sequence
        more = tokens if m.t.apart else tokens + 1
        targets = Value(m.t.new(more, "int64", "labels"), tokens, "int64")
    return m.t.cross_entropy(x, targets, tokens)


RULES: dict[str, Rule] = {
    "activation": leaves.activation,
    "attention": attention,
    "decoder": stacked,
    "embedding": leaves.embedding,
    "embeddings": embeddings,
    "encoder": stacked,
    "ffn": feed_forward,
    "linear": leaves.linear,
    "loss": loss,
    "norm": leaves.norm,
    "output": leaves.linear,
    "router": leaves.linear,
}
"""By the kind of a part."""
