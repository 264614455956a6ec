"""Optimizers: what each keeps for a tensor between steps, and what its step needs beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tfcalc.core.cost import Held
from tfcalc.core.number import Num, divide, product, total
from tfcalc.errors import InvalidModel, nearest
from tfcalc.footprint.training.bitsandbytes import (
    ADAM,
    ADEMAMIX,
    FORMER_BLOCK,
    LION,
    SMALLEST_IN_8_BITS,
    SMALLEST_PAGED,
    Bitsandbytes,
)
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

State = Callable[[Weight, int], tuple[Held, ...]]
Chosen = Callable[[Weight], bool]


class Optimizer(NamedTuple):
    """``state`` is what it keeps for a tensor whose moments have so many bits; ``shared`` what it keeps but once.

    What is ``paged`` is in unified memory: on the device as long as there is room, and the host's otherwise.

    While it steps there are copies of all tensors that it updates together (``copied``: PyTorch's foreach), or else the
    ``scratch`` of one tensor after another; of the one before it there is still what a variable of Python names.
    """

    name: str
    state: State
    copied: Chosen
    scratch: Scratch
    shared: tuple[Held, ...] = ()
    paged: State | None = None


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


def _of_torchao(bits: int, block: int) -> State:
    """Two states of so many bits, each with an fp32 scale per ``block`` and a map of its own; others as the weight.

    The others are of less than 4,096 numbers, or of what no blocks fill. What the compiled step needs beside is not
    known. Source: torchao.optim, ``_AdamBase._new_buffer``, ``OptimState8bit`` and ``OptimState4bit``.
    """

    def state(weight: Weight, own: int) -> tuple[Held, ...]:
        if weight.size < SMALLEST_IN_8_BITS or weight.size % block:
            return _moments(weight, own)
        numbers: Num = product(weight.shape)
        kept = (
            (
                Held(f"{moment} of {weight.name}", weight.shape, bits),
                Held(f"scales of {moment} of {weight.name}", (divide(numbers, block),), FP32.bits),
                Held(f"map of {moment} of {weight.name}", (2**bits,), FP32.bits),
            )
            for moment in ADAM
        )
        return (*(held for moment in kept for held in moment), _counter(weight))

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


def _bitsandbytes(name: str, how: Bitsandbytes) -> Optimizer:
    """Fused: its step needs nothing more."""
    return Optimizer(name, how.on_device, _none, nothing_more, how.maps, how.in_pages)


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
        _bitsandbytes("adamw-8bit", Bitsandbytes()),
        _bitsandbytes("adamw-8bit-2048", Bitsandbytes(block=FORMER_BLOCK)),
        _bitsandbytes("adamw-8bit-trainer", Bitsandbytes(trainer=True)),
        _bitsandbytes("adamw-32bit", Bitsandbytes(bits=32)),
        _bitsandbytes("paged-adamw-8bit", Bitsandbytes(paged=True)),
        _bitsandbytes("paged-adamw-8bit-trainer", Bitsandbytes(paged=True, trainer=True)),
        _bitsandbytes("paged-adamw-32bit", Bitsandbytes(bits=32, paged=True)),
        Optimizer("adamw-torchao-8bit", _of_torchao(8, 256), _none, nothing_more),
        Optimizer("adamw-torchao-4bit", _of_torchao(4, 128), _none, nothing_more),
        Optimizer("adafactor", _factors, _none, estimate),
        Optimizer("adafactor-momentum", _factors_and_momentum, _none, squares),
        Optimizer("adafactor-trainer", lambda weight, _: _factors(weight, FP32.bits), _none, squares),
        Optimizer("lion", _momentum, _none, sign),
        _bitsandbytes("lion-8bit", Bitsandbytes(LION)),
        _bitsandbytes("lion-8bit-trainer", Bitsandbytes(LION, trainer=True)),
        _bitsandbytes("lion-32bit", Bitsandbytes(LION, bits=32)),
        _bitsandbytes("paged-lion-8bit", Bitsandbytes(LION, paged=True)),
        _bitsandbytes("paged-lion-8bit-trainer", Bitsandbytes(LION, paged=True, trainer=True)),
        _bitsandbytes("paged-lion-32bit", Bitsandbytes(LION, bits=32, paged=True)),
        _bitsandbytes("ademamix-8bit-trainer", Bitsandbytes(ADEMAMIX, trainer=True)),
        _bitsandbytes("ademamix-32bit", Bitsandbytes(ADEMAMIX, bits=32)),
        _bitsandbytes("paged-ademamix-8bit-trainer", Bitsandbytes(ADEMAMIX, paged=True, trainer=True)),
        _bitsandbytes("paged-ademamix-32bit", Bitsandbytes(ADEMAMIX, bits=32, paged=True)),
        Optimizer("muon", _muon, lambda weight: not hidden_matrix(weight), newton_schulz),
    )
}
"""Those that have a name: PyTorch's; Lion is lion-pytorch's, Adafactor with momentum transformers'. Those of 8 or 32
bits are bitsandbytes', with ``trainer`` as transformers' Trainer sets them up, as it does Adafactor; but for torchao's.
"""

SPELLINGS = {
    # transformers' TrainingArguments(optim=…): OptimizerNames, as trainer_optimizer.py makes them
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw-fused",
    "adamw_torch_8bit": "adamw-torchao-8bit",
    "adamw_torch_4bit": "adamw-torchao-4bit",
    "adamw_bnb_8bit": "adamw-8bit-trainer",
    "adamw_8bit": "adamw-8bit-trainer",
    "paged_adamw_32bit": "paged-adamw-32bit",
    "paged_adamw_8bit": "paged-adamw-8bit-trainer",
    "lion_32bit": "lion-32bit",
    "lion_8bit": "lion-8bit-trainer",
    "paged_lion_32bit": "paged-lion-32bit",
    "paged_lion_8bit": "paged-lion-8bit-trainer",
    "ademamix": "ademamix-32bit",
    "ademamix_8bit": "ademamix-8bit-trainer",
    "paged_ademamix_32bit": "paged-ademamix-32bit",
    "paged_ademamix_8bit": "paged-ademamix-8bit-trainer",
    # bitsandbytes' classes, as torchtune's recipes name them
    "adamw8bit": "adamw-8bit",
    "pagedadamw": "paged-adamw-32bit",
    "pagedadamw8bit": "paged-adamw-8bit",
    "pagedadamw32bit": "paged-adamw-32bit",
    "pagedlion": "paged-lion-32bit",
    "pagedlion8bit": "paged-lion-8bit",
}
"""What others call some of them."""


def optimizer(name: str) -> Optimizer:
    """The optimizer of this name. Raises InvalidModel with the nearest where there is none.

    >>> optimizer("adamw").name
    'adamw'
    >>> optimizer("adamw_torch_fused").name
    'adamw-fused'
    """
    known = SPELLINGS.get(name, name)
    if known not in OPTIMIZERS:
        raise InvalidModel(f"optimizer {quoted(name)} is not known", nearest(name, [*OPTIMIZERS, *SPELLINGS]))
    return OPTIMIZERS[known]


def notes_on_optimizer(name: str) -> Iterator[str]:
    """Whose implementation it is, and which tensors it treats in another way."""
    if "torchao" in name:
        yield f"{name}: what its compiled step needs beside the states is not counted"
    elif "8bit" in name:
        small = f"tensors below {SMALLEST_IN_8_BITS:,} elements in fp32"
        yield f"{name} is bitsandbytes' implementation: it keeps the states of {small}"
    if name.endswith("8bit-trainer"):
        yield "transformers' Trainer has the states of embeddings in fp32 (Trainer.create_optimizer)"
    if optimizer(name).paged is not None:
        yield (
            f"states of tensors of {SMALLEST_PAGED:,} elements or more are in unified memory (cudaMallocManaged): on "
            "the GPU while there is room, else in the host's memory, and never in torch.cuda.max_memory_allocated"
        )


def bits_held(items: tuple[Held, ...]) -> int:
    """The bits of these tensors, which have to be of numbers."""
    return int(total(item.size * item.bits for item in items))  # type: ignore[call-overload, no-any-return]
