"""What bitsandbytes' optimizers keep: states of 8 bits in blocks with scales, or of 32; paged ones in unified memory.

Source: bitsandbytes 0.50, optim/optimizer.py: ``Optimizer2State.init_state``, ``get_state_buffer``; optim/ademamix.py.
"""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.cost import Held
from tfcalc.core.number import Num, ceil_div, product
from tfcalc.footprint.training.stored import Weight
from tfcalc.number_formats import FP32

BLOCK, FORMER_BLOCK = 256, 2048
"""Numbers that share a scale in 8-bit states; the latter before version 0.44."""
SMALLEST_IN_8_BITS = 4096
"""Numbers of a tensor below which its states are in fp32 (``min_8bit_size``)."""
SMALLEST_PAGED = 100_000
"""Numbers of a tensor below which its states are in the device's own memory (``get_state_buffer``)."""

ADAM, LION, ADEMAMIX = ("m", "v"), ("m",), ("m₁", "m₂", "v")


class Bitsandbytes(NamedTuple):
    """An optimizer that keeps these ``moments`` of each number, of so many ``bits``, whatever format the weight has.

    In 8 bits each ``block`` of numbers has a scale of fp32 beside it. Those of tables that are looked up are in fp32
    where the ``trainer`` is transformers', which overrides them (``Trainer.create_optimizer``). What is ``paged`` is in
    unified memory (``cudaMallocManaged``), which PyTorch's allocator does not count; the scales never are.
    """

    moments: tuple[str, ...] = ADAM
    bits: int = 8
    block: int = BLOCK
    paged: bool = False
    trainer: bool = False

    def on_device(self, weight: Weight, _: int) -> tuple[Held, ...]:
        """What of a tensor's states is in the device's own memory."""
        return (*(() if self._pages(weight) else self._states(weight)), *self._scales(weight))

    def in_pages(self, weight: Weight, _: int) -> tuple[Held, ...]:
        """What is in unified memory."""
        return self._states(weight) if self._pages(weight) else ()

    @property
    def maps(self) -> tuple[Held, ...]:
        """From 8 bits to numbers: that of what has a sign, and that of squares."""
        signed_and_squares = min(len(self.moments), 2)
        return (Held("maps of 8 bits to numbers", (signed_and_squares, 256), FP32.bits),) if self.bits == 8 else ()

    def _pages(self, weight: Weight) -> bool:
        return self.paged and weight.size >= SMALLEST_PAGED

    def _in_8_bits(self, weight: Weight) -> bool:
        overridden = self.trainer and weight.looked_up
        return self.bits == 8 and weight.size >= SMALLEST_IN_8_BITS and not overridden

    def _states(self, weight: Weight) -> tuple[Held, ...]:
        bits = 8 if self._in_8_bits(weight) else FP32.bits
        return tuple(Held(f"{moment} of {weight.name}", weight.shape, bits) for moment in self.moments)

    def _scales(self, weight: Weight) -> tuple[Held, ...]:
        if not self._in_8_bits(weight):
            return ()
        blocks: Num = ceil_div(product(weight.shape), self.block)
        names = (f"scales of {moment} of {weight.name}" for moment in self.moments)
        return tuple(Held(name, (blocks,), FP32.bits) for name in names)
