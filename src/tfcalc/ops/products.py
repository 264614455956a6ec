"""Matrix products."""

from __future__ import annotations

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num, divide, product
from tfcalc.core.traced import known
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.shapes import contiguous, reshape, transpose
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor, Trace, viewed


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, letter: str = "", packed: bool = False, used: Num = 1
) -> Tensor:
    """``y = x W + b`` with W of i × o, for each of t rows of x.

    ====================  =======================================================================
    parameters            ``i·o + o`` (without bias ``i·o``)
    forward FLOPs         ``2·t·i·o``: t·o outputs, each i multiplications and i additions
    backward FLOPs        ``2·t·i·o`` for each of x and W that needs a gradient
    elementwise FLOPs     ``t·o`` for adding the bias, and as many to sum its gradient
    saved for backward    x for W's gradient, W for x's
    ====================  =======================================================================

    ``letter`` is the index of W and b in print. A ``packed`` W (quantized, frozen) is dequantized for each product in
    forward and backward (but for a single row in inference, and in forward by LLM.int8, see :func:`of_integers`), and
    the dequantized copy is not saved; nor is x, unless
    the library saves it all the same: in bitsandbytes' autograd/_functions.py ``MatMul8bitLt`` saves
    x as it is given, and ``MatMul4Bit`` did in the format of the product before 0.43.2 (``keeps_casts``), both as an
    attribute of the node, ``ctx.tensors``; since 0.50 its forward may dequantize nothing, for up to 1,536 rows. A
    matrix that was quantized from fp16 is dequantized to it, and converted (``packs_head``). If the result is not
    ``used`` (0, not 1), there is no backward.

    Source: torch.nn.Linear; torch.utils.flop_counter counts ``mm`` as 2·M·K·N.
    """
    trace, (i, o) = x.trace, weight.shape
    unpacked = packed and trace.packed and (not weight.needs_gradient if trace.gradients else _unpacks(x))
    copy = trace.new(weight.shape, trace.compute, "unpacked weight") if unpacked and not trace.in_int8 else None
    halves = copy is not None and trace.packs_head and copy.dtype != "float16"
    given, x = x, in_rows(trace.lower(x))
    integers = of_integers(x, o) if unpacked and trace.in_int8 else ()  # live until the result is there
    weight = weight if unpacked else trace.lower_weight(weight)
    kept = ([given] if trace.in_int8 else []) + ([x] if trace.keeps_casts else [])
    saved_input = kept if unpacked and x.needs_gradient else []
    for each in saved_input:
        trace.attribute(each)
    size = product(weight.shape) * WIDTHS[trace.compute]
    scratch = size * (2 if halves else 1) if unpacked else 0
    if halves:
        trace.needed(product(weight.shape) * WIDTHS["float16"])
    bias = trace.lower_weight(bias) if bias is not None else None
    saves = (*([x] if weight.needs_gradient else saved_input), *([weight] if x.needs_gradient else []))
    made = trace.call(
        Call(
            "linear",
            (x, weight, bias),
            (*x.shape[:-1], o),
            x.dtype,
            products=(MatMul(f"X W_{letter}", (2, x.rows, i, o), (x, weight), used=used, matrices=(1, x.rows, i, o)),),
            elementwise=(Elementwise(f"+ b_{letter}", x.rows * o, forward=1, backward=1),) if bias is not None else (),
            saves=saves,
            scratch=scratch,
            kernels=("mm",) if bias is None else ("addmm",),
        )
    )
    del integers
    return made


def of_integers(x: Tensor, wide: Num) -> tuple[Tensor, ...]:
    """Allocate what LLM.int8's product of ``wide`` columns has beside x and its result; a matrix is not dequantized.

    ====================  =======================================================
    x in integers         1 byte for each of t·i, and 4 of each row
    the sums              4 bytes for each of t·o
    in fp16               2 bytes for each of t·o, which are then converted, or
                          added to those of outliers
    ====================  =======================================================

    Columns with outliers, whose number is up to the data, are not counted.

    Source: bitsandbytes 0.45's MatMul8bitLt.forward (autograd/_functions.py), ``int8_vectorwise_quant``,
    ``int8_linear_matmul`` and ``int8_mm_dequant`` (functional.py).
    """
    new, rows = x.trace.new, x.rows
    return (
        new(x.shape, "int8", "x in integers"),
        new((rows,), "float32", "scales of x"),
        new((rows, wide), "int32", "sums of integers"),
        new((rows, wide), "float16", "result in fp16"),
    )


def _unpacks(x: Tensor) -> bool:
    """Return whether a product in inference has buffers: bitsandbytes has a kernel for a single row and 4 bits."""
    return x.trace.in_int8 or known(x.rows) is None or x.rows != 1


def plus_bias(x: Tensor, bias: Tensor, *, letter: str = "") -> Tensor:
    """``x + b`` as an operation of its own: 1 addition per element, and 1 for b's gradient."""
    work = (Elementwise(f"+ b_{letter}", x.elements, forward=1, backward=1),)
    return x.trace.call(Call("add", (x, bias), x.shape, x.dtype, elementwise=work, passes=True))


