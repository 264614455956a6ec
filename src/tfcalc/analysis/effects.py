"""Which fields of a workload change an answer: one that is given and changes nothing is refused."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from tfcalc.dimensions import facet
from tfcalc.errors import UsageError
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Collection

    from tfcalc.model import Model

TRAINING = frozenset({"batch_size", "seq_len", "source_len", "phase", "kernel", "recompute", "dropout"})
"""What changes the memory of a training step."""
MEGATRON = TRAINING - {"kernel", "source_len"}
"""The same of Megatron-LM's: its paper has one kind of attention, in a stack that reads one sequence."""
SERVING = frozenset({"seq_len", "source_len", "kernel"})
"""What changes the memory of serving; its plan has the rest."""
PAGED_SERVING = SERVING - {"kernel"}
"""The same with a paged cache, which has kernels of its own."""
REMEDIES = {
    "cached": "give --context",
    "batch_size": "give --concurrency",
    "phase": "leave it out",
}
"""What to say in serving instead."""


def refuse_idle(workload: Workload, effective: Collection[str], where: str) -> None:
    """Raise UsageError for a field that is not at its default and changes nothing ``where`` it is given."""
    instead = REMEDIES if effective in (SERVING, PAGED_SERVING) else {}
    for item in fields(workload):
        value = getattr(workload, item.name)
        if value != item.default and item.name not in effective:
            raise idle_error(item.name, value, where, instead.get(item.name, ""))


def refuse_idle_source(model: Model, workload: Workload) -> None:
    """Raise UsageError for a source's length of a model that reads no source."""
    if workload.source_len is not None and not _changes(model, workload, "source_len"):
        raise idle_error("source_len", workload.source_len, f"in {model.summary}", "it reads no source; leave it out")


IN_BACKWARD = ("kernel", "dropout", "input_gradient", "convolutions")
"""What changes the FLOPs of a backward pass alone."""
STRUCTURAL = ("latent", "experts", "source_len")
"""What changes the FLOPs of models that have such a part."""
OF_FLOPS = (*IN_BACKWARD, *STRUCTURAL, "seq_len", "attention", "logits", "recompute", "early_stop")
"""What may change FLOPs, or may not: by the model, the phase, and what else is asked for."""


def refuse_idle_in_flops(model: Model, workload: Workload) -> None:
    """Raise UsageError for a part of models that the workload has another way of, where this model has no such part."""
    for item in fields(workload):
        value = getattr(workload, item.name)
        if item.name in STRUCTURAL and value != item.default and not _changes(model, workload, item.name):
            raise idle_error(item.name, value, f"on the FLOPs of {model.summary}")


def _changes(model: Model, workload: Workload, name: str) -> bool:
    """Whether a field makes another tree than its default, at a length at which it might."""
    default = next(item.default for item in fields(workload) if item.name == name)
    probe = workload if workload.decoding else workload.replaced(seq_len=workload.seq_len + 1)
    other = {name: probe.seq_len + 1 if name == "source_len" else default}
    return model.tree(probe) != model.tree(probe.replaced(**other))


def idle_error(name: str, value: object, where: str, remedy: str = "") -> UsageError:
    """``--experts all has no effect on the memory of training; leave it out``."""
    flag = next(known.flags[0] for item in fields(Workload) if item.name == name and (known := facet(item)))
    called = flag.split("/")[value is False] if isinstance(value, bool) else f"{flag} {value}"
    return UsageError(f"{called} has no effect {where}", remedy or "leave it out")
