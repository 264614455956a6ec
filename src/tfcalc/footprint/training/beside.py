"""What stands in memory beside the states of training: buffers and inputs, workspaces, what the loop holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.footprint.training.placement import NOTHING
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.memory_tracker import Found

KIB = 1024
SMALL, LARGE = 2 * 4096 * KIB + 8 * 16 * KIB, 8 * 4096 * KIB
"""Bytes of a workspace: two blocks of 4 MiB and eight of 16 KiB, or eight of 4 MiB."""
LARGE_SINCE = ("9.", "10.", "12.")
"""The compute capabilities, by their beginnings, of GPUs that have the large one: Hopper and Blackwell."""
THREADS = ("forward", "backward")
"""What the threads run that have a handle each: the program's own, and autograd's."""


class Beside(NamedTuple):
    """What stands beside the states: buffers and token ids, cuBLAS's workspaces, and outputs that the loop holds."""

    buffers: Component
    workspaces: Component = NOTHING
    outputs: Component = NOTHING


def workspaces(capability: str) -> Component:
    """Those that PyTorch gives to cuBLAS and cuBLASLt, which share them, from the first product to the last.

    They are blocks of its allocator, one for each handle and stream, and each thread has a handle of its own. Where
    nothing is known of the GPU, they are taken for small ones.

    Source: PyTorch 2.13, aten/src/ATen/cuda/CublasHandlePool.cpp (``parseChosenWorkspaceSize``,
    ``setWorkspaceForHandle``, ``getCUDABlasLtWorkspace``) and detail/DeviceThreadHandles.h.
    """
    size = LARGE if capability.startswith(LARGE_SINCE) else SMALL
    held = tuple(Held(f"cuBLAS's, in {thread}", (size,), 8) for thread in THREADS)
    return Component("workspaces", "workspaces", Cost(held=held))


def outputs(made: Sequence[Found]) -> Component:
    """What a model returns, as long as a variable of the training loop refers to it: all the time.

    In backward and in the optimizer's step it is that of this step; in forward, until the model returns and the
    variable is given its new value, that of the step before.
    """
    held = tuple(Held(one.label, one.shape, 8 * WIDTHS[one.dtype]) for one in made)
    return Component("outputs", "outputs", Cost(held=held))
