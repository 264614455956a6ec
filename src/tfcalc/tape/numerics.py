"""The number formats of a program, and how its kernels fill up rows."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num, ceil_div


class Numerics(NamedTuple):
    """In which format weights are, and which format CUDA's autocast gives to matrix products (none without it).

    ``statistics``: that of a LayerNorm's mean and deviation; by default fp32. ``aligned_masks``: whether rows of masks
    are filled up for the memory-efficient kernel, as CUDA's are. ``traced``: whether no one can read what numbers a
    mask has (FakeTensorMode, torch.compile), so that one of ones stays. ``packed``: whether the matrices that are not
    trained are quantized, and unpacked for each product; ``keeps_inputs``: whether such products keep what they read,
    as bitsandbytes' do in 8 bits, and not in 4. ``cuda``: whether what is peculiar to CUDA's own kernels counts, as
    that of softmax does. ``adapters``: the format of trained maps beside others, where that is not the weights';
    ``drops_adapters``: whether there is dropout before these.
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
        """What matrix products run in."""
        return self.autocast or self.weights


def padded(rows: Num, to: int = 32) -> Num:
    """Rows rounded up to whole blocks."""
    filled: Num = ceil_div(rows, to) * to
    return filled
