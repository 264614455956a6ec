"""Backends: the kernels that a library runs for a model's operations, in which order and on which tensors.

Each is one class, which says its ``name`` and ``label``, which models it ``runs``, and what of these it ``refuses``.
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


def backend(name: str) -> type[Transformers]:
    """Return the class of a backend, which is imported when it is asked for.

    >>> backend("fused").label
    'fused kernels'
    """
    module, _, kind = BACKENDS[name].partition(".")
    found: type[Transformers] = getattr(import_module(f"tfcalc.backends.{module}"), kind)
    return found
