"""Mixtures of experts, as transformers runs them: all experts' weights in one tensor.

``grouped_mm`` is transformers' default on GPUs (integrations/moe.py): rows sorted by expert, one product for all of
them. ``batched_mm`` copies an expert's matrices for each row that it reads. What either keeps does not depend on how
tokens are spread over experts: every token is sent to as many.
"""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.implementations.transformers.feed_forward import gated
from tfcalc.implementations.transformers.routers import Routed, routed
from tfcalc.implementations.transformers.running import Running, by_letter, of_kind
from tfcalc.tape.value import Value


def mixture(m: Running, part: Component, x: Value) -> Value:
    """The experts' sum, and what every token goes through beside them."""
    experts = of_kind(part, "experts")
    sent = routed(m, of_kind(part, "router"), experts, x)
    with m.t.inside(experts.name):
        made = EXPERTS[m.experts](m, experts, x, sent)
    for each in (leaf for leaf in part.parts if leaf.kind == "ffn"):
        made = m.t.add(made, _beside(m, part, each, x))
    for each in (leaf for leaf in part.parts if leaf.kind == "norm"):
        made = m(each, made)
    return made


def _beside(m: Running, part: Component, shared: Component, x: Value) -> Value:
    """A shared expert, times the sigmoid of its gate where it has one (Qwen2-MoE)."""
    made = m(shared, x)
    for gate in (leaf for leaf in part.parts if leaf.kind == "linear"):
        made = m.t.mul(m.t.of_result("sigmoid", m(gate, x)), made, made.elements)
    return made


def grouped_mm(m: Running, part: Component, x: Value, sent: Routed) -> Value:
    """Rows in the order of their experts, and back again: each of these orders is kept."""
    t, maps, pairs = m.t, by_letter(part), sent.chosen.elements
    sorted_, order = _places(m, pairs, "sorted experts"), _places(m, pairs, "order")
    rows = _rows_at(m, x, _places(m, pairs, "sorted tokens"), pairs * maps["W_1"].own.weights[0].shape[0])
    weights = _rows_at(m, sent.weights, order, pairs)
    groups = part.times.stored
    to_count, in_each = t.new(pairs, "int32", "experts to count"), t.new(groups, "int32", "tokens per expert")
    ends = Value(t.new(groups, "int32", "group offsets"), groups, "int32")

    def product(leaf: Component, rows: Value) -> Value:
        weight, *bias = _weights(m, part, leaf)
        rows = t.to(rows, weight.dtype)
        width = leaf.own.weights[0].shape[1]
        made = t.result("grouped_mm", [rows, weight], pairs * width, rows.dtype, saves=[rows, weight, ends])
        return _with_bias(m, made, bias, sorted_)

    unweighed = _two_maps(m, part, rows, product)  # held, as all that has a name there, to the end
    made = t.mul(unweighed, weights)
    del to_count, in_each
    made = _rows_at(m, made, _places(m, pairs, "inverse permutation"), made.elements)
    return _summed(m, made, x)


def batched_mm(m: Running, part: Component, x: Value, sent: Routed) -> Value:
    """Each row times a copy of its expert's matrix: these copies are kept."""
    t, maps, pairs = m.t, by_letter(part), sent.chosen.elements
    rows = t.copied(x, pairs * maps["W_1"].own.weights[0].shape[0], "repeat_interleave")

    def product(leaf: Component, rows: Value) -> Value:
        weight, *bias = _weights(m, part, leaf)
        copies = _rows_at(m, weight, sent.chosen, pairs * leaf.own.weights[0].size)
        made = t.matmul(copies, rows, pairs * leaf.own.weights[0].shape[1])
        return _with_bias(m, made, bias, sent.chosen)

    return _summed(m, t.mul(_two_maps(m, part, rows, product), sent.weights), x)


def _two_maps(m: Running, part: Component, rows: Value, product: Callable[[Component, Value], Value]) -> Value:
    """``W_2 (act(gate) · up)``: gate and up are halves of what the first map makes."""
    maps, act = by_letter(part), of_kind(part, "activation")
    inner = product(maps["W_1"], rows)
    if maps["W_1"].own.weights[0].shape[1] == maps["W_2"].own.weights[0].shape[0]:  # no gate
        return product(maps["W_2"], m(act, inner))
    gate, up = m.t.split(inner, [divide(inner.elements, 2)] * 2)
    inner = _clamped(m, gate, up) if m.habits.clamps_gates else gated(m, act, gate, up)
    del gate, up
    return product(maps["W_2"], inner)


def _clamped(m: Running, gate: Value, up: Value) -> Value:
    """``(up + 1) · gate · sigmoid(α · gate)``, both cut off first (GPT-OSS)."""
    t = m.t
    gate, up = t.of_input("clamp", gate), t.of_input("clamp", up)
    glu = t.mul(gate, t.of_result("sigmoid", t.scaled(gate)))
    return t.mul(t.scaled(up), glu)


def _weights(m: Running, part: Component, leaf: Component) -> list[Value]:
    """Those of all experts."""
    with m.t.inside(leaf.name):
        return [m.weight(tensor, part.times.stored) for tensor in leaf.own.weights]


def _with_bias(m: Running, made: Value, bias: list[Value], experts: Value) -> Value:
    """Each row's own is looked up, and added in place."""
    for each in bias:
        rows = _rows_at(m, each, experts, made.elements)
        made = m.t.result("add_", [made, rows], made.elements, made.dtype, passes=True, shares=made.storage)
    return made


def _rows_at(m: Running, x: Value, places: Value, elements: Num) -> Value:
    """``x[places]``: keeps the places."""
    return m.t.result("index", [x], elements, x.dtype, saves=[places])


def _places(m: Running, number: Num, label: str) -> Value:
    return Value(m.t.new(number, "int64", label), number, "int64")


def _summed(m: Running, made: Value, x: Value) -> Value:
    """Over each token's experts, in the format of what they read."""
    kind = "float32" if m.t.numerics.autocast else made.dtype
    return m.t.to(m.t.result("sum", [made], x.elements, kind), x.dtype)


EXPERTS = {"batched_mm": batched_mm, "grouped_mm": grouped_mm}
"""By transformers' ``experts_implementation``."""
