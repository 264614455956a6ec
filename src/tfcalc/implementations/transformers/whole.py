"""Whole stacks: tables, layers, and what stands around them; how each kind of part runs."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.implementations.transformers import layers, leaves
from tfcalc.implementations.transformers.activations import activation
from tfcalc.implementations.transformers.attention import attention, reuses
from tfcalc.implementations.transformers.embeddings import embedded, embeddings
from tfcalc.implementations.transformers.encoder_decoder import encoder_decoder
from tfcalc.implementations.transformers.experts import mixture
from tfcalc.implementations.transformers.feed_forward import feed_forward
from tfcalc.implementations.transformers.gemma4 import BY_LAYER, inputs_by_layer
from tfcalc.implementations.transformers.latent import is_latent, latent_attention
from tfcalc.implementations.transformers.logits import head, loss, output
from tfcalc.implementations.transformers.masks import causal, masks, windows
from tfcalc.implementations.transformers.rotation import angles
from tfcalc.implementations.transformers.running import (
    NOTHING,
    Rule,
    Running,
    Stored,
    has,
    in_sequence,
    of_kind,
    reading_text,
)
from tfcalc.tape.value import Value


def stacked(m: Running, part: Component, x: Value) -> Value:
    """Tables, layers, and what stands around them."""
    groups = [each for each in part.parts if each.kind == "layer"]
    if groups:
        _share(m, part)
    tables: list[Value] = []  # the model's variables hold what they made, to its end
    for each in _as_they_run(reading_text(part)):
        if each.kind == "layer":
            if each is groups[0]:
                x = embedded(m, x) if tables else x
                x = _normed_first(m, part, x)
                m.shared = m.shared._replace(inputs=inputs_by_layer(m, part, x))
                given = [x]
                del x  # the stack alone holds it now
                x = layers.stack(m, groups, given.pop())
        elif each.kind == "position" and not (m.shared.angles and each.own.weights and each.own.weights[0].frozen):
            with m.t.inside(each.name):
                tables.append(leaves.positions(m, each))
                x = m.t.add(x, tables[-1])
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
    """A norm of the embedding runs before the layers, wherever it is stored."""
    early = [part for part in parts if part.kind == "norm" and "embed" in part.name]
    others = [part for part in parts if part not in early]
    first = next((place for place, part in enumerate(others) if part.kind == "layer"), 0)
    return [*others[:first], *early, *others[first:]] if early else others


BESIDE = ("pooler", "contact_head")
"""What runs on a stack's result beside the head: on each sequence's first token, or not at all in training (ESM's)."""


def _beside(m: Running, part: Component, x: Value) -> None:
    """BERT's pooler: tanh of a linear map of the first token, which no loss reads."""
    if part.name.startswith("pooler") and part.own.products:
        with m.t.without_gradients():
            (first,) = m.t.split(x, [divide(x.elements, m.stream.length)])
            m.t.of_result("tanh", m(part, first))


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
        shared = shared._replace(mask=causal(m, _heads(blocks)) if shared.looks_back else None, masks=windows(m, part))
    turned = [node.component for each in reading_text(part) for node in each.walk() if has(node.component, "rotary")]
    if turned:
        places = Value(m.t.new(m.stream.length, "int64", "positions"), m.stream.length, "int64")
        shared = shared._replace(places=places, angles=angles(m, turned))
    m.shared = shared


def _heads(blocks: Sequence[Component]) -> Num:
    """Of the attention blocks of a stack: those of the first."""
    return next((of_kind(block, "attend").own.products[0].factors[-2] for block in blocks if has(block, "attend")), 1)


def any_attention(m: Running, part: Component, x: Value) -> Value:
    """Of queries, keys and values, or by a latent vector."""
    return latent_attention(m, part, x) if is_latent(part) else attention(m, part, x)


def model(m: Running, part: Component, x: Value) -> Value:
    """A stack without a head, or stacks with what is behind them."""
    return stacked(m, part, x) if has(part, "layer") else encoder_decoder(m, part, x)


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
    "model": model,
    "moe": mixture,
    "norm": leaves.norm,
    "output": output,
    "router": leaves.linear,
    "ssm": in_sequence,
}
"""By the kind of a part."""
