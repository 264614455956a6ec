"""A Fourier transform in the place of attention (FNet)."""

from __future__ import annotations

from tfcalc.nn.basic import Buffer
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.fourier import fourier
from tfcalc.tape.tensor import Tensor


class Fourier(Module):
    """Tokens mixed by their frequencies. The ``matrices`` of the transform may be stored.

    Source: Lee-Thorp et al. 2021 (arXiv 2105.03824), section 3.2.
    """

    kind = "mixer"

    matrices: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × h."""
        return fourier(x)
