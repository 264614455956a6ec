"""Convolutions whose kernels are made anew for each token."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.call import Call, Leaf, MatMul
from tfcalc.tape.tensor import Tensor


def convolved(values: Tensor, kernels: Tensor, heads: Num, width: Num) -> Tensor:
    """Each token's neighbours, mixed by a kernel for each head: values of b × a·d × l, kernels of b·l·a × k × 1.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·t·a·d·k`` for t tokens
    backward FLOPs        twice that
    kept for backward     kernels, and a copy of all that they see: k times as large as the values
    ====================  =======================================================================

    Source: Jiang et al. 2020 (ConvBERT, arXiv 2008.02496), section 3.2; torch.nn.functional.unfold and bmm.
    """
    trace, (b, _, l), k = values.trace, values.shape, kernels.shape[1]
    seen = trace.call(Call("im2col", (values,), (b, heads * width * k, l), values.dtype))
    seen = reshape(transpose(seen, 1, 2), b * l * heads, width, k)
    seen, kernels = trace.lower(seen), trace.lower(kernels)
    product = MatMul("kernel · V", (2, b * l, heads * width, k), (seen, kernels))
    saves = (*([seen] if kernels.needs_gradient else []), *([kernels] if seen.needs_gradient else []))
    shape, leaf = (b * l * heads, width, 1), Leaf("convolve", "attend")
    call = Call("matmul", (seen, kernels), shape, seen.dtype, products=(product,), saves=saves, leaf=leaf)
    return trace.call(call._replace(kernels=("bmm",)))
