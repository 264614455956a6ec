"""The bytes of the storages that there are, counted from the operation that makes each until nothing refers to it."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Live(TorchDispatchMode):  # type: ignore[misc]
    """Adds up the storages that there are, from the moment that an operation makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, int] = {}
        self.bytes = self.most = 0
        self.looks = True

    def see(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.known:
            self.known[key] = storage.nbytes()
            self.bytes += self.known[key]
            self.most = max(self.most, self.bytes)
            weakref.finalize(storage, self.gone, key)

    def gone(self, key: int) -> None:
        self.bytes -= self.known.pop(key)

    def peak(self) -> int:
        """The most since this was asked last."""
        most, self.most = self.most, self.bytes
        return most

    def __torch_dispatch__(self, operation: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = operation(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, Tensor) and self.looks:
                self.see(each)
        return made
