"""Fused kernels: a few operations in one, whose backward computes again what it can from what it keeps."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import value_of
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import Storage
from tfcalc.tape.value import Value


def rms_norm(m: Running, x: Value, rows: Num, weight: Value | None) -> Value:
    """Keeps what it reads, in whatever format, and 1/rms of each row in fp32.

    Source: Liger-Kernel's LigerRMSNormFunction (arXiv 2410.10989, section 3.1); torch's ``_fused_rms_norm``.
    """
    deviation = Value(m.t.new(rows, "float32", "1/rms"), rows, "float32")
    return m.t.result("rms_norm", [x, weight], x.elements, x.dtype, saves=[x, deviation])


def gated(m: Running, gate: Value, up: Value) -> Value:
    """``act(gate) · up``: keeps the two, computes the activation again, and writes their gradients over them.

    Source: Liger-Kernel's LigerSiLUMulFunction and LigerGELUMulFunction.
    """
    made = m.t.result("gated", [gate, up], gate.elements, gate.dtype, saves=[gate, up])
    if made.node is not None:
        made.node.ready = (gate.storage, up.storage)
    return made


def turned(m: Running, x: Value, angles: tuple[Value, Value]) -> Value:
    """Queries or keys rotated where they stand, and their gradient likewise: keeps cos and sin.

    Source: Liger-Kernel's LigerRopeFunction; flash-attn's ``apply_rotary`` with ``inplace``.
    """
    return m.t.result("rotary", [x], x.elements, x.dtype, saves=angles, passes=True, shares=x.storage, heads=x.heads)


def linear_cross_entropy(m: Running, x: Value, width: Num, weight: Value, bias: Value | None) -> Value:
    """The loss of ``x W + b``: no logits are kept, but the gradients of x, W and b, which forward computes.

    It makes logits for so few rows at a time that they are about as large as x.

    Source: Liger-Kernel's LigerFusedLinearCrossEntropyFunction (arXiv 2410.10989, section 3.2).
    """
    inputs = [x, weight, bias]
    ready = [_gradient(m, each) for each in inputs]
    _logits(m, x, width, weight)
    kept = [each for each in ready if each is not None]
    made = m.t.result("linear_cross_entropy", inputs, 1, "float32", saves=kept)
    if made.node is not None:
        made.node.ready = [each.storage if each is not None else None for each in ready]
    return made


def _gradient(m: Running, of: Value | None) -> Value | None:
    if of is None or not of.needs_gradient or not m.t.gradients:
        return None
    return Value(m.t.new(of.elements, of.dtype, "gradient, in forward"), of.elements, of.dtype)


def _logits(m: Running, x: Value, width: Num, weight: Value) -> None:
    """Those of one chunk, with the weight's copy that autocast makes; the losses of all rows are there, too.

    Where nothing is watched, sizes may be symbols, and what is there for a moment is not counted.
    """
    if not m.t.ledger.watch:
        return
    kind = m.t.numerics.compute
    rows, vocabulary = divide(x.elements, width), divide(weight.elements, width)
    chunk = _chunk(rows, vocabulary, width)
    there: list[Storage] = [m.t.new(rows, "float32", "losses"), m.t.new(chunk * vocabulary, kind, "logits")]
    if weight.dtype != kind:
        there.append(m.t.new(weight.elements, kind, "weight in autocast"))
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
