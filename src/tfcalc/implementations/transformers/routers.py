"""Routers: which experts a token is sent to, and with which weights."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.value import Value


class Routed(NamedTuple):
    """For each token its experts' weights and their numbers; the logits are handed on, though nothing reads them."""

    weights: Value
    chosen: Value
    logits: Value | None = None


def routed(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """The router of this family; every token is sent to as many experts."""
    with m.t.inside(part.name):
        return ROUTERS[m.habits.router](m, part, experts, x)


def of_softmax(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """The best of all probabilities, in fp32; normalized, and brought back to the logits' format where that is done."""
    t, tokens = m.t, m.stream.tokens
    logits = m.rules["linear"](m, part, x)
    found = best(m, t.softmax(logits, "float32"), tokens * _active(experts))
    weights = _normalized(m, found.weights)
    return Routed(weights if m.habits.routes_in_float32 else t.to(weights, logits.dtype), found.chosen, logits)


def best_first(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """The softmax of the best logits alone, in their own format (GPT-OSS)."""
    logits = m.rules["linear"](m, part, x)
    found = best(m, logits, m.stream.tokens * _active(experts))
    return Routed(m.t.softmax(found.weights, found.weights.dtype), found.chosen, logits)


def of_sigmoid(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """DeepSeek-V3: logits in fp32; a trained bias and groups say which are chosen, which leaves no gradient."""
    t, pairs = m.t, m.stream.tokens * _active(experts)
    scores = t.of_result("sigmoid", _logits_in_float32(m, part, x))
    chosen = Value(t.new(pairs, "int64", "experts chosen"), pairs, "int64")
    weights = t.result("gather", [scores], pairs, scores.dtype, saves=[scores, chosen])
    return Routed(t.scaled(_normalized(m, weights)), chosen)


def of_groups(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """DeepSeek-V2: the best of all probabilities, or of those in the best groups, which a mask leaves."""
    t = m.t
    scores = t.softmax(_logits_in_float32(m, part, x), "float32")
    if m.field("topk_method", "greedy") == "group_limited_greedy":
        mask = Value(t.new(scores.elements, "bool", "groups chosen"), scores.elements, "bool")
        scores = t.result("masked_fill", [scores], scores.elements, scores.dtype, saves=[mask])
    found = best(m, scores, m.stream.tokens * _active(experts))
    return Routed(t.scaled(found.weights), found.chosen)


def _logits_in_float32(m: Running, part: Component, x: Value) -> Value:
    """Of copies of x and the weight in fp32."""
    t, (tensor, *_) = m.t, part.own.weights
    weight = t.to(m.weight(tensor), "float32")
    return t.linear(t.to(x, "float32"), weight, None, m.stream.tokens, tensor.shape[1])


def best(m: Running, x: Value, pairs: Num) -> Routed:
    """torch.topk: keeps which they are."""
    chosen = Value(m.t.new(pairs, "int64", "experts chosen"), pairs, "int64")
    return Routed(m.t.result("topk", [x], pairs, x.dtype, saves=[chosen]), chosen)


def _normalized(m: Running, x: Value) -> Value:
    """Over their sum, in place, where the family does that: keeps both, so that there is a copy of ``x`` before."""
    name, default = m.habits.normalizes
    if not (m.field(name, default) if name else default):
        return x
    t, tokens = m.t, m.stream.tokens
    total = t.result("sum", [x], tokens, "float32" if t.numerics.autocast else x.dtype)
    before = Value(t.new(x.elements, x.dtype, "before div_"), x.elements, x.dtype)
    return t.result("div_", [x, total], x.elements, x.dtype, saves=[before, total], shares=x.storage)


def _active(experts: Component) -> Num:
    return experts.times.active


ROUTERS = {"softmax": of_softmax, "best first": best_first, "sigmoid": of_sigmoid, "groups": of_groups}
"""By the habit of a family."""
