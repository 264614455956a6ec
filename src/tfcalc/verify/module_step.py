"""Memory of a training step of a person's module, as PyTorch's own tracker counts it without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from tfcalc.verify.module_inputs import Input, results
from tfcalc.verify.module_load import made

KINDS = {
    "Parameter": "parameters",
    "Buffer": "buffers",
    "Gradient": "gradients",
    "Optstate": "optimizer",
    "Activation": "activations",
    "Temp": "temporary",
}
"""The tracker's kinds of memory, and our names of them; what else there is are inputs."""
INPUTS, OPTIMIZER = "inputs", "AdamW, one tensor after another"


def step_of(kind: type, request: Mapping[str, Any], inputs: Sequence[Input]) -> dict[str, Any]:
    """Bytes of each kind at the peak of a step, and the phase of it; the step after the first, which has all states.

    The class is made once more, on CPU tensors that hold no data, in training mode. Its loss is the sum of its outputs.
    Raises what the class, or PyTorch without data, raises.
    """
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cpu"):
        module: nn.Module = made(kind, request["positional"], request["named"])
        module.train()
        tensors = [one.tensor() for one in inputs]
        trained = [one for one in module.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(trained, foreach=False) if trained else None
        _step(module, tensors, optimizer, None)
        tracker = MemTracker()
        tracker.track_external(
            module, *([optimizer] if optimizer else []), *(one for one in tensors if one is not None)
        )
        with tracker:
            peaks = _step(module, tensors, optimizer, tracker)
        found = _by_kind(tracker)
    last = peaks[-1][1]
    return {
        "peak": last,
        "phase": next(phase for phase, bytes_ in peaks if bytes_ == last),
        "optimizer": OPTIMIZER,
        "bytes": found,
    }


def _step(
    module: nn.Module, tensors: Sequence[Tensor | None], optimizer: torch.optim.Optimizer | None, tracker: Any
) -> list[tuple[str, int]]:
    """Run a step, and return the highest total so far after each phase, if something tracks it."""
    peaks: list[tuple[str, int]] = []

    def note(phase: str) -> None:
        if tracker is not None:
            peaks.append((phase, _total(tracker)))

    losses = [one.float().sum() for _, one in results(module(*tensors)) if one.requires_grad]
    loss = torch.stack(losses).sum() if len(losses) > 1 else losses[0] if losses else None
    del losses
    note("forward")
    if loss is not None:
        loss.backward()
    del loss
    note("backward")
    if optimizer is not None:
        optimizer.step()
        note("optimizer")
        optimizer.zero_grad()
    return peaks


def _snapshot(tracker: Any) -> Mapping[Any, int]:
    (found,) = tracker.get_tracker_snapshot("peak").values()
    return dict(found)


def _total(tracker: Any) -> int:
    return int(_snapshot(tracker)["Total"])


def _by_kind(tracker: Any) -> dict[str, int]:
    sizes = {getattr(key, "value", key): int(size) for key, size in _snapshot(tracker).items()}
    total = sizes.pop("Total")
    found = {name: sizes.get(kind, 0) for kind, name in KINDS.items()}
    return {**found, INPUTS: total - sum(found.values())}
