"""Number formats of a run, and the padding of kernels' rows."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num, ceil_div


class Numerics(NamedTuple):
    """Number formats and the device's peculiarities.

    Attributes:
        weights: format of the weights.
        autocast: format that autocast casts matrix products to; None without autocast.
        statistics: format of a LayerNorm's mean and deviation; None: fp32.
        aligned_masks: rows of masks are padded for the memory-efficient kernel, as on CUDA.
        traced: the values of a mask are unknown (FakeTensorMode, torch.compile), so one of ones is not dropped.
        packed: frozen matrices are quantized, and dequantized for each product.
        adapters: format of adapters' weights, if it is not that of the weights.
        drops_adapters: adapters apply dropout to their input.
        keeps_inputs: products with quantized matrices save their input, as bitsandbytes does in 8 bits, not in 4.
        cuda: peculiarities of CUDA's kernels count, such as those of softmax.
    """

    weights: str = "float32"
    autocast: str | None = None
    statistics: str | None = None
    aligned_masks: bool = True
    traced: bool = False
    packed: bool = False
    adapters: str = ""
    drops_adapters: bool = False
    keeps_inputs: bool = False
    cuda: bool = False

    @property
    def compute(self) -> str:
        """Format of matrix products."""
        return self.autocast or self.weights


def padded(rows: Num, to: int = 32) -> Num:
    """Return the number of rows rounded up to a multiple of ``to``."""
    rounded: Num = ceil_div(rows, to) * to
    return rounded
