"""Experts as transformers runs them: all experts' weights in one tensor.

``grouped_mm`` is transformers' default on GPUs (integrations/moe.py): rows sorted by expert, one product for all of
them. ``batched_mm`` copies an expert's matrices for each row that it reads. What either keeps does not depend on how
tokens are spread over experts: every token is sent to as many.
"""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.number import Num, floor_div, same
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.mixture import CappedExperts, Experts, Networks, PlainExperts, Routing
from tfcalc.ops.elementwise import activation, dropout, mul, pointwise, scaled
from tfcalc.ops.experts import add_in_place, added_to_rows, each_by_its_own, grouped_mm, summed
from tfcalc.ops.products import matmul
from tfcalc.ops.select import index
from tfcalc.ops.shapes import copied, reshape, split, transpose
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.latent import IdleExperts

Products = Callable[[Linear, Tensor], Tensor]
"""One of an expert's maps, of all rows."""


def grouped(experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Rows in the order of their experts, and back again: each of these orders is kept."""
    trace, pairs = x.trace, _pairs(sent)
    sorted_, order = _places(x, pairs, "sorted experts"), _places(x, pairs, "order")
    rows = index(x, _places(x, pairs, "sorted tokens"), (pairs, x.width))
    weights = index(sent.weights, order, (pairs, 1))
    to_count, in_each = _places(x, pairs, "to count", "int32"), _places(x, experts.count, "in each", "int32")
    ends = _places(x, experts.count, "group offsets", "int32")

    def product(map_: Linear, rows: Tensor) -> Tensor:
        weight, *bias = _weights(experts, map_, rows)
        made = grouped_mm(trace.to(rows, weight.dtype), weight, ends)
        for each in bias:
            made = add_in_place(made, index(each, sorted_, made.shape))
        return made

    unweighed = _one(experts, rows, product, ctx)  # held, as all that has a name there, to the end
    made = mul(unweighed, weights)
    del to_count, in_each
    made = index(made, _places(x, pairs, "inverse permutation"), made.shape)
    return trace.to(summed(made, x.rows), x.dtype)


def batched(experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Each row times a copy of its expert's matrix: these copies are kept."""
    trace, pairs, chosen = x.trace, _pairs(sent), sent.chosen
    assert chosen is not None
    rows = copied(x, (pairs, x.width), "repeat_interleave")
    selected: dict[str, Tensor] = {}  # variables, which have the first copies until there are the second

    def product(map_: Linear, rows: Tensor) -> Tensor:
        weight, *bias = _weights(experts, map_, rows)
        selected["weights"] = index(weight, chosen, (pairs, map_.fan_in, map_.fan_out))
        for each in bias:
            selected["biases"] = index(each, chosen, (pairs, map_.fan_out))
        made = reshape(matmul(reshape(rows, pairs, 1, map_.fan_in), selected["weights"]), pairs, map_.fan_out)
        return add_in_place(made, selected["biases"]) if bias else made

    unweighed = _one(experts, rows, product, ctx)
    made = mul(unweighed, reshape(sent.weights, pairs, 1))
    return trace.to(summed(made, x.rows), x.dtype)


def every(experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Llama 4: each expert reads a copy of all tokens, times their weights."""
    trace, count = x.trace, experts.count
    rows = copied(x, (count * x.rows, x.width), "repeat")
    rows = mul(rows, reshape(copied(transpose(sent.weights, 0, 1), (count, x.rows), "transposed"), count * x.rows, 1))
    rows = reshape(rows, count, x.rows, x.width)

    def product(map_: Linear, rows: Tensor) -> Tensor:
        (weight,) = _weights(experts, map_, rows)
        return matmul(rows, trace.lower_weight(weight))

    made = _one(experts, rows, product, ctx)
    return trace.call(Call("sum", (made,), x.shape, made.dtype))


def networks(experts: Networks, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """A loop in Python over experts, each of which reads its tokens' rows; all together they read so many pairs.

    The places of tokens are two numbers for each pair, in one tensor (torch.where).
    """
    trace, pairs = x.trace, _pairs(sent)
    places = _places(x, 2 * pairs, "places of tokens")
    rows = index(x, places, (pairs, x.width))

    def product(map_: Linear, rows: Tensor) -> Tensor:
        weight, *bias = (trace.lower_weight(each) for each in _weights(experts, map_, rows))
        return each_by_its_own(trace.lower(rows), weight, bias[0] if bias else None)

    up = product(experts.up, rows)
    inner = activation(experts.activation, up, lambda: ctx.backend.activation(experts.activation, up))

    if experts.dropout and ctx.drops:
        inner = dropout(inner, "activation_dropout")
    inner = trace.to(inner, trace.weights_format) if experts.as_weights else inner
    made = mul(product(experts.down, inner), index(sent.weights, places, (pairs, 1)))
    return added_to_rows(trace.to(made, x.dtype), places, x.rows)


def some_idle(experts: IdleExperts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """The same with experts that hand on what they read, to which tokens are sent as often as to others."""
    trace, pairs = x.trace, _pairs(sent)
    busy = floor_div(pairs * experts.down.count, experts.up.count)
    places = _places(x, 2 * busy, "places of tokens")
    rows = index(x, places, (busy, x.width))

    def product(map_: Linear, rows: Tensor) -> Tensor:
        with trace.inside(map_):
            (weight,) = (trace.weight(each, map_.copies) for each in map_.own_params().weights)
        return each_by_its_own(trace.lower(rows), trace.lower_weight(weight), None)

    made = mul(_one(experts, rows, product, ctx), index(sent.weights, places, (busy, 1)))
    made = added_to_rows(trace.to(made, x.dtype), places, x.rows)
    if same((experts.up.count,), (experts.down.count,)):
        return made
    places = _places(x, 2 * (pairs - busy), "places of tokens")
    rows = index(x, places, (pairs - busy, x.width))
    idle = mul(rows, index(sent.weights, places, (pairs - busy, 1)))
    return added_to_rows(trace.to(idle, x.dtype), places, x.rows, made)


def _one(experts: Experts, rows: Tensor, product: Products, ctx: Context) -> Tensor:
    """``W_2 (act(gate) · up)``: gate and up are halves of what the first map makes, unless they have a map each."""
    if isinstance(experts, PlainExperts):
        return product(experts.down, experts.activated(product(experts.up, rows), ctx))
    if experts.gate is not None:
        inner = mul(experts.activated(product(experts.gate, rows), ctx), product(experts.up, rows))
        return product(experts.down, inner)
    both = product(experts.up, rows)
    gate, up = split(both, [experts.down.fan_in] * 2)
    if isinstance(experts, CappedExperts):
        inner = _capped(gate, up)
    else:
        inner = _clipped(gate, up) if experts.clipped else experts.halves_gated(gate, up, ctx)
    del both, gate, up
    return product(experts.down, inner)


def _clipped(gate: Tensor, up: Tensor) -> Tensor:
    """``(up + 1) · gate · sigmoid(α · gate)``, both cut off first (gpt-oss)."""
    gate, up = pointwise("clamp", gate), pointwise("clamp", up)
    glu = mul(gate, pointwise("sigmoid", scaled(gate)))
    return mul(scaled(up), glu)


def _capped(gate: Tensor, up: Tensor) -> Tensor:
    """``cap(gate) · sigmoid(gate) · cap(up)`` in fp32, where cap is a tanh (Inkling 2)."""
    trace, given = gate.trace, gate.dtype
    gate, up = trace.to(gate, "float32"), trace.to(up, "float32")
    made = mul(scaled(pointwise("tanh", scaled(gate, "div"))), pointwise("sigmoid", gate))
    return trace.to(mul(made, scaled(pointwise("tanh", scaled(up, "div")))), given)


def _weights(experts: Experts | Networks, map_: Linear, rows: Tensor) -> list[Tensor]:
    """Those of all experts."""
    with rows.trace.inside(map_):
        return [rows.trace.weight(each, experts.count) for each in map_.own_params().weights]


def _pairs(sent: Routing) -> Num:
    """How many pairs of a token and an expert there are."""
    assert sent.chosen is not None
    return sent.chosen.elements


def _places(x: Tensor, number: Num, label: str, dtype: str = "int64") -> Tensor:
    return x.trace.new((number,), dtype, label)


EXPERTS = {"batched_mm": batched, "grouped_mm": grouped}
"""By transformers' ``experts_implementation``."""
