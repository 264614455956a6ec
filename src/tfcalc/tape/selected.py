"""Selective checkpointing by operation: results of a layer that are saved instead of being recomputed.

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
"""Kernels of a linear map without a bias; one with a bias runs ``addmm``, and is recomputed."""


class SavedResult(NamedTuple):
    """The result of an operation, and other tensors that its kernel made (``beside``)."""

    made: Tensor
    beside: tuple[Tensor, ...]


class Selected:
    """Results saved in forward, and reused when the layer reruns.

    These are every other matrix product from the first, fused attention, and reduce-scattered sums.
    """

    def __init__(self) -> None:
        self.results: list[SavedResult] = []
        self.products = 0
        self.chosen = False
        self.node: Node | None = None
        """The checkpoint that saves them, once the layer reruns."""

    def of(self, call: Call) -> Storage | None:
        """Return the saved result of an operation that is about to rerun; None if it is computed."""
        self.chosen = self._chooses(call)
        return self._read(self.node) if self.chosen and self.node is not None else None

    def ran(self, call: Call, made: Tensor) -> None:
        """Save the result of a chosen operation in the forward pass."""
        if self.chosen and self.node is None:
            made.trace.belongs(made)
            self.results.append(SavedResult(made, tuple(saved for saved in call.saves if saved not in call.inputs)))

    @property
    def kept(self) -> list[Tensor]:
        """All saved tensors."""
        return [tensor for result in self.results for tensor in (result.made, *result.beside)]

    def begins_again(self, node: Node) -> None:
        """Begin the rerun of the layer in backward."""
        self.node, self.products = node, 0

    def _chooses(self, call: Call) -> bool:
        if call.ran == PRODUCTS:
            self.products += 1
            return self.products % 2 == 1
        return call.name in WHOLE

    def _read(self, node: Node) -> Storage:
        """Return the next saved result, and hand its ownership from the checkpoint to the operations that read it.

        The checkpoint itself keeps the last one: recomputation stops before it, as nothing behind it is saved.
        """
        result, *self.results = self.results
        if self.results:
            for tensor in (result.made, *result.beside):
                node.saved.remove(tensor.storage)
                tensor.storage.release()
        return result.made.storage
