"""transformers' models with a fused kernel wherever there is one, as Liger-Kernel puts them in.

Flash attention (the memory-efficient kernel where numbers have 32 bits), norms, gates, rotations in place, and a loss
that makes no logits. Everything else runs as in transformers.
"""

from __future__ import annotations

from tfcalc.backends import norms, rotation
from tfcalc.backends.transformers import Transformers
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import IDENTITIES, pointwise
from tfcalc.ops.rows import layer_norm
from tfcalc.tape.call import Call
from tfcalc.tape.numerics import Numerics
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Workload


class Fused(Transformers):
    """A backend; see :class:`tfcalc.nn.context.Backend`."""

    fuses = True
    loss = "fused"

    def workload(self, run: Workload, numerics: Numerics) -> Workload:
        """With a fused kernel for attention; flash attention needs numbers of 16 bits."""
        return run if run.fused else run.replaced(kernel="efficient" if numerics.compute == "float32" else "flash")

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """One kernel."""
        return layer_norm(x, weight, bias) if norm.form.startswith("layernorm") else norms.fused_rms_norm(x, weight)

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """A kernel, also where transformers writes it in Python: it keeps what it reads, or what it makes."""
        return x if kind in IDENTITIES else pointwise(kind, x)

    def gate(self, kind: str, gate: Tensor, up: Tensor) -> Tensor:
        """``act(gate) · up``: keeps the two, computes the activation again, and writes their gradients over them.

        Source: Liger-Kernel's LigerSiLUMulFunction and LigerGELUMulFunction.
        """
        made = gate.trace.call(Call("gated", (gate, up), gate.shape, gate.dtype, saves=(gate, up)))
        if made.node is not None:
            made.node.ready = (gate.storage, up.storage)
        return made

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """Queries and keys rotated where they stand, and their gradients likewise: keeps cos and sin.

        Source: Liger-Kernel's LigerRopeFunction; flash-attn's ``apply_rotary`` with ``inplace``.
        """
        angles = ctx.angles[rotation.key(attention)]
        return _turned_in_place(q, angles), _turned_in_place(k, angles)

    def rotate_alone(self, q: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """The same of queries."""
        return _turned_in_place(q, ctx.angles[rotation.key(attention)])

    def scan(self, mixer: Module, ctx: Context, *given: Tensor) -> Tensor:
        """Not known: mamba-ssm's and flash-linear-attention's kernels keep other tensors than PyTorch's loops do."""
        what = f"the fused kernel of {type(mixer).__name__} is not supported"
        raise InvalidModel(what, "take transformers' own code: --backend transformers")


def _turned_in_place(x: Tensor, angles: rotation.Angles) -> Tensor:
    shares, strides = x.storage, x.strides
    call = Call("rotary", (x,), x.shape, x.dtype, saves=angles, passes=True, shares=shares, strides=strides)
    return x.trace.call(call)
