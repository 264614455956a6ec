"""Layers compiled by torch.compile.

Its partitioner saves of the forward pass what backward cannot recompute from less by elementwise operations: the inputs
of matrix products, what the attention kernel saves, and 1/rms of each row. Gates, rotations, norms and copies in fp32
are recomputed where they are read.

Source: torch/_functorch/partitioners.py (min_cut_rematerialization_partition), run on layers in
tests/verify/test_compiled_layers.py.
"""

from __future__ import annotations

from tfcalc.backends.fused import Fused
from tfcalc.backends.transformers import Transformers
from tfcalc.nn.attention import Attention
from tfcalc.nn.module import Context
from tfcalc.tape.tensor import Call, Tensor, preserved


class Compiled(Fused):
    """Compiled layers of another backend (``of``); see :class:`tfcalc.nn.module.Backend`."""

    def __init__(self, of: Transformers) -> None:
        self.of = of

    @property
    def layers(self) -> Compiled:
        """The backend itself."""
        return self

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """Rotate by one kernel each, which saves nothing: the angles are saved anyway."""
        return _rotated(q), _rotated(k)

    def rotate_alone(self, q: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """Rotate queries alone."""
        return _rotated(q)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Attention, ctx: Context) -> Tensor:
        """Run the attention kernel of the other backend."""
        return self.of.attend(q, k, v, block, ctx._replace(code=self.of))


def _rotated(x: Tensor) -> Tensor:
    return x.trace.call(Call("rotary", (x,), x.shape, x.dtype, strides=preserved(x)))
