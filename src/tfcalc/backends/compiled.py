"""A layer that torch.compile has made kernels of.

Its partitioner keeps, of all that forward makes, what backward cannot make again from less by a chain of operations on
each number: the inputs of matrix products, what the attention kernel keeps, and 1/rms of each row. Gates, rotations,
norms and copies in fp32 are made again where they are read.

Source: torch/_functorch/partitioners.py (min_cut_rematerialization_partition), run on layers in
tests/verify/test_compiled_layers.py.
"""

from __future__ import annotations

from tfcalc.backends.fused import Fused
from tfcalc.backends.transformers import Transformers
from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor, preserved


class Compiled(Fused):
    """A backend of layers, as another's code has them; see :class:`tfcalc.nn.context.Backend`."""

    def __init__(self, of: Transformers) -> None:
        self.of = of

    @property
    def layers(self) -> Compiled:
        """Itself."""
        return self

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """One kernel each, which keeps nothing: the angles are there anyway."""
        return _turned(q), _turned(k)

    def rotate_alone(self, q: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """The same of queries."""
        return _turned(q)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Attention, ctx: Context) -> Tensor:
        """By the kernel that the code calls."""
        return self.of.attend(q, k, v, block, ctx._replace(code=self.of))


def _turned(x: Tensor) -> Tensor:
    return x.trace.call(Call("rotary", (x,), x.shape, x.dtype, strides=preserved(x)))
