"""Optimizers: the states that each keeps for a tensor between steps, and the scratch memory of its step.

Each optimizer has a section in this file: its states, then the scratch of its step. :data:`OPTIMIZERS` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfcalc.core.component import Held
from tfcalc.core.number import Num, ceil_div, divide, minimum, product, total
from tfcalc.errors import InvalidModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import BF16, FP32
from tfcalc.printable import quoted
from tfcalc.training.sharding import StoredWeight

States = Callable[[StoredWeight, int], tuple[Held, ...]]
"""States of one tensor whose moments have this many bits."""
Scratch = Callable[[StoredWeight | None, StoredWeight, int], tuple[Held, ...]]
"""Scratch of one tensor's step: for the tensor before it, this tensor, and the bits of moments.

The tensor before counts because a loop's variable still refers to its scratch while this tensor's is allocated.
"""


class Optimizer(NamedTuple):
    """Optimizer by name: ``state`` of each tensor, and ``shared`` tensors that it has only once.

    Its ``label`` is how tables call it.

    One that ``multiplies`` has products of matrices in its step, whose seconds nobody timed.

    States that are ``paged`` are in unified memory: on the device as long as there is room, else in the host's.

    While it steps there are copies of all tensors that it updates together (``copied``: PyTorch's foreach), or else the
    ``scratch`` of one tensor after another.
    """

    name: str
    label: str
    state: States
    copied: Callable[[StoredWeight], bool]
    scratch: Scratch
    shared: tuple[Held, ...] = ()
    paged: States | None = None
    multiplies: bool = False


def _all(_: StoredWeight) -> bool:
    return True


def _none(_: StoredWeight) -> bool:
    return False


def _no_scratch(_: StoredWeight | None, __: StoredWeight, ___: int) -> tuple[Held, ...]:
    """Update in place, by a fused kernel or of all tensors together."""
    return ()


def _previous(before: StoredWeight | None, bits: int) -> tuple[Held, ...]:
    return () if before is None else (Held("previous tensor, not yet freed", before.shape, bits),)


# SGD


def _no_states(_: StoredWeight, __: int) -> tuple[Held, ...]:
    return ()


def _momentum(weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """One number for each of a weight: SGD's ``momentum_buffer``, Lion's ``exp_avg`` (arXiv 2302.06675)."""
    return (Held(f"m of {weight.name}", weight.shape, bits),)


# RMSprop of torch.optim


def _mean_square(weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """One number for each of a weight: ``square_avg`` (Hinton 2012), neither centered nor with momentum."""
    return (Held(f"v of {weight.name}", weight.shape, bits), _counter(weight))


# Adam and AdamW of torch.optim


def _counter(weight: StoredWeight) -> Held:
    """PyTorch's count of steps: a tensor of one fp32 number for each parameter tensor.

    With a GPU it is in the host's memory, unless the optimizer is fused or capturable; it is counted all the same.
    """
    return Held(f"step of {weight.name}", (), FP32.bits)


def _moments(weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """``exp_avg`` and ``exp_avg_sq``: 2 numbers for each of a weight (Kingma and Ba 2015, arXiv 1412.6980)."""
    return (*_momentum(weight, bits), Held(f"v of {weight.name}", weight.shape, bits), _counter(weight))


def _denominators(before: StoredWeight | None, weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """√v and √v + ε of one tensor: ``_single_tensor_adam``'s ``denom``; the previous one's √v + ε is still live."""
    return (*_previous(before, bits), Held("√v", (2, *weight.shape), bits))


# Adafactor of torch.optim and of transformers


def _factors(weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """Sums over rows and over columns of a matrix, ``rows + columns`` numbers; a vector's squares as they are.

    Source: Shazeer and Stern 2018 (arXiv 1804.04235), algorithms 4 and 5; torch.optim.Adafactor. With more than two
    axes, the last two are summed over.
    """
    if len(weight.shape) < 2:
        return (Held(f"v of {weight.name}", weight.shape, bits), _counter(weight))
    *others, rows, columns = weight.shape
    return (
        Held(f"row sums of {weight.name}", (*others, rows), bits),
        Held(f"column sums of {weight.name}", (*others, columns), bits),
        _counter(weight),
    )


def _factors_in_fp32(weight: StoredWeight, _: int) -> tuple[Held, ...]:
    """States of transformers.optimization.Adafactor: the root mean square of the weight is as large as a counter."""
    return _factors(weight, FP32.bits)


def _factors_and_momentum(weight: StoredWeight, _: int) -> tuple[Held, ...]:
    """States of transformers.optimization.Adafactor with ``beta1``: a first moment in fp32 as well."""
    return (*_momentum(weight, FP32.bits), *_factors(weight, FP32.bits))


def _estimate(before: StoredWeight | None, weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """Updates of the previous tensor and of this one, the sums over rows and columns, and their mean.

    Source: ``_single_tensor_adafactor``, which torch.optim.Adafactor takes unless ``foreach`` is asked for.
    """
    if len(weight.shape) < 2:
        return (*_previous(before, bits), Held("update", (2, *weight.shape), bits))
    *others, rows, columns = weight.shape
    sums: Num = product(others) * (rows + columns + 1)
    return (*_previous(before, bits), Held("update", weight.shape, bits), Held("sums", (sums,), bits))


def _squares(_: StoredWeight | None, weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """Squared gradient and update, in fp32; for weights of 16 bits also fp32 copies of them and of their gradient.

    Source: ``step`` of transformers.optimization.Adafactor.
    """
    copies = (Held("fp32 copies", (2, *weight.shape), FP32.bits),) if bits < FP32.bits else ()
    both = (*copies, Held("squares, update", (2, *weight.shape), FP32.bits))
    if len(weight.shape) < 2:
        return both
    *others, rows, columns = weight.shape
    sums: Num = product(others) * (rows + columns)
    return (*both, Held("sums", (sums,), FP32.bits))


# Lion of lion-pytorch, whose state is _momentum


def _sign(_: StoredWeight | None, weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """Copy of the moment, and its sum with the gradient (lion-pytorch's ``update_fn``)."""
    return (Held("update", (2, *weight.shape), bits),)


# Muon of torch.optim


def _is_hidden_matrix(weight: StoredWeight) -> bool:
    """Return whether Muon orthogonalizes it: matrices inside the model, no tables, output head, norms or biases."""
    return weight.hidden and len(weight.shape) == 2


def _by_adamw(weight: StoredWeight) -> bool:
    return not _is_hidden_matrix(weight)


def _muon_states(weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """A momentum for hidden matrices; AdamW's moments for the rest.

    Source: torch.optim.Muon, whose documentation leaves biases and embeddings to AdamW; Jordan et al. 2024.
    """
    return _momentum(weight, bits) if _is_hidden_matrix(weight) else _moments(weight, bits)


def _newton_schulz(_: StoredWeight | None, weight: StoredWeight, bits: int) -> tuple[Held, ...]:
    """Update, its orthogonal form in bf16 before and after an iteration, and two squares of the shorter side.

    Source: torch.optim._muon._zeropower_via_newtonschulz. For n × m: ``(bits + 32)·nm + 32·min(n, m)²`` bits.
    """
    if not _is_hidden_matrix(weight):
        return ()
    side: Num = minimum(*weight.shape)
    return (
        Held("update", weight.shape, bits),
        Held("orthogonal update", (2, *weight.shape), BF16.bits),
        Held("X Xᵀ", (2, side, side), BF16.bits),
    )


# bitsandbytes 0.50, optim/optimizer.py: Optimizer2State.init_state, get_state_buffer; optim/ademamix.py

BLOCK, FORMER_BLOCK = 256, 2048
"""Numbers that share a scale in 8-bit states; the latter before version 0.44."""
SMALLEST_IN_8_BITS = 4096
"""Numbers of a tensor below which its states are in fp32 (``min_8bit_size``)."""
SMALLEST_PAGED = 100_000
"""Numbers of a tensor below which its states are in the device's own memory (``get_state_buffer``)."""

ADAM, LION, ADEMAMIX = ("m", "v"), ("m",), ("m₁", "m₂", "v")


class Bitsandbytes(NamedTuple):
    """Optimizer with these ``moments`` of each number in ``bits`` bits, whatever format the weight has.

    In 8 bits each ``block`` of numbers has a scale of fp32 beside it. States of embedding tables are in fp32 where the
    ``trainer`` is transformers', which overrides them (``Trainer.create_optimizer``). What is ``paged`` is in unified
    memory (``cudaMallocManaged``), which PyTorch's allocator does not count; the scales never are.
    """

    moments: tuple[str, ...] = ADAM
    bits: int = 8
    block: int = BLOCK
    paged: bool = False
    trainer: bool = False

    def on_device(self, weight: StoredWeight, _: int) -> tuple[Held, ...]:
        """States of a tensor in the device's own memory."""
        return (*(() if self._pages(weight) else self._states(weight)), *self._scales(weight))

    def in_pages(self, weight: StoredWeight, _: int) -> tuple[Held, ...]:
        """States of a tensor in unified memory."""
        return self._states(weight) if self._pages(weight) else ()

    @property
    def maps(self) -> tuple[Held, ...]:
        """Tables from 8 bits to numbers: one for signed moments, one for squares."""
        signed_and_squares = min(len(self.moments), 2)
        return (Held("maps of 8 bits to numbers", (signed_and_squares, 256), FP32.bits),) if self.bits == 8 else ()

    def _pages(self, weight: StoredWeight) -> bool:
        return self.paged and weight.size >= SMALLEST_PAGED

    def _in_8_bits(self, weight: StoredWeight) -> bool:
        overridden = self.trainer and weight.looked_up
        return self.bits == 8 and weight.size >= SMALLEST_IN_8_BITS and not overridden

    def _states(self, weight: StoredWeight) -> tuple[Held, ...]:
        bits = 8 if self._in_8_bits(weight) else FP32.bits
        return tuple(Held(f"{moment} of {weight.name}", weight.shape, bits) for moment in self.moments)

    def _scales(self, weight: StoredWeight) -> tuple[Held, ...]:
        if not self._in_8_bits(weight):
            return ()
        blocks: Num = ceil_div(product(weight.shape), self.block)
        names = (f"scales of {moment} of {weight.name}" for moment in self.moments)
        return tuple(Held(name, (blocks,), FP32.bits) for name in names)


def _bitsandbytes(name: str, label: str, how: Bitsandbytes) -> Optimizer:
    return Optimizer(name, label, how.on_device, _none, _no_scratch, how.maps, how.in_pages)


# torchao


def _torchao(bits: int, block: int) -> States:
    """Two states of ``bits`` bits, each with an fp32 scale per ``block`` and a map of its own; others as the weight.

    The others are of less than 4,096 numbers, or of a number that no blocks fill. What the compiled step needs beside
    is not known. Source: torchao.optim, ``_AdamBase._new_buffer``, ``OptimState8bit`` and ``OptimState4bit``.
    """

    def state(weight: StoredWeight, own: int) -> tuple[Held, ...]:
        if weight.size < SMALLEST_IN_8_BITS or weight.size % block:
            return _moments(weight, own)
        numbers: Num = product(weight.shape)
        quantized = (
            (
                Held(f"{moment} of {weight.name}", weight.shape, bits),
                Held(f"scales of {moment} of {weight.name}", (divide(numbers, block),), FP32.bits),
                Held(f"map of {moment} of {weight.name}", (2**bits,), FP32.bits),
            )
            for moment in ADAM
        )
        return (*(tensor for moment in quantized for tensor in moment), _counter(weight))

    return state


OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("none", "no optimizer", _no_states, _none, _no_scratch),
        Optimizer("sgd", "SGD", _no_states, _none, _no_scratch),
        Optimizer("momentum", "SGD with momentum", _momentum, _none, _no_scratch),
        Optimizer("rmsprop", "RMSprop", _mean_square, _all, _no_scratch),
        Optimizer("adam", "Adam (foreach)", _moments, _all, _no_scratch),
        Optimizer("adamw", "AdamW (foreach)", _moments, _all, _no_scratch),
        Optimizer("adamw-fused", "AdamW", _moments, _none, _no_scratch),
        Optimizer("adamw-forloop", "AdamW (for-loop)", _moments, _none, _denominators),
        _bitsandbytes("adamw-8bit", "8-bit AdamW", Bitsandbytes()),
        _bitsandbytes("adamw-8bit-2048", "8-bit AdamW (blocks of 2,048)", Bitsandbytes(block=FORMER_BLOCK)),
        _bitsandbytes("adamw-8bit-trainer", "8-bit AdamW (Trainer)", Bitsandbytes(trainer=True)),
        _bitsandbytes("adamw-32bit", "32-bit AdamW", Bitsandbytes(bits=32)),
        _bitsandbytes("paged-adamw-8bit", "paged 8-bit AdamW", Bitsandbytes(paged=True)),
        _bitsandbytes(
            "paged-adamw-8bit-trainer", "paged 8-bit AdamW (Trainer)", Bitsandbytes(paged=True, trainer=True)
        ),
        _bitsandbytes("paged-adamw-32bit", "paged 32-bit AdamW", Bitsandbytes(bits=32, paged=True)),
        Optimizer("adamw-torchao-8bit", "8-bit AdamW (torchao)", _torchao(8, 256), _none, _no_scratch),
        Optimizer("adamw-torchao-4bit", "4-bit AdamW (torchao)", _torchao(4, 128), _none, _no_scratch),
        Optimizer("adafactor", "Adafactor", _factors, _none, _estimate),
        Optimizer("adafactor-momentum", "Adafactor with momentum", _factors_and_momentum, _none, _squares),
        Optimizer("adafactor-trainer", "Adafactor (Trainer)", _factors_in_fp32, _none, _squares),
        Optimizer("lion", "Lion", _momentum, _none, _sign),
        _bitsandbytes("lion-8bit", "8-bit Lion", Bitsandbytes(LION)),
        _bitsandbytes("lion-8bit-trainer", "8-bit Lion (Trainer)", Bitsandbytes(LION, trainer=True)),
        _bitsandbytes("lion-32bit", "32-bit Lion", Bitsandbytes(LION, bits=32)),
        _bitsandbytes("paged-lion-8bit", "paged 8-bit Lion", Bitsandbytes(LION, paged=True)),
        _bitsandbytes(
            "paged-lion-8bit-trainer", "paged 8-bit Lion (Trainer)", Bitsandbytes(LION, paged=True, trainer=True)
        ),
        _bitsandbytes("paged-lion-32bit", "paged 32-bit Lion", Bitsandbytes(LION, bits=32, paged=True)),
        _bitsandbytes("ademamix-8bit-trainer", "8-bit AdEMAMix (Trainer)", Bitsandbytes(ADEMAMIX, trainer=True)),
        _bitsandbytes("ademamix-32bit", "32-bit AdEMAMix", Bitsandbytes(ADEMAMIX, bits=32)),
        _bitsandbytes(
            "paged-ademamix-8bit-trainer",
            "paged 8-bit AdEMAMix (Trainer)",
            Bitsandbytes(ADEMAMIX, paged=True, trainer=True),
        ),
        _bitsandbytes("paged-ademamix-32bit", "paged 32-bit AdEMAMix", Bitsandbytes(ADEMAMIX, bits=32, paged=True)),
        Optimizer("muon", "Muon", _muon_states, _by_adamw, _newton_schulz, multiplies=True),
    )
}
"""Optimizers by name.

Those of 8 or 32 bits are bitsandbytes' but for torchao's; ``trainer`` is as transformers' Trainer sets them up, as it
does Adafactor. Lion is lion-pytorch's, Adafactor with momentum transformers', others PyTorch's.
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
"""Names that other libraries have for some of them."""


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


WIDE = StoredWeight("W", (4096, 4096), (4096, 4096), hidden=True, frozen=False)


def bytes_of_a_number(one: Optimizer, bits: int) -> float:
    """Bytes of states for each number of a wide matrix inside the model, where moments have this many bits.

    >>> round(bytes_of_a_number(optimizer("adamw-8bit"), 16), 4)  # a byte for each moment, and an fp32 scale for 256
    2.0312
    """
    paged = one.paged(WIDE, bits) if one.paged else ()
    return bits_held(tuple(item for item in (*one.state(WIDE, bits), *paged) if item.factors)) / 8 / WIDE.size


def states_in_words(name: str) -> str:
    """Name what an optimizer keeps.

    >>> states_in_words("adamw-fused"), states_in_words("sgd")
    ("AdamW's moments", 'states of SGD')
    """
    found = optimizer(name)
    return "AdamW's moments" if found.state is _moments else f"states of {found.label}"


def notes_on_optimizer(name: str) -> Iterator[str]:
    """Notes on the implementation, and on tensors that it treats in another way."""
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
    """Bits of these tensors, whose sizes have to be numbers."""
    return int(total(item.size * item.bits for item in items))  # type: ignore[call-overload, no-any-return]
