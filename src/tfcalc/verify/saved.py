"""Tensors that autograd really saves, byte by byte and module by module: the live reference of the memory model.

The bytes are of unique storages, without parameters, buffers and the model's own inputs, whose memory is counted
elsewhere. They run under FakeTensorMode: on CPU tensors that hold no data, with CUDA's choices put onto them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tfcalc.named_tuple import NamedTuple
from tfcalc.verify.cuda_choices import cuda_choices

if TYPE_CHECKING:
    from transformers.utils import ModelOutput

LOSS = "<loss>"
"""Name of what the model itself saves, outside its modules."""


class Saved(NamedTuple):
    """Bytes by the module that ran: a block, the innermost module outside blocks (by their paths), or ``<loss>``.

    ``kernels`` says how often which fused or unfused kernel ran ``scaled_dot_product_attention``.
    """

    by_module: dict[str, int]
    total: int
    kernels: dict[str, int]

    @property
    def by_block(self) -> dict[str, int]:
        """Bytes by ``block0``, ``block1``, … for the blocks, those of two stacks with the same number together."""
        found: dict[str, int] = {}
        for path, size in self.by_module.items():
            number = path.rpartition(".")[2]
            name = f"block{number}" if number.isdecimal() else path
            found[name] = found.get(name, 0) + size
        return found


class _Packed:
    """A tensor as the graph holds it: as long as the operation that keeps it is part of the graph.

    What no gradient goes through, as a router's choice, is forgotten as soon as its result is.
    """

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def saved(
    model: nn.Module,
    inputs: Mapping[str, object],
    *,
    recipe: str = "fp32",
    kernel: str = "auto",
    loss: Callable[[ModelOutput], Tensor] | None = None,
    as_recorded: bool = False,
) -> Saved:
    """Tensors that a forward pass saves; ``loss`` makes the loss of the model's output (by default its own)."""
    running = _Running(model)
    before = [*model.parameters(), *model.buffers(), *tensors_of(inputs)]  # held, so that no address is used again
    apart = {_storage(one) for one in before}
    packed: list[tuple[str, ReferenceType[_Packed]]] = []

    def pack(tensor: Tensor) -> _Packed:
        held = _Packed(tensor.detach())  # a result that an operation keeps would keep the operation
        if _storage(tensor) not in apart:
            packed.append((running.name, ref(held)))
        return held

    with (
        cuda_choices(kernel, as_recorded=as_recorded) as ran,
        running,
        torch.autograd.graph.saved_tensors_hooks(pack, lambda held: held.tensor),
    ):
        found = forward(model, inputs, recipe, loss)
    by_module: dict[str, int] = {}
    counted: set[int] = set()
    for name, held in ((name, reference()) for name, reference in packed):
        if held is not None and _storage(held.tensor) not in counted:
            counted.add(_storage(held.tensor))
            by_module[name] = by_module.get(name, 0) + held.tensor.untyped_storage().nbytes()
    del found, before
    return Saved(by_module, sum(by_module.values()), dict(ran))


def forward(
    model: nn.Module, inputs: Mapping[str, object], recipe: str, loss: Callable[[ModelOutput], Tensor] | None = None
) -> Tensor:
    """The loss; what else the model gave is let go of."""
    region = torch.autocast("cpu", torch.bfloat16) if recipe == "autocast" else nullcontext()
    with region, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = model(**inputs)
    return out.loss if loss is None else loss(out)


def tensors_of(inputs: Mapping[str, object]) -> Iterator[Tensor]:
    """The tensors among the model's arguments."""
    return (one for one in inputs.values() if isinstance(one, torch.Tensor))


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def blocks(model: nn.Module) -> list[str]:
    """The paths of the blocks: what transformers can checkpoint in the outermost lists of modules.

    Where a model has none of these, every element of these lists is one.
    """
    return _elements(model, checkpointed=True) or _elements(model, checkpointed=False)


def _elements(model: nn.Module, checkpointed: bool) -> list[str]:
    found: list[str] = []
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and not any(path.startswith(f"{outer}.") for outer in found):
            is_block = [
                not checkpointed or any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(one).__mro__)
                for one in module
            ]
            found += [f"{path}.{index}" for index, block in enumerate(is_block) if block]
    return found


class _Running:
    """Says which module runs, by the names that the bytes are recorded under."""

    def __init__(self, model: nn.Module) -> None:
        self.stack = [LOSS]
        self.names: dict[nn.Module, str] = {}
        outermost = blocks(model)
        for path, module in model.named_modules():
            within = [block for block in outermost if f"{path}.".startswith(f"{block}.")]
            self.names[module] = within[0] if within else path or LOSS
        self.handles: list[RemovableHandle] = []

    @property
    def name(self) -> str:
        return self.stack[-1]

    def __enter__(self) -> None:
        for module, name in self.names.items():
            self.handles += [
                module.register_forward_pre_hook(lambda *_, name=name: self.stack.append(name)),
                module.register_forward_hook(lambda *_: self.stack.pop() and None),
            ]

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()
