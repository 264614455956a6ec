"""The most memory a step needs, by PyTorch's own tracker: a training step, or inference, on tensors without data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.distributed._tools.mem_tracker import MemTracker

from tfcalc.verify.cuda_choices import cuda_choices
from tfcalc.verify.saved import forward, tensors_of

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adamw": lambda weights: torch.optim.AdamW(weights, foreach=True),
    "adamw_fused": lambda weights: torch.optim.AdamW(weights, fused=True),
    "adamw_forloop": lambda weights: torch.optim.AdamW(weights, foreach=False),
    "adam": lambda weights: torch.optim.Adam(weights, foreach=True),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=1e-3, foreach=True),
    "sgd_mom": lambda weights: torch.optim.SGD(weights, lr=1e-3, momentum=0.9, foreach=True),
}
"""Asked for by their implementation, which is chosen by the device otherwise."""

Bytes = dict[str, int]
"""By kind (Parameter, Gradient, Activation, Temp, Optstate, Buffer, Other) and their Total."""


class Peaks(NamedTuple):
    """What the tracker saw at the start, and after and at most within forward, backward and the optimizer's step."""

    phases: dict[str, Bytes]
    kernels: dict[str, int]
    loss_bytes: int

    @property
    def phase(self) -> str:
        """When most was held."""
        return max((name for name in self.phases if name.endswith("_peak")), key=lambda name: self.total(name))

    @property
    def most(self) -> int:
        """The most that was held."""
        return self.total(self.phase)

    def total(self, phase: str) -> int:
        """All that is held then."""
        return self.phases[phase]["Total"]


def peaks(
    model: Any,
    inputs: Mapping[str, Any],
    *,
    recipe: str = "fp32",
    kernel: str = "auto",
    optimizer: str = "adamw",
    loss: Callable[[Any], Any] | None = None,
    as_recorded: bool = False,
) -> Peaks:
    """A training step in steady state: the optimizer has its state, the gradients are let go of.

    ``optimizer`` is one of OPTIMIZERS or ``none``. Checkpointing is the model's own
    (``gradient_checkpointing_enable``).
    """
    steps = _in_steady_state(model, optimizer)
    tracker = MemTracker()
    given = [*tensors_of(inputs)]
    tracker.track_external(model, *([steps] if steps else []), *given)
    phases: dict[str, Bytes] = {}
    with cuda_choices(kernel, as_recorded=as_recorded) as ran, tracker:
        phases["start"] = now(tracker)
        from_now(tracker)
        found = forward(model, inputs, recipe, loss)
        phases |= {"fwd_end": now(tracker), "fwd_peak": most(tracker)}
        from_now(tracker)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of modules that are gone: their own peaks are not asked for
            found.backward()
        phases |= {"bwd_end": now(tracker), "bwd_peak": most(tracker)}
        from_now(tracker)
        if steps:
            steps.step()
        phases |= {"step_end": now(tracker), "step_peak": most(tracker)}
    model.zero_grad(set_to_none=True)
    return Peaks(phases, dict(ran), found.untyped_storage().nbytes())


def _in_steady_state(model: Any, name: str) -> Any:
    """The optimizer after its first step."""
    if name == "none":
        return None
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    steps = OPTIMIZERS[name](weights)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    steps.step()
    steps.zero_grad(set_to_none=True)
    return steps


def now(tracker: Any) -> Bytes:
    """What is held."""
    return _sizes(tracker.get_tracker_snapshot("current"))


def most(tracker: Any) -> Bytes:
    """What was held when most was."""
    return _sizes(tracker.get_tracker_snapshot("peak"))


def from_now(tracker: Any) -> None:
    """The next peak is of what follows."""
    tracker._peak_mem_snap = tracker.get_tracker_snapshot("current")
    tracker._peak_mem = {device: kinds["Total"] for device, kinds in tracker._peak_mem_snap.items()}


def _sizes(snapshot: Any) -> Bytes:
    found: Bytes = {}
    for kinds in snapshot.values():
        for kind, size in kinds.items():
            name = getattr(kind, "value", kind)
            if size:
                found[name] = found.get(name, 0) + size
    return found
