"""Optimizers: what each keeps for a tensor between steps, and what its step needs beside."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tfcalc.core.cost import Held
from tfcalc.core.number import Num, ceil_div, product, total
from tfcalc.errors import InvalidModel, nearest
from tfcalc.footprint.training.step_scratch import (
    Scratch,
    estimate,
    hidden_matrix,
    newton_schulz,
    nothing_more,
    sign,
    square_roots,
    squares,
)
from tfcalc.footprint.training.stored import Weight
from tfcalc.number_formats import FP32
from tfcalc.printable import quoted

BLOCK, FORMER_BLOCK = 256, 2048
"""Numbers that share a scale in bitsandbytes' 8-bit states; the latter before its version 0.44."""
SMALLEST_IN_8_BITS = 4096
"""Numbers of a tensor below which bitsandbytes keeps its states in fp32 (``min_8bit_size``)."""

State = Callable[[Weight, int], tuple[Held, ...]]
Chosen = Callable[[Weight], bool]


class Optimizer(NamedTuple):
    """``state`` is what it keeps for a tensor whose moments have so many bits; ``shared`` what it keeps but once.

    While it steps there are copies of all tensors that it updates together (``copied``: PyTorch's foreach), or else the
    ``scratch`` of one tensor after another; of the one before it there is still what a variable of Python names.
    """

    name: str
    state: State
    copied: Chosen
    scratch: Scratch
    shared: tuple[Held, ...] = ()


def _counter(weight: Weight) -> Held:
    """PyTorch's count of steps: a tensor of one fp32 number for each parameter tensor.

    With a GPU it is in the host's memory, unless the optimizer is fused or capturable; it is counted all the same.
    """
    return Held(f"step of {weight.name}", (), FP32.bits)


def _nothing(_: Weight, __: int) -> tuple[Held, ...]:
    """SGD without momentum keeps nothing."""
    return ()


def _momentum(weight: Weight, bits: int) -> tuple[Held, ...]:
    """One number for each of a weight: SGD's ``momentum_buffer``, Lion's ``exp_avg`` (arXiv 2302.06675)."""
    return (Held(f"m of {weight.name}", weight.shape, bits),)


def _moments(weight: Weight, bits: int) -> tuple[Held, ...]:
    """``exp_avg`` and ``exp_avg_sq``: 2 numbers for each of a weight (Kingma and Ba 2015, arXiv 1412.6980)."""
    return (*_momentum(weight, bits), Held(f"v of {weight.name}", weight.shape, bits), _counter(weight))


def _factors(weight: Weight, bits: int) -> tuple[Held, ...]:
    """Sums over rows and over columns of a matrix, ``rows + columns`` numbers; a vector's squares as they are.

    Source: Shazeer and Stern 2018 (arXiv 1804.04235), algorithms 4 and 5; torch.optim.Adafactor. Of more than two axes
    the last two are summed over.
    """
    if len(weight.shape) < 2:
        return (Held(f"v of {weight.name}", weight.shape, bits), _counter(weight))
    *others, rows, columns = weight.shape
    return (
        Held(f"row sums of {weight.name}", (*others, rows), bits),
        Held(f"column sums of {weight.name}", (*others, columns), bits),
        _counter(weight),
    )


def _factors_and_momentum(weight: Weight, _: int) -> tuple[Held, ...]:
    """The same with a first moment, all of them in fp32, and the root mean square of the weight in the counter's place.

    Source: transformers.optimization.Adafactor with ``beta1``.
    """
    return (*_momentum(weight, FP32.bits), *_factors(weight, FP32.bits))


def _in_8_bits(block: int) -> State:
    """Two states of a byte per number, and an fp32 scale per ``block`` of each; of a small tensor two fp32 states.

    Source: Dettmers et al. 2022 (arXiv 2110.02861); bitsandbytes 0.50, ``Optimizer2State.init_state``.
    """

    def state(weight: Weight, _: int) -> tuple[Held, ...]:
        m, v = f"m of {weight.name}", f"v of {weight.name}"
        if weight.size < SMALLEST_IN_8_BITS:
            return Held(m, weight.shape, FP32.bits), Held(v, weight.shape, FP32.bits)
        blocks: Num = ceil_div(product(weight.shape), block)
        scales = (Held(f"scales of {name}", (blocks,), FP32.bits) for name in (m, v))
        return Held(m, weight.shape, 8), Held(v, weight.shape, 8), *scales

    return state


def _muon(weight: Weight, bits: int) -> tuple[Held, ...]:
    """A momentum for hidden matrices; AdamW's moments for the rest.

    Source: torch.optim.Muon, whose documentation leaves biases and embeddings to AdamW; Jordan et al. 2024.
    """
    return _momentum(weight, bits) if hidden_matrix(weight) else _moments(weight, bits)


def _all(_: Weight) -> bool:
    return True


def _none(_: Weight) -> bool:
    return False


MAPS = Held("maps of 8 bits to numbers", (2, 256), FP32.bits)

OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("none", _nothing, _none, nothing_more),
        Optimizer("sgd", _nothing, _none, nothing_more),
        Optimizer("momentum", _momentum, _none, nothing_more),
        Optimizer("adam", _moments, _all, nothing_more),
        Optimizer("adamw", _moments, _all, nothing_more),
        Optimizer("adamw-fused", _moments, _none, nothing_more),
        Optimizer("adamw-forloop", _moments, _none, square_roots),
        Optimizer("adamw-8bit", _in_8_bits(BLOCK), _none, nothing_more, shared=(MAPS,)),
        Optimizer("adamw-8bit-2048", _in_8_bits(FORMER_BLOCK), _none, nothing_more, shared=(MAPS,)),
        Optimizer("adafactor", _factors, _none, estimate),
        Optimizer("adafactor-momentum", _factors_and_momentum, _none, squares),
        Optimizer("lion", _momentum, _none, sign),
        Optimizer("muon", _muon, lambda weight: not hidden_matrix(weight), newton_schulz),
    )
}
"""Those that have a name: PyTorch's; Lion is lion-pytorch's, AdamW in 8 bits bitsandbytes' (fused: a step needs nothing
more), Adafactor with momentum transformers'."""


def optimizer(name: str) -> Optimizer:
    """The optimizer of this name. Raises InvalidModel with the nearest where there is none.

    >>> optimizer("adamw").name
    'adamw'
    """
    if name not in OPTIMIZERS:
        raise InvalidModel(f"optimizer {quoted(name)} is not known", nearest(name, OPTIMIZERS))
    return OPTIMIZERS[name]


def bits_held(items: tuple[Held, ...]) -> int:
    """The bits of these tensors, which have to be of numbers."""
    return int(total(item.size * item.bits for item in items))  # type: ignore[call-overload, no-any-return]
