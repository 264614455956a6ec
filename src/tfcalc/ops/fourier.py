"""The Fourier transform."""

from __future__ import annotations

from tfcalc.number_formats import WIDTHS
from tfcalc.tape.tensor import Call, Tensor


def fourier(x: Tensor) -> Tensor:
    """Take the real part of the Fourier transform over tokens and channels: saves nothing, and is no matrix product.

    The complex result stays live with its real part, which is a view of it; its gradient is complex, too. Its FLOPs
    are not counted, as FlopCounterMode does not count them.

    Source: torch.fft.fftn.
    """
    trace = x.trace
    size = 2 * x.elements * WIDTHS["float32"]
    trace.needed(size)
    transform = trace.call(Call("fft", (x,), (*x.shape, 2), "float32", scratch=size, kernels=("_to_copy", "_fft_c2c")))
    strides = None if transform.strides is None else transform.strides[:-1]
    return trace.view(transform, x.shape, strides)
