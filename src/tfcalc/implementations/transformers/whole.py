"""Whole models: tables, stacks, heads, and the loss."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers import layers, leaves
from tfcalc.implementations.transformers.activations import activation
from tfcalc.implementations.transformers.attention import attention, reuses
from tfcalc.implementations.transformers.convolution import recurrence
from tfcalc.implementations.transformers.disentangled import (
    CONVOLUTION,
    convolved,
    disentangled,
    distances,
    parts_of_stream,
    without_padding,
)
from tfcalc.implementations.transformers.encoder_decoder import encoder_decoder
from tfcalc.implementations.transformers.experts import mixture
from tfcalc.implementations.transformers.feed_forward import feed_forward
from tfcalc.implementations.transformers.gemma4 import BY_LAYER, inputs_by_layer
from tfcalc.implementations.transformers.latent import is_latent, latent_attention
from tfcalc.implementations.transformers.masks import masks, windows
from tfcalc.implementations.transformers.relative_bias import is_relative, share_bias
from tfcalc.implementations.transformers.rotation import angles
from tfcalc.implementations.transformers.running import NOTHING, Rule, Running, Stored, has, of_kind, reading_text
from tfcalc.tape.value import Value


def stacked(m: Running, part: Component, x: Value) -> Value:
    """Tables, layers, and what stands around them."""
    groups = [each for each in part.parts if each.kind == "layer"]
    if groups:
        _share(m, part)
    tables: list[Value] = []  # the model's variables hold what they made, to its end
    for each in _as_they_run(parts_of_stream(part) if m.habits.disentangled else reading_text(part)):
        if each.kind == "layer":
            if each is groups[0]:
                x = _embedded(m, x) if tables else x
                x = _normed_first(m, part, x)
                m.shared = m.shared._replace(inputs=inputs_by_layer(m, part, x))
                given, read = [x], x if has(part, "convolution") else None
                del x  # the stack alone holds it now
                x = layers.stack(m, groups, given.pop())
        elif is_relative(each):
            share_bias(m, each)
        elif each.kind == "position" and not (m.shared.angles and each.own.weights and each.own.weights[0].frozen):
            with m.t.inside(each.name):
                tables.append(leaves.positions(m, each))
                x = m.t.add(x, tables[-1])
        elif each.name == CONVOLUTION and read is not None:
            x = convolved(m, part, read, x)
        elif each.name in BY_LAYER:  # they ran before the layers
            continue
        elif each.name.startswith(BESIDE):
            _beside(m, each, x)
        else:
            x = m(each, x)
            tables += [x] if each.kind == "embedding" else []
    m.shared = NOTHING
    return m.dropped(x, m.habits.dropped_output) if groups else x


def _as_they_run(parts: Sequence[Component]) -> list[Component]:
    """A norm of the embedding, and a table of distances, run before the layers, wherever they are stored."""
    early = [part for part in parts if (part.kind == "norm" and "embed" in part.name) or is_relative(part)]
    others = [part for part in parts if part not in early]
    first = next((place for place, part in enumerate(others) if part.kind == "layer"), 0)
    return [*others[:first], *early, *others[first:]] if early else others


BESIDE = ("pooler", "contact_head")
"""What runs on a stack's result beside the head: on each sequence's first token, or not at all in training (ESM's)."""


def _beside(m: Running, part: Component, x: Value) -> None:
    """BERT's pooler: tanh of a linear map of the first token."""
    if part.name.startswith("pooler") and part.own.products:
        (first,) = m.t.split(x, [divide(x.elements, m.stream.length)])
        m.t.of_result("tanh", m(part, first))


def head(m: Running, part: Component, x: Value) -> Value:
    """What makes logits; a bias that stands by itself is added to them."""
    before, m.habits = m.habits, m.habits._replace(layernorm="kernel")
    for each in part.parts:
        x = m(each, x)
        if each.kind == "output" and len(each.own.weights) == 1 and has(part, "parameter"):
            x = m.t.add(x, m.weight(of_kind(part, "parameter").own.weights[0]))
    m.habits = before
    return x


def _embedded(m: Running, x: Value) -> Value:
    with m.t.inside("dropout"):
        return m.dropped(x, m.habits.dropped_embeddings)


def _normed_first(m: Running, part: Component, x: Value) -> Value:
    """The embedding after the stack's last norm, where the family runs it at both ends."""
    return m([each for each in part.parts if each.kind == "norm"][-1], x) if m.habits.normed_embedding else x


def _share(m: Running, part: Component) -> None:
    """What all layers read: the mask of eager attention, cos and sin of the positions."""
    blocks = [node.component for node in part.walk() if node.component.kind == "attention"]
    stored: Stored | None = {} if any(map(reuses, blocks)) else None
    shared = m.shared._replace(looks_back=part.kind != "encoder", stored=stored)
    if m.cache is not None:
        shared = shared._replace(masks=masks(m, m.cache))
    else:
        shared = shared._replace(mask=_mask(m) if shared.looks_back else None, masks=windows(m, part))
    if m.habits.disentangled:
        shared = shared._replace(distances=distances(m, part))
    turned = [node.component for each in reading_text(part) for node in each.walk() if has(node.component, "rotary")]
    if turned:
        places = Value(m.t.new(m.stream.length, "int64", "positions"), m.stream.length, "int64")
        shared = shared._replace(places=places, angles=angles(m, turned))
    m.shared = shared


def _mask(m: Running) -> Value | None:
    """Eager attention's is of numbers; sdpa's of booleans, and there is none where that can be seen to say nothing."""
    pairs = m.stream.tokens * m.stream.length
    if m.run.kernel == "eager" and m.habits.masked:
        kind = "bool" if m.habits.limits_scores == "filled" else m.t.numerics.weights
        storage = m.t.new(pairs * m.habits.masks, kind, "mask")
        storage.home = tuple(m.t.module)  # one for all layers, if any keeps it
        return Value(storage, pairs, kind)
    if m.run.kernel != "eager" and m.habits.masks_with_alibi and m.field("alibi"):
        pairs, kind = pairs * m.field("num_attention_heads"), m.t.numerics.weights
        return Value(m.t.new(pairs, kind, "mask"), pairs, kind)
    if m.run.kernel != "eager" and m.habits.given_ones and m.t.numerics.traced:
        return Value(m.t.new(pairs, "bool", "mask"), pairs, "bool")
    return None


def embeddings(m: Running, part: Component, x: Value) -> Value:
    """BERT's: words, positions and segments, their norm, and dropout."""
    for place, each in enumerate(_tables_read(m, part)):
        x = _tokens_dropped(m, x) if place == 1 and m.field("token_dropout") else x
        with m.t.inside(each.name):
            if each.name in SOUNDS_AND_SHAPES:
                beside = leaves.segments(m, each)
                x = m.t.joined([x, beside], x.elements + beside.elements)
            elif place and each.kind == "position":
                x = m.t.add(x, leaves.positions(m, each))
            elif place and each.kind == "embedding":
                x = m.t.add(x, leaves.segments(m, each))
            else:
                x = m.rules[each.kind](m, each, x)
    if m.habits.disentangled:
        x = without_padding(m, x)
    return _embedded(m, x)


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
    share = Value(m.t.new(m.stream.batch, "float32", "share of the others"), m.stream.batch, "float32")
    x = m.t.result("masked_fill", [x], x.elements, x.dtype, saves=[masked])
    return m.t.to(m.t.result("div", [m.t.scaled(x)], x.elements, "float32", saves=[share]), x.dtype)


def loss(m: Running, part: Component, x: Value) -> Value:
    """Cross-entropy, of logits in fp32 where the family copies them; labels moved by a token are a copy."""
    m.t.ledger.begin("loss")
    if m.habits.loss == "float32" or _predicts_next(m):
        x = m.t.to(x, "float32")
    return m.t.cross_entropy(x, labels(m))


def _predicts_next(m: Running) -> bool:
    """Whether it is one of BERT's kin that predicts the next token, not masked ones, by the name of its class."""
    name = m.t.module[0].name if m.t.module else ""
    return m.habits.loss == "by class" and "MaskedLM" not in name and "PreTraining" not in name


def labels(m: Running) -> Value:
    """The tokens, or those moved by one: padded, and the first one cut off, a view where there is one sequence."""
    tokens = m.stream.tokens
    if not m.habits.shifted and not _predicts_next(m):
        return m.ids
    return Value(m.t.new(tokens if m.t.apart else tokens + 1, "int64", "labels"), tokens, "int64")


def output(m: Running, part: Component, x: Value) -> Value:
    """The logits, multiplied or capped where the family does that."""
    return m.capped(_logits(m, part, x), m.habits.capped_logits)


def _logits(m: Running, part: Component, x: Value) -> Value:
    x = leaves.linear(m, part, x)
    return m.t.scaled(x) if "logits" in m.habits.multiplied else x


def any_attention(m: Running, part: Component, x: Value) -> Value:
    """Of queries, keys and values, or by a latent vector, or DeBERTa's."""
    if m.habits.disentangled:
        return disentangled(m, part, x)
    return latent_attention(m, part, x) if is_latent(part) else attention(m, part, x)


RULES: dict[str, Rule] = {
    "activation": activation,
    "attention": any_attention,
    "decoder": stacked,
    "embedding": leaves.embedding,
    "embeddings": embeddings,
    "encoder": stacked,
    "encoder-decoder": encoder_decoder,
    "ffn": feed_forward,
    "head": head,
    "linear": leaves.linear,
    "loss": loss,
    "model": encoder_decoder,
    "moe": mixture,
    "norm": leaves.norm,
    "output": output,
    "router": leaves.linear,
    "ssm": recurrence,
}
"""By the kind of a part."""
