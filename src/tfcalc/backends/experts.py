"""Experts in transformers' code: all experts' weights are one tensor.

``grouped_mm`` is transformers' default on GPUs (integrations/moe.py): rows sorted by expert, one kernel for all
products. ``batched_mm`` copies an expert's matrices for each of its rows. What either saves does not depend on the load
of each expert, as every token is routed to the same number of them.
"""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.number import Num, floor_div, same
from tfcalc.nn.basic import Linear
from tfcalc.nn.mixture import CappedExperts, Experts, Networks, PlainExperts
from tfcalc.nn.module import Context, Routing
from tfcalc.ops.elementwise import activation, dropout, mul, pointwise, scaled
from tfcalc.ops.experts import add_in_place, added_to_rows, each_by_its_own, grouped_mm, summed
from tfcalc.ops.products import matmul
from tfcalc.ops.select import index
from tfcalc.ops.shapes import copied, reshape, split, transpose
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.latent import IdleExperts

Products = Callable[[Linear, Tensor], Tensor]
"""Function that applies one linear map of the experts to all rows."""


def grouped(experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Run experts on rows sorted by expert, and restore the order; both permutations are saved."""
    trace, pairs = x.trace, _pairs(sent)
    sorted_, order = _places(x, pairs, "sorted experts"), _places(x, pairs, "order")
    rows = index(x, _places(x, pairs, "sorted tokens"), (pairs, x.width))
    weights = index(sent.weights, order, (pairs, 1))
    to_count, in_each = _places(x, pairs, "to count", "int32"), _places(x, experts.count, "in each", "int32")
    ends = _places(x, experts.count, "group offsets", "int32")

    def product(map_: Linear, rows: Tensor) -> Tensor:
        weight, *bias = _weights(experts, map_, rows)
        result = grouped_mm(trace.to(rows, weight.dtype), weight, ends)
        for vector in bias:
            result = add_in_place(result, index(vector, sorted_, result.shape))
        return result

    unweighed = _mapped(experts, rows, product, ctx)  # a variable of its own, as there: live until the function ends
    made = mul(unweighed, weights)
    del to_count, in_each  # live until here, as temporary variables of the function that sorts
    made = index(made, _places(x, pairs, "inverse permutation"), made.shape)
    return trace.to(summed(made, x.rows), x.dtype)


def batched(experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Multiply each row with a copy of its expert's matrix; these copies are saved."""
    trace, pairs, chosen = x.trace, _pairs(sent), sent.chosen
    assert chosen is not None
    rows = copied(x, (pairs, x.width), "repeat_interleave")
    selected: dict[str, Tensor] = {}  # local variables there, which have the first map's copies until the second's

    def product(map_: Linear, rows: Tensor) -> Tensor:
        weight, *bias = _weights(experts, map_, rows)
        selected["weights"] = index(weight, chosen, (pairs, map_.fan_in, map_.fan_out))
        for vector in bias:
            selected["biases"] = index(vector, chosen, (pairs, map_.fan_out))
        result = reshape(matmul(reshape(rows, pairs, 1, map_.fan_in), selected["weights"]), pairs, map_.fan_out)
        return add_in_place(result, selected["biases"]) if bias else result

    unweighed = _mapped(experts, rows, product, ctx)
    made = mul(unweighed, reshape(sent.weights, pairs, 1))
    return trace.to(summed(made, x.rows), x.dtype)


def every(experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Run Llama 4's experts: each reads a copy of all tokens, times their weights."""
    trace, count = x.trace, experts.count
    rows = copied(x, (count * x.rows, x.width), "repeat")
    rows = mul(rows, reshape(copied(transpose(sent.weights, 0, 1), (count, x.rows), "transposed"), count * x.rows, 1))
    rows = reshape(rows, count, x.rows, x.width)

    def product(map_: Linear, rows: Tensor) -> Tensor:
        (weight,) = _weights(experts, map_, rows)
        return matmul(rows, trace.lower_weight(weight))

    made = _mapped(experts, rows, product, ctx)
    return trace.call(Call("sum", (made,), x.shape, made.dtype))


def networks(experts: Networks, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Run experts that are modules of their own in a Python loop, as if all rows were one expert's.

    The indices of tokens are two numbers per pair of token and expert, in one tensor (torch.where).
    """
    trace, pairs = x.trace, _pairs(sent)
    places = _places(x, 2 * pairs, "places of tokens")
    rows = index(x, places, (pairs, x.width))

    def product(map_: Linear, rows: Tensor) -> Tensor:
        weight, *bias = map(trace.lower_weight, _weights(experts, map_, rows))
        return each_by_its_own(trace.lower(rows), weight, bias[0] if bias else None)

    up = product(experts.up, rows)
    inner = activation(experts.activation, up, lambda: ctx.backend.activation(experts.activation, up))

    if experts.dropout and ctx.drops:
        inner = dropout(inner, "activation_dropout")
    inner = trace.to(inner, trace.weights_format) if experts.as_weights else inner
    made = mul(product(experts.down, inner), index(sent.weights, places, (pairs, 1)))
    return added_to_rows(trace.to(made, x.dtype), places, x.rows)


def some_idle(experts: IdleExperts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
    """Run experts of which some return their input (zero-computation experts), with an equal share of tokens."""
    trace, pairs = x.trace, _pairs(sent)
    busy = floor_div(pairs * experts.count, experts.count + experts.idle)
    places = _places(x, 2 * busy, "places of tokens")
    rows = index(x, places, (busy, x.width))

    def product(map_: Linear, rows: Tensor) -> Tensor:
        with trace.inside(map_):
            (weight,) = (trace.weight(matrix, map_.copies) for matrix in map_.own_params().weights)
        return each_by_its_own(trace.lower(rows), trace.lower_weight(weight), None)

    made = mul(_mapped(experts, rows, product, ctx), index(sent.weights, places, (busy, 1)))
    made = added_to_rows(trace.to(made, x.dtype), places, x.rows)
    if same((experts.idle,), (0,)):
        return made
    places = _places(x, 2 * (pairs - busy), "places of tokens")
    rows = index(x, places, (pairs - busy, x.width))
    idle = mul(rows, index(sent.weights, places, (pairs - busy, 1)))
    return added_to_rows(trace.to(idle, x.dtype), places, x.rows, made)


def _mapped(experts: Experts, rows: Tensor, product: Products, ctx: Context) -> Tensor:
    """``W_2 (act(gate) · up)``: gate and up are halves of the first map's result, unless each has its own map."""
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
    del both, gate, up  # not live during the last product: transformers computes ``inner`` in a function of its own
    return product(experts.down, inner)


def _clipped(gate: Tensor, up: Tensor) -> Tensor:
    """``(up + 1) · gate · sigmoid(α · gate)``, both clamped first (gpt-oss)."""
    gate, up = pointwise("clamp", gate), pointwise("clamp", up)
    glu = mul(gate, pointwise("sigmoid", scaled(gate)))
    return mul(scaled(up), glu)


def _capped(gate: Tensor, up: Tensor) -> Tensor:
    """``cap(gate) · sigmoid(gate) · cap(up)`` in fp32, with ``cap`` a scaled tanh (Inkling 2)."""
    trace, given = gate.trace, gate.dtype
    gate, up = trace.to(gate, "float32"), trace.to(up, "float32")
    made = mul(scaled(pointwise("tanh", scaled(gate, "div"))), pointwise("sigmoid", gate))
    return trace.to(mul(made, scaled(pointwise("tanh", scaled(up, "div")))), given)


def _weights(experts: Experts | Networks, map_: Linear, rows: Tensor) -> list[Tensor]:
    """Return matrix and bias of a map, of all experts."""
    with rows.trace.inside(map_):
        return [rows.trace.weight(tensor, experts.count) for tensor in map_.own_params().weights]


def _pairs(sent: Routing) -> Num:
    """Return the number of pairs of a token and an expert."""
    assert sent.chosen is not None
    return sent.chosen.elements


def _places(x: Tensor, number: Num, label: str, dtype: str = "int64") -> Tensor:
    return x.trace.new((number,), dtype, label)


EXPERTS = {"batched_mm": batched, "grouped_mm": grouped}
"""Functions by transformers' ``experts_implementation``."""
