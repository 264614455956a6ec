"""The masks that transformers gives to torch's scaled_dot_product_attention, and what becomes of them there."""

from __future__ import annotations

from tfcalc.core.number import Num, divide
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.operations import padded
from tfcalc.tape.value import Value

ALIGNED = 8
"""The memory-efficient kernel reads masks whose rows begin at multiples of so many numbers (pad_bias in torch's
aten/src/ATen/native/transformers/attention.cpp)."""


def sdpa_mask(m: Running, scores: Num, rows: Num) -> Value | None:
    """A number for each of the ``scores``, which stand in so many ``rows``; or none, and flash attention can run."""
    mask = m.shared.mask
    if mask is not None and mask.dtype != "bool":
        made = m.t.lower(mask)
    elif mask is not None:  # of booleans; their numbers are made in each layer (convert_boolean_attn_mask)
        made = Value(m.t.new(mask.elements, m.t.numerics.compute, "mask"), mask.elements, m.t.numerics.compute)
        m.t.new(mask.elements, "bool", "not mask")  # for a moment
    else:
        return None
    return m.t.broadcast(_aligned(m, made, divide(scores, rows)), scores)


def _aligned(m: Running, mask: Value, keys: Num) -> Value:
    """The mask with its rows filled up, where the kernel could not read them."""
    whole = padded(keys, ALIGNED)
    if not m.t.numerics.aligned_masks or whole == keys:
        return mask
    return m.t.copied(mask, divide(mask.elements * whole, keys), "pad")
