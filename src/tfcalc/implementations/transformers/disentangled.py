"""DeBERTa's attention: scores by content, and by content and distance (arXiv 2006.03654).

DeBERTa makes queries, keys and values by one map, its second version by three, and writes each anew head by head.
"""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers.attend import Shape
from tfcalc.implementations.transformers.attention import projections, shape
from tfcalc.implementations.transformers.running import Running, by_letter, has
from tfcalc.tape.value import Value

TABLE, ITS_NORM = "rel_embeddings", "LayerNorm"
CONTENT_TO_PLACE, PLACE_TO_CONTENT = "c2p", "p2c"
MAPS = {
    CONTENT_TO_PLACE: ("self.pos_proj", "self.pos_key_proj", "self.key_proj"),
    PLACE_TO_CONTENT: ("self.pos_q_proj", "self.pos_query_proj", "self.query_proj"),
}
"""Which maps a distance's vector may go through; the last is that of the words, where both share it."""


CONVOLUTION, ITS_ACTIVATION, THEIR_NORM = "conv.conv", "conv.activation", "conv.LayerNorm"


def parts_of_stream(stack: Component) -> tuple[Component, ...]:
    """Those that run one after another: the table of distances is read beside them, and so is what goes with others."""
    if not has(stack, "layer"):
        return stack.parts
    return tuple(part for part in stack.parts if part.name not in (TABLE, ITS_NORM, ITS_ACTIVATION, THEIR_NORM))


def without_padding(m: Running, x: Value) -> Value:
    """``x`` times 1 for a token, 0 for padding; layers read the same tensor, if it has their format."""
    kind, tokens = m.t.numerics.weights, m.stream.tokens
    padding = m.shared.padding
    if padding is None or kind != "float32":
        padding = Value(m.t.new(tokens, kind, "padding"), tokens, kind)
        m.shared = m.shared._replace(padding=padding)
    return m.t.mul(x, padding)


def convolved(m: Running, stack: Component, read: Value, x: Value) -> Value:
    """A convolution of what the first layer ``read`` is added to what it made, and normed (ConvLayer).

    That it runs here behind the last layer does not change what is kept.
    """
    t, named = m.t, {part.name: part for part in stack.parts}
    with t.inside(CONVOLUTION):
        weights = [m.weight(tensor) for tensor in named[CONVOLUTION].own.weights]
        copy = t.copied(read, read.elements)
        made = t.result("convolution", [copy, *weights], copy.elements, copy.dtype, saves=[copy, weights[0]])
        made = t.copied(made, made.elements)
        padding = Value(t.new(m.stream.tokens, "bool", "padding"), m.stream.tokens, "bool")
        made = t.result("masked_fill_", [made], made.elements, made.dtype, saves=[padding], shares=made.storage)
        made = m.dropped(made, m.habits.dropped)
    return without_padding(m, m(named[THEIR_NORM], t.add(x, m(named[ITS_ACTIVATION], made))))


def distances(m: Running, stack: Component) -> Value | None:
    """A vector for each distance, which all layers read: a parameter, or what a norm makes of it."""
    named = {part.name: part for part in stack.parts}
    if TABLE not in named:
        return None
    vectors = m.trained(named[TABLE])
    return m(named[ITS_NORM], vectors) if ITS_NORM in named else vectors


