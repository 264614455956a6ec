"""The Fourier transform."""

from __future__ import annotations

from tfcalc.tape.call import Call
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Tensor


def fourier(x: Tensor) -> Tensor:
    """The real part of the transform over tokens and channels: keeps nothing, and is no matrix product.

    What it makes is complex, and as long as its real part, which is a view of it; its gradient is complex, too. It is
    not counted, as PyTorch's counter does not.

    Source: torch.fft.fftn.
    """
    trace = x.trace
    size = 2 * x.elements * WIDTHS["float32"]
    trace.needed(size)
    made = trace.call(Call("fft", (x,), (*x.shape, 2), "float32", scratch=size, kernels=("_to_copy", "_fft_c2c")))
    strides = None if made.strides is None else made.strides[:-1]
    return trace.view(made, x.shape, strides)
