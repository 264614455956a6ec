"""Megatron-LM's kernels: today's, and those of Korthikanti et al. 2022 (arXiv 2205.05198, section 4).

Today attention is one kernel (Transformer Engine's), and dropout is what the config says. The paper's attention saves
scores and probabilities, and dropout is that of its options. Of both: "We only consider the main contributors and
ignore small buffers": a norm saves its input, but not each row's mean and deviation (8 bytes of a LayerNorm beside 2h,
0.03 % for h = 12,288); rotary angles are not counted. Numbers have 16 bits, dropout masks 8, logits 32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.backends import SAVED
from tfcalc.backends.transformers import Transformers
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.module import Context
from tfcalc.number_formats import BF16
from tfcalc.ops.attention import by_token
from tfcalc.ops.collectives import of_copy
from tfcalc.ops.elementwise import IDENTITIES, dropout, pointwise
from tfcalc.ops.rows import softmax
from tfcalc.tape.interpreter import Numerics
from tfcalc.tape.tensor import Call, Tensor

if TYPE_CHECKING:
    from tfcalc.model import Model

NUMERICS = Numerics(BF16.torch)
"""Numerics of its kernels, whatever the weights' format."""


class Megatron(Transformers):
    """Megatron-LM; see :class:`tfcalc.nn.module.Backend`."""

    name, label = "megatron", "Megatron-LM's code"
    fuses_gates = own_attention = True
    needs_cuda = True
    compared = frozenset({SAVED})
    stack = "megatron"
    drops_by_options = False
    """Whether dropout is that of Megatron-LM's options (0.1 by default), whatever a config says."""

    @classmethod
    def runs(cls, model: Model) -> bool:
        """Return False: it runs one GPU's piece of a model (:mod:`tfcalc.placed`), and no model as it is."""
        return False

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """Prepare nothing: its softmax kernel masks, and its rotation kernel computes the angles."""
        return ctx

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run a norm as one kernel: saves its input."""
        return x.trace.call(Call(norm.form, (x, weight, bias), x.shape, x.dtype, saves=(x,)))

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """Run an activation as one kernel: saves its input; ReLU its result, which the next linear map saves anyway."""
        return x if kind in IDENTITIES else pointwise(kind, x)

    def gate(self, kind: str, gate: Tensor, up: Tensor) -> Tensor:
        """``act(gate) · up`` in one operation: saves both, and recomputes the activation (SwiGLUFunction)."""
        return gate.trace.call(Call("gated", (gate, up), gate.shape, gate.dtype, saves=(gate, up)))

    def loss_of_shares(self, logits: Tensor) -> Tensor:
        """Compute the loss from a copy of the logits in fp32."""
        return of_copy(logits)

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """Rotate in place, which saves nothing."""
        return q, k


class Megatron2022(Megatron):
    """Megatron-LM as the paper has it."""

    name, label = "megatron-2022", "Megatron-LM's code of 2022"
    compared = frozenset({SAVED})
    drops_by_options = True

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Attention, ctx: Context) -> Tensor:
        """``Q Kᵀ``, softmax, dropout, and the product with V (figure 3).

        They save ``4sbh``, ``2as²b``, ``as²b``, and ``2as²b + 2sbh``; with "selective" recomputation only q, k and v.
        """
        trace, shape = q.trace, (*q.shape[:-1], v.width)
        scores = trace.call(Call("scores", (q, k), (*q.shape[:-1], k.shape[2]), q.dtype, saves=(q, k)))
        p = softmax(scores)
        p = dropout(p, "attend_dropout") if block.dropout and ctx.drops else p
        return trace.call(Call("context", (p, v), shape, q.dtype, saves=(p, v), strides=by_token(shape)))
