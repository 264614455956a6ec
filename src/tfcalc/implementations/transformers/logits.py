"""Heads that make logits, and the loss that reads them."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.implementations.transformers import leaves
from tfcalc.implementations.transformers.running import Running, has, of_kind
from tfcalc.tape.value import Value


def head(m: Running, part: Component, x: Value) -> Value:
    """What makes logits; a bias that stands by itself is added to them."""
    before, m.habits = m.habits, m.habits._replace(layernorm="kernel")
    for each in part.parts:
        x = m(each, x)
        if each.kind == "output" and len(each.own.weights) == 1 and has(part, "parameter"):
            x = m.t.add(x, m.weight(of_kind(part, "parameter").own.weights[0]))
    m.habits = before
    return x


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
    """The logits, multiplied where the family does that."""
    x = leaves.linear(m, part, x)
    return m.t.scaled(x) if "logits" in m.habits.multiplied else x
