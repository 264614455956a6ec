"""Routers: which experts a token is sent to, and with which weights."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import WIDTHS
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
    logits = _logits(m, part, x)
    found = best(m, t.softmax(logits, "float32"), tokens * _active(experts))
    weights = _normalized(m, found.weights)
    return Routed(t.to(weights, logits.dtype), found.chosen, logits)


def best_first(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """The softmax of the best logits alone; from fp32 it is brought back to the format of what the router read."""
    t, logits = m.t, _logits(m, part, x)
    found = best(m, logits, m.stream.tokens * _active(experts))
    weights = t.softmax(found.weights, found.weights.dtype)
    return Routed(t.to(weights, x.dtype) if m.habits.router_logits == "float32" else weights, found.chosen, logits)


def of_sigmoid(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """DeepSeek-V3: a trained bias and groups say which are chosen, which leaves no gradient."""
    t = m.t
    scores = t.of_result("sigmoid", _logits(m, part, x))
    found = _gathered(m, scores, m.stream.tokens * _active(experts))
    return Routed(t.scaled(_normalized(m, found.weights)), found.chosen)


def of_gathered_softmax(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """ERNIE 4.5: a bias says which are chosen; their probabilities are divided by their sum, or by a least number."""
    t = m.t
    with t.no_autocast():
        scores = t.softmax(_logits(m, part, x), "float32")
        found = _gathered(m, scores, m.stream.tokens * _active(experts))
        least = t.of_input("clamp", _total(m, found.weights))
        weights = _divided(m, found.weights, least)
    return Routed(t.to(weights, x.dtype), found.chosen)


def of_sparse_mixer(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """Phi-3.5-MoE: two experts drawn one after the other, the second without the first (arXiv 2409.12136)."""
    t, logits = m.t, m.rules["linear"](m, part, x)
    first = _drawn(m, logits)
    others = t.result("scatter", [logits], logits.elements, logits.dtype, saves=[first.chosen])
    second = _drawn(m, others)
    pairs = m.stream.tokens * _active(experts)
    chosen = Value(t.new(pairs, "int64", "experts chosen"), pairs, "int64")
    return Routed(t.joined([first.weights, second.weights], pairs), chosen, logits)


def _drawn(m: Running, scores: Value) -> Routed:
    """One expert for each token, of those that are good enough; a function of its own keeps all that led to it."""
    t, tokens = m.t, m.stream.tokens
    poor = Value(t.new(scores.elements, "bool", "masked experts"), scores.elements, "bool")
    gates = t.softmax(t.result("masked_fill", [scores], scores.elements, scores.dtype, saves=[poor]))
    found = _gathered(m, gates, tokens)
    saves = [found.weights, found.chosen, gates]
    given = [scores, found.weights, gates]
    return Routed(t.result("multiplier", given, tokens, gates.dtype, saves=saves), found.chosen)


def _gathered(m: Running, scores: Value, pairs: Num) -> Routed:
    """Those of the experts that something else has chosen: keeps which these are."""
    chosen = Value(m.t.new(pairs, "int64", "experts chosen"), pairs, "int64")
    return Routed(m.t.result("gather", [scores], pairs, scores.dtype, saves=[scores, chosen]), chosen)


def of_groups(m: Running, part: Component, experts: Component, x: Value) -> Routed:
    """DeepSeek-V2: the best of all probabilities, or of those in the best groups, which a mask leaves."""
    t = m.t
    scores = t.softmax(_logits(m, part, x), "float32")
    if m.field("topk_method", "greedy") == "group_limited_greedy":
        mask = Value(t.new(scores.elements, "bool", "groups chosen"), scores.elements, "bool")
        scores = t.result("masked_fill", [scores], scores.elements, scores.dtype, saves=[mask])
    found = best(m, scores, m.stream.tokens * _active(experts))
    return Routed(t.scaled(found.weights), found.chosen)


def _logits(m: Running, part: Component, x: Value) -> Value:
    """In the format that the family has them in."""
    if m.habits.router_logits == "copies":
        return _logits_in_float32(m, part, x)
    logits = m.rules["linear"](m, part, x)
    return m.t.to(logits, "float32") if m.habits.router_logits == "float32" else logits


def _logits_in_float32(m: Running, part: Component, x: Value) -> Value:
    """Of a copy of x in fp32, and of one of the weight, if that is in another format."""
    t, (tensor, *_) = m.t, part.own.weights
    kind = "float32" if m.habits.router_weights == "float32" else t.numerics.weights
    weight = t.to(m.weight(tensor, kind=kind), "float32")
    return t.linear(t.to(x, "float32"), weight, None, m.stream.tokens, tensor.shape[1])


def best(m: Running, x: Value, pairs: Num) -> Routed:
    """torch.topk: keeps which they are."""
    chosen = Value(m.t.new(pairs, "int64", "experts chosen"), pairs, "int64")
    return Routed(m.t.result("topk", [x], pairs, x.dtype, saves=[chosen]), chosen)


def _normalized(m: Running, x: Value) -> Value:
    """Over their sum, where the family does that: keeps both; in place, that is a copy of ``x`` before."""
    if not m.does(m.habits.normalizes):
        return x
    t, total = m.t, _total(m, x)
    if not m.habits.normalizes_in_place:
        return _divided(m, x, t.scaled(total))
    before = Value(t.new(x.elements, x.dtype, "before div_"), x.elements, x.dtype)
    return t.result("div_", [x, total], x.elements, x.dtype, saves=[before, total], shares=x.storage)


def _total(m: Running, x: Value) -> Value:
    """Each token's sum."""
    return m.t.result("sum", [x], m.stream.tokens, "float32" if m.t.numerics.autocast else x.dtype)


def _divided(m: Running, x: Value, total: Value) -> Value:
    """``x / total``: keeps both."""
    wide = max(x.dtype, total.dtype, key=lambda dtype: WIDTHS[dtype])
    return m.t.result("div", [x, total], x.elements, wide, saves=[x, total])


def _active(experts: Component) -> Num:
    return experts.times.active


ROUTERS = {
    "best first": best_first,
    "gathered softmax": of_gathered_softmax,
    "groups": of_groups,
    "sigmoid": of_sigmoid,
    "softmax": of_softmax,
    "sparse mixer": of_sparse_mixer,
}
"""By the habit of a family."""
