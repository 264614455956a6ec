"""torch.nn.Transformer, its stacks, and what stands around it: tables, an output head, a loss."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.implementations.torch_nn.attention import attention
from tfcalc.implementations.transformers import layers, leaves
from tfcalc.implementations.transformers.activations import activation
from tfcalc.implementations.transformers.logits import loss
from tfcalc.implementations.transformers.running import NOTHING, Rule, Running, by_letter, of_kind
from tfcalc.tape.ledger import Place
from tfcalc.tape.value import Value
from tfcalc.workload import Sequences


def model(m: Running, part: Component, ids: Value) -> Value:
    """Words and positions for each stack, the Transformer, logits, their loss."""
    tables = [each for each in part.parts if each.kind == "embedding"]
    core = of_kind(part, "core")
    target = embedded(m, part, tables[-1], m.run.target, ids)
    source = target
    if _stacks(core) == 2:
        source = embedded(m, part, tables[0], m.run.source, m.t.given(m.run.source.tokens, "int64", "source ids"))
    with m.t.inside(core.name):
        x = transformer(m, core, source, target)
    for each in part.parts[part.parts.index(core) + 1 :]:
        x = m(each, x)
    return x


def embedded(m: Running, part: Component, table: Component, stream: Sequences, ids: Value) -> Value:
    """``dropout(E[ids] + P)``: the positions are rows of a buffer, or of a trained table."""
    m.stream, m.ids = stream, ids
    x = m(table, ids)
    for each in part.parts:
        if each.kind == "position":
            with m.t.inside(each.name):
                x = m.t.add(x, _positions(m, each))
    return m.dropped(x, m.habits.dropped_embeddings)


def _positions(m: Running, part: Component) -> Value:
    if part.own.weights:
        return leaves.positions(m, part)
    table = part.own.buffers[0]
    return m.t.given(m.stream.length * table.shape[1], m.t.numerics.weights, "positions")


def core(m: Running, part: Component, _: Value) -> Value:
    """A Transformer that reads vectors, not words; what is trained is then the sum of what it makes, in fp32."""
    h = next(node.component for node in part.walk() if node.component.own.products).own.products[0].factors[2]
    source, target = (_data(m, stream.tokens * h) for stream in (m.run.source, m.run.target))
    if _stacks(part) == 1:
        source = target
    x = transformer(m, part, source, target)
    if not m.run.training:
        return x
    x = m.t.to(x, "float32")
    return m.t.result("sum", [x], 1, x.dtype)


def _data(m: Running, elements: object) -> Value:
    kind = m.t.numerics.weights
    if m.run.input_gradient:
        return m.t.parameter(elements, kind, "input")  # type: ignore[arg-type]
    return m.t.given(elements, kind, "input")  # type: ignore[arg-type]


def _stacks(part: Component) -> int:
    return sum(each.kind in ("encoder", "decoder") for each in part.parts)


def transformer(m: Running, part: Component, source: Value, target: Value) -> Value:
    """The encoder, and the decoder that reads what it made."""
    if _stacks(part) == 1:
        return stack(m, part, m.run.target, target)
    norm = next(place for place, each in enumerate(part.parts) if each.kind == "decoder")
    memory = stack(m, part._replace(parts=part.parts[:norm]), m.run.source, source)
    if not m.every_layer:
        memory.storage.home = (*m.t.module, Place("memory"))  # one for all layers that keep it
    m.shared = m.shared._replace(memory=memory, memory_of=m.run.source)
    made = stack(m, part._replace(parts=part.parts[norm:]), m.run.target, target)
    m.shared = NOTHING
    return made


def stack(m: Running, part: Component, stream: Sequences, x: Value) -> Value:
    """TransformerEncoder or TransformerDecoder: layers, and a norm."""
    m.stream = stream
    for each in part.parts:
        x = m(each, x)
    return x


def in_layers(m: Running, part: Component, x: Value) -> Value:
    """The layers of a stack, one after another."""
    return layers.stack(m, [each for each in part.parts if each.kind == "layer"], x)


def feed_forward(m: Running, part: Component, x: Value) -> Value:
    """``linear2(dropout(activation(linear1(x))))``."""
    maps = by_letter(part)
    return m(maps["W_2"], m.dropped(m(of_kind(part, "activation"), m(maps["W_1"], x)), m.habits.dropped_inside))


def norm(m: Running, part: Component, x: Value) -> Value:
    """nn.LayerNorm or nn.RMSNorm: a kernel each, which autocast runs in fp32."""
    return leaves.norm(m, part, m.t.upper(x))


RULES: dict[str, Rule] = {
    "activation": activation,
    "attention": attention,
    "core": core,
    "decoder": in_layers,
    "embedding": leaves.embedding,
    "encoder": in_layers,
    "ffn": feed_forward,
    "linear": leaves.linear,
    "loss": loss,
    "model": model,
    "norm": norm,
    "output": leaves.linear,
}
"""By the kind of a part."""
