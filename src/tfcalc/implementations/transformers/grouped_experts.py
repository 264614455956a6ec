"""A mixture of experts as one product for each map: rows sorted by their experts (transformers' ``grouped_mm``)."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide, total
from tfcalc.implementations.transformers.running import Running, by_letter, of_kind
from tfcalc.tape.tape import Value


def mixture(m: Running, part: Component, x: Value) -> Value:
    """The experts that the router chooses for each token; what every token goes through is added."""
    of_all = [each for each in part.parts if each.kind == "ffn"]
    router, experts = of_kind(part, "router"), of_kind(part, "experts")
    logits, weights, chosen = routed(m, router, experts, x)
    made = run_experts(m, experts, x, weights, chosen)
    del logits, weights, chosen
    for each in of_all:
        made = m.t.add(made, m(each, x))
    return made


def routed(m: Running, router: Component, experts: Component, x: Value) -> tuple[Value, Value, Value]:
    """Logits, and the weights and numbers of the experts that are chosen."""
    t = m.t
    logits = m(router, x)
    places = m.stream.tokens * experts.times.active
    shares = t.softmax(t.to(logits, "float32"), "float32")
    chosen = Value(t.new(places, "int64", "chosen experts"), places, "int64")
    weights = t.result("topk", [shares], places, "float32", saves=[chosen])
    return logits, weights if m.habits.routes_in_float32 else t.to(weights, logits.dtype), chosen


def run_experts(m: Running, part: Component, x: Value, weights: Value, chosen: Value) -> Value:
    """grouped_mm_experts_forward: gather, two products, weigh, scatter, add."""
    with m.t.inside(part.name):
        t, maps, act = m.t, by_letter(part), of_kind(part, "activation")
        rows, width = chosen.elements, maps["W_2"].own.weights[0].shape[1]
        sorted_experts, order = (Value(t.new(rows, "int64", "order"), rows, "int64") for _ in range(2))
        picked = t.result("index", [x], rows * width, x.dtype, saves=[order])
        shares = t.result("index", [weights], rows, weights.dtype, saves=[order])
        counted = t.new(rows, "int32", "experts to count")
        groups = [t.new(part.copies, "int32", "rows of each expert") for _ in ("numbers", "offsets")]
        inner = product(m, part, [maps[letter] for letter in ("W_g", "W_1") if letter in maps], picked)
        inner = activated(m, act, inner, rows * maps["W_2"].own.weights[0].shape[0])
        inner = product(m, part, [maps["W_2"]], inner)
        weighed = t.mul(inner, shares)
        back = t.copied(chosen, rows, "order")
        weighed = t.result("index", [weighed], weighed.elements, weighed.dtype, saves=[back])
        added = t.result("sum", [weighed], x.elements, weighed.dtype)
        del sorted_experts, counted, groups
        return t.to(added, x.dtype)


def product(m: Running, part: Component, maps: list[Component], x: Value) -> Value:
    """Each row with its own expert's weights, which lie in one tensor; gate and input are one map."""
    t, tensors = m.t, [each.own.weights[0] for each in maps]
    width: Num = total(tensor.shape[1] for tensor in tensors)
    rows = divide(x.elements, tensors[0].shape[0])
    size = part.copies * total(tensor.size for tensor in tensors)
    weight = m.weight(tensors[0]._replace(shape=(size,)))
    saves = [*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])]
    return t.result("grouped_mm", [x, weight], rows * width, x.dtype, saves=saves)


def activated(m: Running, act: Component, inner: Value, elements: Num) -> Value:
    """``act(gate) · up`` of the two halves, or just the activation."""
    if inner.elements == elements:
        return m(act, inner)
    gate, up = m.t.split(inner, [elements, elements])
    return m.t.mul(m(act, gate), up)
