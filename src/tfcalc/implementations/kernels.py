"""Fused kernels: a few operations in one, whose backward computes again what can be computed from what it keeps."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.tape import Value


def rms_norm(m: Running, part: Component, x: Value) -> Value:
    """Keeps what it reads, and 1/rms of each row in fp32.

    Source: torch.nn.functional.rms_norm (``_fused_rms_norm``), in fp32 under autocast; Liger-Kernel's LigerRMSNorm.
    """
    weights = [m.weight(tensor) for tensor in part.own.weights]
    x = m.t.upper(x)
    rows = divide(x.elements, part.own.weights[0].shape[0]) if weights else 1
    deviation = Value(m.t.new(rows, "float32", "1/rms"), rows, "float32")
    return m.t.result("rms_norm", [x, *weights], x.elements, x.dtype, saves=[x, deviation])
