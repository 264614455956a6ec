"""Backends: the kernels that a library runs for a model's operations, in which order and on which tensors.

Each is one class, which says its ``name`` and ``label``, which models it ``runs``, what of these it ``refuses``, and
what was ``compared`` with it. Nobody else asks for a backend by its name: what differs is a field of the class.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfcalc.backends.transformers import Transformers

BACKENDS = {
    "transformers": "transformers.Transformers",
    "torch": "torch_nn.TorchNN",
    "fused": "fused.Fused",
    "torchtune": "torchtune.Torchtune",
    "megatron": "megatron.Megatron",
    "megatron-2022": "megatron.Megatron2022",
}
"""Module and class of each backend, by its name for ``--backend``; "auto" is the first that runs a model."""


SAVED, WITH_COMPILE, WITH_METHODS, WITH_LOSSES, WITH_TP = "saved", "--compile", "--method", "--loss", "--tp"
"""What may have been compared with the code of a backend: what its layers save, and that with options of a plan."""


def backend(name: str) -> type[Transformers]:
    """Return the class of a backend, which is imported when it is asked for; of "auto" that of the first.

    >>> backend("fused").label
    'fused kernels'
    """
    module, _, kind = BACKENDS.get(name, next(iter(BACKENDS.values()))).partition(".")
    found: type[Transformers] = getattr(import_module(f"tfcalc.backends.{module}"), kind)
    return found
