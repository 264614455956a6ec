"""Dynamic convolutions: the kernel is computed from each token."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor


def convolved(values: Tensor, kernels: Tensor, heads: Num, width: Num) -> Tensor:
    """Mix each token's neighbours by a kernel per head: values of b × a·d × l, kernels of b·l·a × k × 1.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·t·a·d·k`` for t tokens
    backward FLOPs        twice that
    saved for backward    kernels, and the unfolded values, k times as large as the values
    ====================  =======================================================================

    Source: Jiang et al. 2020 (ConvBERT, arXiv 2008.02496), section 3.2; torch.nn.functional.unfold and bmm.
    """
    trace, (b, _, l), k = values.trace, values.shape, kernels.shape[1]
    unfolded = trace.call(Call("im2col", (values,), (b, heads * width * k, l), values.dtype))
    unfolded = reshape(transpose(unfolded, 1, 2), b * l * heads, width, k)
    unfolded, kernels = trace.lower(unfolded), trace.lower(kernels)
    product = MatMul("kernel · V", (2, b * l, heads * width, k), (unfolded, kernels))
    saves = (*([unfolded] if kernels.needs_gradient else []), *([kernels] if unfolded.needs_gradient else []))
    shape, leaf = (b * l * heads, width, 1), Leaf("convolve", "attend")
    call = Call("matmul", (unfolded, kernels), shape, unfolded.dtype, products=(product,), saves=saves, leaf=leaf)
    return trace.call(call._replace(kernels=("bmm",)))
