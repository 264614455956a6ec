"""Losses of a training step."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.cost import Elementwise
from tfcalc.ops.elementwise import pointwise
from tfcalc.ops.work import CROSS_ENTROPY
from tfcalc.tape.call import Call, Leaf
from tfcalc.tape.tensor import Tensor


def cross_entropy(logits: Tensor, name: str, code: Callable[[], Tensor] | None = None) -> Tensor:
    """``−log softmax(logits)[next token]``: no parameters, no matrix product; ``code`` runs a library's kernels.

    ====================  =======================================================================
    elementwise FLOPs     5 per logit; backward 2 (operations per token are neglected)
    ====================  =======================================================================

    Source: torch.nn.functional.cross_entropy: log_softmax and nll_loss, and their backward ``softmax − onehot``.
    """
    work = (Elementwise("cross-entropy", logits.elements, *CROSS_ENTROPY),)
    call = Call("cross_entropy", (logits,), (), logits.dtype, elementwise=work, leaf=Leaf(name, "loss"))
    call = call._replace(saves_result=True)
    return logits.trace.call(call) if code is None else logits.trace.composite(call, code)


def nll_of_softmax(logits: Tensor, targets: Tensor) -> Tensor:
    """torch.nn.functional.cross_entropy: saves the log-softmax, the targets, and their number.

    The log-softmax has the logits' own format; under autocast nll_loss reads, and saves, a copy in fp32 (torch's
    cross_entropy_loss and nll_loss).
    """
    trace = logits.trace
    logarithms = trace.upper(pointwise("log_softmax", logits))
    weight = trace.new((1,), logarithms.dtype, "number of targets")
    call = Call("nll_loss", (logarithms,), (), logarithms.dtype, saves=(logarithms, targets, weight))
    return trace.call(call._replace(kernels=("nll_loss_forward",)))


def compiled_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the loss as torch.compile does: saves the logits in their own format, each row's maximum and log-sum-exp.

    Copies in fp32 and the softmax exist within kernels alone, and are recomputed in backward.

    Source: torch's min_cut_rematerialization_partition, run on cross_entropy (tests/verify/test_compiled_layers.py).
    """
    trace = logits.trace
    of_rows = (trace.new((logits.rows, 1), "float32", name) for name in ("highest logit", "log-sum-exp"))
    return trace.call(Call("cross_entropy", (logits,), (), "float32", saves=(logits, targets, *of_rows)))