def disentangled(m: Running, part: Component, x: Value) -> Value:
    """Scores of three kinds; what is padding is put to the smallest number."""
    t, sizes, maps = m.t, shape(m, part), by_letter(part)
    q, k, v = _heads(m, part, sizes, x)
    first = "W_QKV" in maps
    q, scaled_k = (_divided(m, q), k) if first else (q, _divided(m, k))
    p = t.matmul(q, scaled_k, sizes.scores)
    kinds = [each.name for each in part.parts if each.name in MAPS]
    given = m.shared.distances
    if kinds and given is not None:
        given = m.dropped(given, m.habits.dropped)
        for kind in kinds:
            vectors = _vectors(m, part, kind, given)
            p = t.add(p, _by_distance(m, sizes, vectors, k if kind == PLACE_TO_CONTENT else q, kind if first else ""))
    p = _talked(m, part, "self.head_logits_proj", p)
    pairs = m.stream.tokens * m.stream.length
    padding = Value(t.new(pairs, "bool", "padding"), pairs, "bool")
    p = t.softmax(t.result("masked_fill", [p], p.elements, p.dtype, saves=[padding]))
    p = _talked(m, part, "self.head_weights_proj", m.dropped(p, m.habits.dropped_scores))
    return m(maps["W_O"], t.contiguous(t.matmul(p, v, sizes.mixed).view(heads=True)))


def _heads(m: Running, part: Component, sizes: Shape, x: Value) -> tuple[Value, Value, Value]:
    """Queries, keys and values; the first version adds biases of its own to queries and values."""
    q, k, v = projections(m, part, sizes, x)
    named = {leaf.name: leaf for leaf in part.parts}
    if "self.q_bias" not in named:
        return m.t.contiguous(q), m.t.contiguous(k), m.t.contiguous(v)
    q, v = m.t.add(q, m.trained(named["self.q_bias"])), m.t.add(v, m.trained(named["self.v_bias"]))
    return q.view(heads=True), k, v.view(heads=True)


def _divided(m: Running, x: Value, *, in_place: bool = False) -> Value:
    """By a tensor of one number, which is kept."""
    number = Value(m.t.new(1, x.dtype, "scale"), 1, x.dtype)
    shares = x.storage if in_place else None
    return m.t.result("div", [x], x.elements, x.dtype, saves=[number], heads=x.heads, shares=shares)


def _by_distance(m: Running, sizes: Shape, vectors: Value, content: Value, first: str) -> Value:
    """Scores of each token and each distance, of which those of its pairs are picked: their places are kept.

    In the ``first`` version (which says what is compared), torch.matmul copies the vectors for each sequence, if there
    are several; in the second, its code does.
    """
    t, rows = m.t, divide(vectors.elements, divide(sizes.queries, m.stream.tokens))
    if first == PLACE_TO_CONTENT:
        vectors = _divided(m, vectors, in_place=True)
    if not first:
        vectors = t.copied(t.contiguous(vectors), vectors.elements * m.stream.batch, "repeat")
    else:
        vectors = t.copied(vectors, vectors.elements * m.stream.batch) if t.apart else vectors.view(heads=False)
    made = t.matmul(content, vectors, m.stream.tokens * sizes.heads * rows)
    pairs = m.stream.length * m.stream.length
    places = Value(t.new(pairs, "int64", "distances"), pairs, "int64")
    made = t.result("gather", [made], sizes.scores, made.dtype, saves=[places, made])
    return made if first else _divided(m, made)


def _vectors(m: Running, part: Component, kind: str, given: Value) -> Value:
    """What a map makes of the distances' vectors; of a map that these share with the words, with rows of their own."""
    named = {leaf.name: leaf for leaf in part.parts}
    leaf = next(named[name] for name in MAPS[kind] if name in named)
    if leaf.name != MAPS[kind][-1]:
        return m(leaf, given).view(heads=True)
    h, width = leaf.own.weights[0].shape
    with m.t.inside(leaf.name):
        weight, bias = (m.weight(tensor) for tensor in leaf.own.weights)
        return m.t.linear(given, weight, bias, divide(given.elements, h), width).view(heads=True)


def _talked(m: Running, part: Component, name: str, p: Value) -> Value:
    """Where heads talk to each other, a map mixes all their numbers of a pair, which it reads as a copy."""
    leaf = next((leaf for leaf in part.parts if leaf.name == name), None)
    return p if leaf is None else m(leaf, m.t.copied(p, p.elements)).view(heads=True)
