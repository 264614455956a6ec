"""Peak of a training step: its phase, and what is live then. Only what is live at once is added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfcalc.tape.memory_tracker import MemorySnapshot

FORWARD, LOSS, BACKWARD, STEP = "forward", "loss", "backward", "step"


class ResidentBytes(NamedTuple):
    """Bytes allocated during the whole step: states, buffers, workspaces, outputs of the loop, DDP's buckets."""

    weights: int
    master: int
    optimizer: int
    buffers: int
    workspaces: int
    outputs: int
    communication: int = 0


class Phase(NamedTuple):
    """Peak of one phase: resident bytes, gradients, saved tensors that backward still needs, and temporary buffers.

    ``gathered`` are weights of other devices. ``live`` is what is on the tape: activations, temporary, and the
    gradients that it has made.
    """

    name: str
    standing: int
    gradients: int
    activations: int
    gathered: int
    temporary: int
    live: int = 0

    @property
    def total(self) -> int:
        """All that is live then."""
        return self.standing + self.gradients + self.activations + self.gathered + self.temporary


def phases(
    standing: ResidentBytes,
    gradients: int,
    moments: Mapping[str, MemorySnapshot],
    gathered: int,
    step_temporary: int,
    *,
    gradients_resident: bool,
    stepped: bool = False,
) -> list[Phase]:
    """Forward, loss, backward and optimizer step, each at its peak.

    ====================  =====================================================================
    forward, loss         resident + activations so far + temporary
    backward              resident + gradients so far + activations still needed + temporary
    step                  resident + all gradients + the step's temporary
    ====================  =====================================================================

    ``gradients_resident``: gradients are live during the whole step, as they are accumulated over micro-batches, or
    have permanent buffers; otherwise backward allocates them, and they are freed after the step. Where parameters have
    been ``stepped`` in backward, there is no other step.

    Source: torch.distributed._tools.mem_tracker.MemTracker has these phases in a steady state: the optimizer's states
    exist, gradients are freed after each step.
    """
    base, before = sum(standing), gradients if gradients_resident else 0
    found = [
        Phase(
            name,
            base,
            before + moment.gradients,
            moment.saved,
            gathered + moment.gathered,
            moment.temporary,
            moment.total,
        )
        for name, moment in moments.items()
    ]
    return found if stepped else [*found, Phase(STEP, base, gradients, 0, 0, step_temporary)]


def highest(found: list[Phase]) -> Phase:
    """Phase with the highest peak; of equal ones the first."""
    return max(found, key=lambda phase: phase.total)
