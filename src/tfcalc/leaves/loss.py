"""What a training step minimises."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise
from tfcalc.core.number import Num

CROSS_ENTROPY = (5, 2)  # max, minus it, exp, sum, minus its logarithm; exp, times the gradient


def cross_entropy(name: str, logits: Num) -> Component:
    """``−log softmax(logits)[next token]``: no parameters, no matrix product.

    ====================  =======================================================================
    elementwise FLOPs     5 per logit; backward 2 (what is done once for a token is neglected)
    ====================  =======================================================================

    Source: torch.nn.functional.cross_entropy: log_softmax and nll_loss, and their backward ``softmax − onehot``.
    """
    return Component(name, "loss", Cost(elementwise=(Elementwise("cross-entropy", logits, *CROSS_ENTROPY),)))
