"""Pieces of images that become one vector each."""

from __future__ import annotations

from tfcalc.core.cost import Elementwise
from tfcalc.core.number import product
from tfcalc.ops.elementwise import mul
from tfcalc.ops.tables import position
from tfcalc.tape.call import Call, MatMul
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Tensor


def patches(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``y = w ∗ x + b`` with a kernel that covers all of each of n patches: x of n × i × …, w of o × i × …; n × o.

    ====================  =======================================================================
    parameters            ``o·i·k + o`` (without bias ``o·i·k``), k all numbers under the kernel
    forward FLOPs         ``2·n·o·i·k``
    backward FLOPs        as many for w's gradient, and for x's where it needs one: pixels do not
    kept for backward     x and w, whichever needs a gradient: one kernel makes all of them (convolution_backward)
    ====================  =======================================================================

    Source: torch.nn.Conv2d and Conv3d; torch.utils.flop_counter.conv_flop_count.
    """
    trace, n, (o, i, *kernel) = x.trace, x.shape[0], weight.shape
    x, weight = trace.lower(x), trace.lower_weight(weight)
    bias = trace.lower_weight(bias) if bias is not None else None
    call = Call(
        "conv",
        (x, weight, bias),
        (n, o),
        x.dtype,
        products=(MatMul("w ∗ x", (2, n, o, i, product(kernel)), (x, weight)),),
        elementwise=(Elementwise("+ b", n * o, forward=1, backward=1),) if bias is not None else (),
        saves=(x, weight),
        kernels=("convolution",),
    )
    return trace.call(call)


def gathered(table: Tensor, rows: Tensor, neighbours: int) -> Tensor:
    """A trained vector for each of ``rows``: the mean, by weights, of those of so many neighbours in a table.

    Keeps where they stand and the weights, which are in fp32. Source: Qwen3-VL's pos_embed.
    """
    trace, tokens = rows.trace, rows.rows
    if not trace.emits_kernels:
        return position(table, trace.new((tokens,), "int64", "places"), tokens)
    weights = trace.new((tokens, neighbours, 1), "float32", "weights of neighbours")
    found = position(table, trace.new((tokens, neighbours), "int64", "neighbours"), tokens)
    made = mul(found, weights)
    return trace.to(trace.call(Call("sum", (made,), (tokens, table.shape[-1]), made.dtype)), rows.dtype)


def bag(table: Tensor, rows: Tensor, neighbours: int) -> Tensor:
    """The same in one kernel, whose weights are in the table's format: keeps them, and where each place's begin.

    Source: torch's embedding_bag, as the CPU has it.
    """
    trace, tokens = rows.trace, rows.rows
    if not trace.emits_kernels:
        return position(table, trace.new((tokens,), "int64", "places"), tokens)
    several, one = (tokens, neighbours), (tokens,)
    found = trace.new(several, "int64", "neighbours")
    ends = [trace.new(one, "int64", name) for name in ("first neighbours", "how many", "largest")]
    saves = (found, *ends, trace.new(several, table.dtype, "weights of neighbours"))
    call = Call("_embedding_bag", (table,), (tokens, table.shape[-1]), table.dtype, saves=saves)
    return trace.to(trace.call(call), rows.dtype)


def sampled(table: Tensor, rows: Tensor) -> Tensor:
    """The same by a kernel, of all the table in fp32: keeps that and the places. Source: torch's grid_sample."""
    trace, tokens = rows.trace, rows.rows
    if not trace.emits_kernels:
        return position(table, trace.new((tokens,), "int64", "places"), tokens)
    wide, places = trace.to(table, "float32"), trace.new((tokens, 2), "float32", "places")
    call = Call("grid_sampler_2d", (wide,), (tokens, table.shape[-1]), "float32", saves=(wide, places))
    return trace.to(trace.call(call._replace(scratch=places.elements * WIDTHS["float32"])), rows.dtype)