def block_diagonal(x: Tensor, weight: Tensor, bias: Tensor, *, letter: str = "") -> Tensor:
    """``y = x W + b`` of one block, of which a module counts n copies: x of n × t × i, W of n × i × o.

    Source: torch.baddbmm.
    """
    trace, (n, t, i), o = x.trace, x.shape, weight.shape[-1]
    x, weight, bias = trace.lower(x), trace.lower_weight(weight), trace.lower_weight(bias)
    return trace.call(
        Call(
            "baddbmm",
            (x, weight, bias),
            (n, t, o),
            x.dtype,
            products=(MatMul(f"X W_{letter}", (2, t, i, o), (x, weight), matrices=(1, t, i, o)),),
            elementwise=(Elementwise(f"+ b_{letter}", t * o, forward=1, backward=1),),
            saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
        )
    )


def grouped_linear(x: Tensor, weight: Tensor) -> Tensor:
    """``y_g = x_g W_g``: each of g parts of a token (t × g × i) times a matrix of its own, as one batched product.

    ====================  =======================================================================
    parameters            ``o·i`` with o the width of all parts together
    forward FLOPs         ``2·t·o·i``
    backward FLOPs        twice that
    ====================  =======================================================================

    Source: transformers' DeepseekV4GroupedLinear (torch.bmm).
    """
    trace, (t, groups, i), o = x.trace, x.shape, weight.shape[0]
    matrices = trace.lower(transpose(reshape(weight, groups, divide(o, groups), i), 1, 2))
    x = trace.lower(transpose(x, 0, 1))
    saves = (*([x] if weight.needs_gradient else []), *([matrices] if x.needs_gradient else []))
    wide = divide(o, groups)
    products = (MatMul("x_g W_g", (2, t, o, i), (x, matrices), matrices=(groups, t, i, wide)),)
    shape = (groups, t, wide)
    mapped = trace.call(Call("bmm", (x, matrices), shape, x.dtype, products=products, saves=saves))
    return transpose(mapped, 0, 1)


def in_rows(x: Tensor) -> Tensor:
    """Return ``x``, or a contiguous copy if its rows have no common stride, as after a transposition."""
    return contiguous(x) if x.strides is not None and viewed(x.shape, x.strides, (x.rows, x.width)) is None else x


def matmul(a: Tensor, b: Tensor, name: str = "A B") -> Tensor:
    """``A B`` for each head of each sequence: ``2·n·m·k·o`` FLOPs for n pairs of an m × k and a k × o matrix.

    Saves each for the other's gradient; an operand whose axes cannot be merged into one batch is copied first.

    Source: torch.matmul, which merges all axes but the last two.
    """
    trace, (m, k), o = a.trace, a.shape[-2:], b.shape[-1]
    batch = a.shape[:-2]
    a, b = batched(trace.lower(a)), batched(trace.lower(b))
    saves = (*([a] if b.needs_gradient else []), *([b] if a.needs_gradient else []))
    products = (MatMul(name, (2, product(batch), m, k, o), (a, b), matrices=(product(batch), m, k, o)),)
    result = trace.call(
        Call("matmul", (a, b), (a.shape[0], m, o), a.dtype, products=products, saves=saves, kernels=("bmm",))
    )
    return reshape(result, *batch, m, o)


def similarity(a: Tensor, b: Tensor, name: str) -> Tensor:
    """``A Bᵀ``: the dot product of each of n vectors with each of m others, ``2·n·m·h`` FLOPs; saves both.

    Source: Radford et al. 2021 (CLIP, arXiv 2103.00020), figure 3; transformers' CLIPModel (``logits_per_text``).
    """
    trace, n, m, h = a.trace, a.shape[0], b.shape[0], a.width
    a, b = trace.lower(a), trace.lower(b)
    product = MatMul("A Bᵀ", (2, n, m, h), (a, b), matrices=(1, n, h, m))
    leaf = Leaf(name, "similarity")
    return trace.call(Call("mm", (a, b), (n, m), a.dtype, products=(product,), leaf=leaf, saves=(a, b)))


def pairs_there(trace: Trace, batch: Num, length: Num, name: str) -> Tensor:
    """``m mᵀ``: a mask of the pairs of two tokens that are no padding, from a mask of tokens; b × 1 × l × l.

    ``2·b·l²`` FLOPs, and none in backward: a mask has no gradient.

    Source: transformers' _prepare_aspect_ratio_attention_mask (Mllama).
    """
    tokens = trace.new((batch, length, 1), trace.weights_format, "tokens that are there")
    product = MatMul("m mᵀ", (2, batch, length, length), (tokens, tokens), matrices=(batch, length, 1, length))
    pairs = trace.call(
        Call("bmm", (tokens,), (batch, length, length), tokens.dtype, products=(product,), leaf=Leaf(name, "mask"))
    )
    return reshape(pairs, batch, 1, length, length)


def batched(x: Tensor) -> Tensor:
    """Merge all axes but the last two."""
    n: Num = product(x.shape[:-2])
    return reshape(x, n, *x.shape[-2:])


def row_products(x: Tensor, weight: Tensor, name: str, leaf: str) -> Tensor:
    """``x · w`` for each row: ``2·t·h`` FLOPs for t rows of width h; saves both.

    Source: torch.einsum("bsj,j->bs"), which is one matrix product.
    """
    trace = x.trace
    x, weight = trace.lower(x), trace.lower_weight(weight)
    return trace.call(
        Call(
            "matmul",
            (x, weight),
            x.shape[:-1],
            x.dtype,
            products=(MatMul(name, (2, x.rows, x.width), (x, weight)),),
            saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
            leaf=Leaf(leaf, "linear"),
            kernels=("bmm",),
        )
    )
