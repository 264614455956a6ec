"""What a checkpoint by operations keeps of a layer, so that it is not computed again.

Source: torchtitan's ``_save_list`` and its policy "all but every second mm" (activation_checkpoint.py;
parallelize_llama.py in 2024); torch.utils.checkpoint.create_selective_checkpoint_contexts.
"""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.tape.call import Call
from tfcalc.tape.memory_tracker import Storage
from tfcalc.tape.tensor import Tensor
from tfcalc.tape.value import Node

WHOLE = ("fused_attention", "reduce_scatter")
PRODUCTS = ("mm",)
"""Kernels of a linear map without a bias; others are no ``mm``, and are computed again."""


class Result(NamedTuple):
    """What an operation has made, and what its kernel has made ``beside`` that."""

    made: Tensor
    beside: tuple[Tensor, ...]


class Selected:
    """What is kept in forward, and read when a layer runs again.

    That is every other matrix product from the first, fused attention, and what a device has of sums over several.
    """

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.products = 0
        self.chosen = False
        self.node: Node | None = None
        """The checkpoint that keeps them, once the layer runs again."""

    def of(self, call: Call) -> Storage | None:
        """What is kept of an operation that is about to run; None: it is computed."""
        self.chosen = self._chooses(call)
        return self._read(self.node) if self.chosen and self.node is not None else None

    def ran(self, call: Call, made: Tensor) -> None:
        """Keep it, where it is one of those, and this is forward."""
        if self.chosen and self.node is None:
            made.trace.belongs(made)
            self.results.append(Result(made, tuple(each for each in call.saves if each not in call.inputs)))

    @property
    def kept(self) -> list[Tensor]:
        """All of it."""
        return [each for result in self.results for each in (result.made, *result.beside)]

    def begins_again(self, node: Node) -> None:
        """Backward has come to the layer."""
        self.node, self.products = node, 0

    def _chooses(self, call: Call) -> bool:
        if call.ran == PRODUCTS:
            self.products += 1
            return self.products % 2 == 1
        return call.name in WHOLE

    def _read(self, node: Node) -> Storage:
        """The first that is left, which what reads it keeps from now on.

        The last one stays in the checkpoint: recomputation stops before it, as nothing behind it is saved.
        """
        result, *self.results = self.results
        if self.results:
            for each in (result.made, *result.beside):
                node.saved.remove(each.storage)
                each.storage.release()
        return result.made.storage
