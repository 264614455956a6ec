"""Embeddings of image patches, and of their positions."""

from __future__ import annotations

from tfcalc.core.component import Elementwise
from tfcalc.core.number import product
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.elementwise import mul
from tfcalc.ops.rows import position
from tfcalc.tape.tensor import Call, MatMul, Tensor


def patches(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``y = w ∗ x + b`` with a kernel as large as a patch: x of n × i × … for n patches, w of o × i × …, y of n × o.

    ====================  =======================================================================
    parameters            ``o·i·k + o`` (without bias ``o·i·k``), k all elements under the kernel
    forward FLOPs         ``2·n·o·i·k``
    backward FLOPs        as many for w's gradient, and for x's if it needs one (pixels do not)
    saved for backward    x and w, whichever needs a gradient: one kernel computes both (convolution_backward)
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
    """Interpolate a position vector for each of ``rows``: the weighted mean of ``neighbours`` rows of a table.

    Saves indices and weights, the latter in fp32. Source: Qwen3-VL's pos_embed.
    """
    trace, tokens = rows.trace, rows.rows
    if not trace.emits_kernels:
        return position(table, trace.new((tokens,), "int64", "places"), tokens)
    weights = trace.new((tokens, neighbours, 1), "float32", "weights of neighbours")
    vectors = position(table, trace.new((tokens, neighbours), "int64", "neighbours"), tokens)
    weighted = mul(vectors, weights)
    return trace.to(trace.call(Call("sum", (weighted,), (tokens, table.shape[-1]), weighted.dtype)), rows.dtype)


def bag(table: Tensor, rows: Tensor, neighbours: int) -> Tensor:
    """Interpolate position vectors in one kernel, with weights in the table's format: saves these and the offsets.

    Source: torch's embedding_bag on the CPU.
    """
    trace, tokens = rows.trace, rows.rows
    if not trace.emits_kernels:
        return position(table, trace.new((tokens,), "int64", "places"), tokens)
    indices = trace.new((tokens, neighbours), "int64", "neighbours")
    ends = [trace.new((tokens,), "int64", name) for name in ("first neighbours", "how many", "largest")]
    saves = (indices, *ends, trace.new((tokens, neighbours), table.dtype, "weights of neighbours"))
    call = Call("_embedding_bag", (table,), (tokens, table.shape[-1]), table.dtype, saves=saves)
    return trace.to(trace.call(call), rows.dtype)


def sampled(table: Tensor, rows: Tensor) -> Tensor:
    """Interpolate position vectors from the table in fp32: saves that and the places. Source: torch's grid_sample."""
    trace, tokens = rows.trace, rows.rows
    if not trace.emits_kernels:
        return position(table, trace.new((tokens,), "int64", "places"), tokens)
    wide, places = trace.to(table, "float32"), trace.new((tokens, 2), "float32", "places")
    call = Call("grid_sampler_2d", (wide,), (tokens, table.shape[-1]), "float32", saves=(wide, places))
    return trace.to(trace.call(call._replace(scratch=places.elements * WIDTHS["float32"])), rows.dtype)
