"""Counts the collective operations of a program that PyTorch runs on a CPU, as one rank of any number.

Process groups are PyTorch's fake ones: nothing is sent, and what is received is whatever is there.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


class Sends(TorchDispatchMode):
    """Counts collective operations: name, number of ranks, bytes of the whole message."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Counter[tuple[str, int, int]]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Note what c10d is asked for, and let it run."""
        name = func._schema.name.split("::")[1]
        if func.namespace in ("c10d", "_c10d_functional") and name not in ("wait_tensor", "_wrap_tensor_autograd"):
            size = max(each.numel() * each.element_size() for each in tensors_of(args))
            self.seen[name, ranks_of(args), size] += 1
        return func(*args, **(kwargs or {}))

    @property
    def rows(self) -> list[list[Any]]:
        """Name, ranks, bytes, and how often."""
        return [[*key, times] for key, times in self.seen.items()]


def tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors of an argument."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_of(each)


def ranks_of(args: tuple[Any, ...]) -> int:
    """Return the number of ranks of the group among the arguments, which may be given by its name."""
    for each in args:
        if isinstance(each, torch.ScriptObject) and "ProcessGroup" in str(each._type()):
            return int(dist.distributed_c10d.ProcessGroup.unbox(each).size())
    return int(dist.get_world_size())


@contextmanager
def rank_of_many(world: int, rank: int = 0) -> Iterator[None]:
    """Be one of so many ranks, of which no other is there."""
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()
