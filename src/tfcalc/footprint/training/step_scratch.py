"""What an optimizer's step needs for one tensor, where it goes through them one after another."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.cost import Held
from tfcalc.core.number import Num, minimum, product
from tfcalc.footprint.training.stored import Weight
from tfcalc.number_formats import BF16, FP32

Scratch = Callable[[Weight | None, Weight, int], tuple[Held, ...]]
"""For the tensor before, of which there is still what a variable of Python names, this one, and the moments' bits."""


def hidden_matrix(weight: Weight) -> bool:
    """What Muon orthogonalises: matrices inside the model, not its tables, its output head, norms and biases."""
    return weight.hidden and len(weight.shape) == 2


def nothing_more(_: Weight | None, __: Weight, ___: int) -> tuple[Held, ...]:
    """Updates in place, fused or of all tensors together."""
    return ()


def square_roots(before: Weight | None, weight: Weight, bits: int) -> tuple[Held, ...]:
    """√v and √v + ε of one tensor, the latter of the one before still there: ``_single_tensor_adam``'s ``denom``."""
    return (*_left(before, bits), Held("√v", (2, *weight.shape), bits))


def estimate(before: Weight | None, weight: Weight, bits: int) -> tuple[Held, ...]:
    """The update of the tensor before and of this one, the sums over rows and columns, their mean.

    Source: ``_single_tensor_adafactor``, which torch.optim.Adafactor takes unless ``foreach`` is asked for.
    """
    if len(weight.shape) < 2:
        return (*_left(before, bits), Held("update", (2, *weight.shape), bits))
    *others, rows, columns = weight.shape
    sums: Num = product(others) * (rows + columns + 1)
    return (*_left(before, bits), Held("update", weight.shape, bits), Held("sums", (sums,), bits))


def squares(_: Weight | None, weight: Weight, bits: int) -> tuple[Held, ...]:
    """The gradient squared and the update, in fp32; of weights of 16 bits fp32 copies of them and of their gradient.

    Source: ``step`` of transformers.optimization.Adafactor.
    """
    copies = (Held("fp32 copies", (2, *weight.shape), FP32.bits),) if bits < FP32.bits else ()
    both = (*copies, Held("squares, update", (2, *weight.shape), FP32.bits))
    if len(weight.shape) < 2:
        return both
    *others, rows, columns = weight.shape
    sums: Num = product(others) * (rows + columns)
    return (*both, Held("sums", (sums,), FP32.bits))


def _left(before: Weight | None, bits: int) -> tuple[Held, ...]:
    return () if before is None else (Held("previous tensor, not yet freed", before.shape, bits),)


def sign(_: Weight | None, weight: Weight, bits: int) -> tuple[Held, ...]:
    """The moment's copy and its sum with the gradient (lion-pytorch's ``update_fn``)."""
    return (Held("update", (2, *weight.shape), bits),)


def newton_schulz(_: Weight | None, weight: Weight, bits: int) -> tuple[Held, ...]:
    """The update, its orthogonal form in bf16 before and after an iteration, and two squares of the shorter side.

    Source: torch.optim._muon._zeropower_via_newtonschulz. For n × m: ``(bits + 32)·nm + 32·min(n, m)²`` bits.
    """
    if not hidden_matrix(weight):
        return ()
    side: Num = minimum(*weight.shape)
    return (
        Held("update", weight.shape, bits),
        Held("orthogonal update", (2, *weight.shape), BF16.bits),
        Held("X Xᵀ", (2, side, side), BF16.bits),
    )
