"""transformers' models with a fused kernel wherever there is one, as Liger-Kernel puts them in.

Flash attention (the memory-efficient kernel where numbers have 32 bits), norms, gates, rotations in place, and a loss
that makes no logits. Everything else runs as in transformers.
"""

from __future__ import annotations

from tfcalc.backends import norms, rotation
from tfcalc.backends.transformers import Transformers
from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import IDENTITIES, pointwise
from tfcalc.ops.rows import layer_norm
from tfcalc.tape.call import Call
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.numerics import Numerics
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Workload


class Fused(Transformers):
    """A backend; see :class:`tfcalc.nn.context.Backend`."""

    fuses = True

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

    def head_and_loss(self, model: WithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
        """The loss of ``x W + b``: no logits are kept, but the gradients of x, W and b, which forward computes.

        It makes logits for so few rows at a time that they are about as large as x.

        Source: Liger-Kernel's LigerFusedLinearCrossEntropyFunction (arXiv 2410.10989, section 3.2).
        """
        trace = x.trace
        assert isinstance(trace, Interpreter)
        x, (weight, *bias) = model.opened(x, ctx)
        self.begin_loss(trace)
        labels = self.labels(model, ids)
        inputs = (x, weight, *bias)
        ready = [_gradient(each) for each in inputs]
        _logits(x, weight)
        kept = tuple(each for each in ready if each is not None)
        made = trace.call(Call("linear_cross_entropy", inputs, (), "float32", saves=kept))
        if made.node is not None:
            made.node.ready = [each.storage if each is not None else None for each in ready]
        del labels  # not kept: forward has used them
        trace.loss_ends()
        return made


def _turned_in_place(x: Tensor, angles: rotation.Angles) -> Tensor:
    shares, strides = x.storage, x.strides
    call = Call("rotary", (x,), x.shape, x.dtype, saves=angles, passes=True, shares=shares, strides=strides)
    return x.trace.call(call)


def _gradient(of: Tensor) -> Tensor | None:
    if not of.needs_gradient or not of.trace.gradients:
        return None
    return of.trace.new(of.shape, of.dtype, "gradient, in forward")


def _logits(x: Tensor, weight: Tensor) -> None:
    """Those of one chunk, with the weight's copy that autocast makes; the losses of all rows are there, too.

    Where nothing is watched, sizes may be symbols, and what is there for a moment is not counted.
    """
    trace = x.trace
    assert isinstance(trace, Interpreter)
    if not trace.tape.tracker.watch:
        return
    kind = trace.compute
    vocabulary = weight.shape[1]
    there = [
        trace.new((x.rows,), "float32", "losses"),
        trace.new((_chunk(x.rows, vocabulary, x.width), vocabulary), kind, "logits"),
    ]
    if weight.dtype != kind:
        there.append(trace.new(weight.shape, kind, "weight in autocast"))
    del there


def _chunk(rows: Num, vocabulary: Num, width: Num) -> Num:
    """``min(next_power_of_2(ceil(rows / ceil(V / h))), rows)``; a power of two is a number, whatever it follows from.

    >>> _chunk(4 * 4096, 32000, 4096), _chunk(3, 100, 8)
    (2048, 1)
    """
    wanted = ceil_div(value_of(rows), ceil_div(value_of(vocabulary), value_of(width)))
    power = 1
    while power < wanted:
        power *= 2
    return rows if value_of(rows) <= power else power
