"""Embeddings: BERT's tables, their norm, and dropout; what single families do with them beside."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.implementations.transformers import leaves
from tfcalc.implementations.transformers.running import Running, in_sequence
from tfcalc.tape.value import Value


def embeddings(m: Running, part: Component, x: Value) -> Value:
    """BERT's: words, positions and segments, their norm, and dropout."""
    for place, each in enumerate(_tables_read(m, part)):
        with m.t.inside(each.name):
            if each.name in SOUNDS_AND_SHAPES:
                beside = leaves.segments(m, each)
                x = m.t.joined([x, beside], x.elements + beside.elements)
            elif place and each.kind == "position":
                x = m.t.add(x, leaves.positions(m, each))
            elif place and each.kind == "embedding":
                x = m.t.add(x, leaves.segments(m, each))
            else:
                x = m.rules.get(each.kind, in_sequence)(m, each, x)
        x = _tokens_dropped(m, x) if not place and m.field("token_dropout") else x
    return embedded(m, x)


SOUNDS_AND_SHAPES = {"pronunciation_embed": "enable_pronunciation", "shape_embed": "enable_shape"}
"""RoCBERT's tables beside that of the words, and the fields that say whether they are read."""


def _tables_read(m: Running, part: Component) -> list[Component]:
    """RoCBERT maps words, sounds and shapes together first; where it does not, no step reads the last two."""
    parts = [each for each in part.parts if each.name not in SOUNDS_AND_SHAPES]
    joined = [each for each in part.parts if each not in parts and m.field(SOUNDS_AND_SHAPES[each.name])]
    maps = [each for each in parts if each.name == "map_inputs_layer"]
    if not maps:
        return parts
    words, *others = (each for each in parts if each not in maps)
    return [words, *joined, *maps, *others]


def _tokens_dropped(m: Running, x: Value) -> Value:
    """ESM's: masked tokens are put to zero, and the others divided by how many of a sequence they are."""
    masked = Value(m.t.new(m.stream.tokens, "bool", "masked tokens"), m.stream.tokens, "bool")
    share = Value(m.t.new(m.stream.batch, "float32", "share of unmasked tokens"), m.stream.batch, "float32")
    x = m.t.result("masked_fill", [x], x.elements, x.dtype, saves=[masked])
    return m.t.to(m.t.result("div", [m.t.scaled(x)], x.elements, "float32", saves=[share]), x.dtype)


def embedded(m: Running, x: Value) -> Value:
    """The embedding with some of its numbers dropped."""
    with m.t.inside("dropout"):
        return m.dropped(x, m.habits.dropped_embeddings)
