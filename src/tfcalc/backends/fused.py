"""transformers' models with fused kernels, as patched by Liger-Kernel.

Fused are attention (flash; the memory-efficient kernel in fp32), norms, gates, in-place rotations, and a loss without
logits. Everything else runs as in transformers.
"""

from __future__ import annotations

from tfcalc.backends import SAVED, elementwise
from tfcalc.backends.transformers import Transformers
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import IDENTITIES, pointwise
from tfcalc.ops.rows import layer_norm
from tfcalc.tape.interpreter import Numerics
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.workload import Workload


class Fused(Transformers):
    """transformers with fused kernels; see :class:`tfcalc.nn.module.Backend`."""

    name, label = "fused", "fused kernels"
    fuses_gates = own_attention = True
    eager_attention = False
    needs_cuda = True
    compared = frozenset({SAVED})
    loss = "fused"

    def workload(self, run: Workload, numerics: Numerics) -> Workload:
        """Return the workload with a fused attention kernel; flash attention needs a 16-bit format."""
        return run if run.fused else run.replaced(kernel="efficient" if numerics.compute == "float32" else "flash")

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run a norm as one kernel."""
        return (
            layer_norm(x, weight, bias) if norm.form.startswith("layernorm") else elementwise.fused_rms_norm(x, weight)
        )

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """Run an activation as one kernel, even if transformers writes it in Python: saves its input or its result."""
        return x if kind in IDENTITIES else pointwise(kind, x)

    def gate(self, kind: str, gate: Tensor, up: Tensor) -> Tensor:
        """``act(gate) · up``: saves both, recomputes the activation, and overwrites both with their gradients.

        Source: Liger-Kernel's LigerSiLUMulFunction and LigerGELUMulFunction.
        """
        gated = gate.trace.call(Call("gated", (gate, up), gate.shape, gate.dtype, saves=(gate, up)))
        if gated.node is not None:
            gated.node.ready = (gate.storage, up.storage)
        return gated

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys in place, and their gradients likewise: saves cos and sin.

        Source: Liger-Kernel's LigerRopeFunction; flash-attn's ``apply_rotary`` with ``inplace``.
        """
        angles = ctx.angles[elementwise.key(attention)]
        return _rotated_in_place(q, angles), _rotated_in_place(k, angles)

    def rotate_alone(self, q: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """Rotate queries alone, in place."""
        return _rotated_in_place(q, ctx.angles[elementwise.key(attention)])

    def scan(self, mixer: Module, ctx: Context, *given: Tensor) -> Tensor:
        """Refuse: mamba-ssm's and flash-linear-attention's kernels save other tensors than loops in PyTorch do."""
        what = f"the fused kernel of {type(mixer).__name__} is not supported"
        raise InvalidModel(what, "take transformers' own code: --backend transformers")


def _rotated_in_place(x: Tensor, angles: elementwise.Angles) -> Tensor:
    shares, strides = x.storage, x.strides
    call = Call("rotary", (x,), x.shape, x.dtype, saves=angles, passes=True, shares=shares, strides=strides)
    return x.trace.call(call)
