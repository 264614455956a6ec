"""Gemma 4's layers: experts beside the dense network, and a vector of the token for each layer."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.implementations.transformers import leaves
from tfcalc.implementations.transformers.experts import EXPERTS
from tfcalc.implementations.transformers.routers import Routed, routed
from tfcalc.implementations.transformers.running import Running, by_letter, of_kind
from tfcalc.tape.value import Value

Parts = dict[str, Component]
TABLE, MAP, NORM = "embed_tokens_per_layer", "per_layer_model_projection", "per_layer_projection_norm"
BY_LAYER = (TABLE, MAP, NORM)
"""Parts of a stack that make vectors for its layers, before these run."""


def inputs_by_layer(m: Running, stack: Component, x: Value) -> Value | None:
    """A vector for each layer, of a table of its own and of the token's embedding (``project_per_layer_inputs``)."""
    parts = {part.name: part for part in stack.parts if part.name in BY_LAYER}
    if len(parts) < len(BY_LAYER):
        return None
    with m.t.inside(TABLE):
        own = leaves.embedding(m, parts[TABLE], m.ids)
    made = m.t.scaled(m.t.add(m(parts[NORM], m.t.scaled(m(parts[MAP], x))), own))
    made.storage.home = tuple(m.t.module)  # one for all layers
    return made


def gemma4_layer(m: Running, norms: list[Component], subs: list[Component], x: Value) -> Value:
    """Each sub-layer between its two norms; the gated vector of the layer comes last (Gemma4TextDecoderLayer)."""
    t = m.t
    named = {part.name: part for part in (*norms, *subs)}
    kinds = {part.kind: part for part in subs}
    made = m(kinds["attention"], m(named["input_layernorm"], x))
    x = t.add(x, m(named["post_attention_layernorm"], made))
    made = m(kinds["ffn"], m(named["pre_feedforward_layernorm"], x))
    if "moe" in kinds:
        made = t.add(m(named["post_feedforward_layernorm_1"], made), _mixture(m, named, kinds["moe"], x))
    x = t.add(x, m(named["post_feedforward_layernorm"], made))
    if "per_layer_input" in kinds:
        x = t.add(x, m(named["post_per_layer_input_norm"], _input(m, kinds["per_layer_input"], x)))
    return x


def _input(m: Running, part: Component, x: Value) -> Value:
    """This layer's vector, times a gate that the stream opens."""
    inputs = m.shared.inputs
    assert inputs is not None
    with m.t.inside(part.name):
        maps = by_letter(part)
        gate = m(of_kind(part, "activation"), m(maps["W_per_layer_input_gate"], x))
        own = m.t.result("select", [inputs], gate.elements, inputs.dtype, shares=inputs.storage)
        return m(maps["W_per_layer_projection"], m.t.mul(gate, own))


def _mixture(m: Running, named: Parts, part: Component, x: Value) -> Value:
    """The router reads the stream, normed and scaled by itself; the experts read it by a norm of their own."""
    with m.t.inside(part.name):
        sent = _routed(m, part, x)
    normed = m(named["pre_feedforward_layernorm_2"], x)
    experts = of_kind(part, "experts")
    with m.t.inside(part.name), m.t.inside(experts.name):
        made = EXPERTS[m.experts](m, experts, normed, sent)
    return m(named["post_feedforward_layernorm_2"], made)


def _routed(m: Running, part: Component, x: Value) -> Routed:
    """By the best of all probabilities, each times a trained number of its expert's."""
    t = m.t
    own = {leaf.name: leaf for leaf in part.parts}
    x = m(own["router.norm"], x)
    x = t.scaled(t.mul(x, m.trained(own["router.scale"]), x.elements))
    sent = routed(m, of_kind(part, "router"), of_kind(part, "experts"), x)
    scales, pairs = m.trained(own["router.per_expert_scale"]), sent.chosen.elements
    picked = t.result("index", [scales], pairs, scales.dtype, saves=[sent.chosen])
    return sent._replace(weights=t.mul(sent.weights, picked))
