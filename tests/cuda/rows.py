"""What was recorded, as rows of the kind of tests/oracle/memory/real-runs.jsonl."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tests.cuda.settings import Setting

GROUP = "tests/cuda"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it ran."""

    card: str
    torch: str
    cuda: str
    transformers: str
    driver: str

    @property
    def source(self) -> str:
        return f"tests/cuda: PyTorch {self.torch}, CUDA {self.cuda}, transformers {self.transformers}, {self.driver}"


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes of one run.

    Attributes:
        allocated: ``torch.cuda.max_memory_allocated`` of a step after the first.
        reserved: ``torch.cuda.max_memory_reserved`` of the whole run.
        card: what ``nvidia-smi`` shows at the end, less what it showed before the process used CUDA.
        saved: what autograd holds after the forward pass, by saved_tensors_hooks; None with checkpointing.
        softmax_backward: what softmax's backward allocates beside its result, for scores of this run's size.
        step_seconds: a step of optimization, the middle of several after the first three; from ``quickest`` to
            ``slowest``.
    """

    allocated: int
    reserved: int
    card: int
    saved: int | None
    softmax_backward: int
    step_seconds: float
    quickest: float
    slowest: float


def rows(setting: Setting, measured: Measured, machine: Machine) -> Iterator[dict[str, Any]]:
    """One row for each quantity that tfcalc predicts, each with all that was measured."""
    quantities = {
        "allocated": measured.allocated,
        "reserved": measured.reserved,
        "nvidia-smi": measured.card,
        "saved": measured.saved,
    }
    for quantity, size in quantities.items():
        if size is not None:
            yield {
                "group": GROUP,
                "source": machine.source,
                "run": f"{setting.name}, {quantity}",
                "card": machine.card,
                "quantity": quantity,
                "unit": "bytes",
                "measured": size,
                "arguments": [*setting.arguments, "--gpu", machine.card],
                "all_measured": asdict(measured),
            }


def used_mib(text: str) -> int:
    """MiB that ``nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits`` prints of the first card.

    >>> used_mib("1343\\n5\\n")
    1343
    """
    return int(text.split()[0])
