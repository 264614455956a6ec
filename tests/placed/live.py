"""What the tests need that run Megatron-core and PyTorch beside tfcalc."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

Case = dict[str, Any]
CALLED = {
    "allreduce_": "all-reduce",
    "allreduce_coalesced_": "all-reduce",
    "_allgather_base_": "all-gather",
    "allgather_into_tensor_coalesced_": "all-gather",
    "_reduce_scatter_base_": "reduce-scatter",
    "reduce_scatter_tensor_coalesced_": "reduce-scatter",
    "alltoall_base_": "all-to-all",
    "all_to_all_single": "send",
    "send": "send",
}
"""Names of c10d's operations. A ring's exchange is an all-to-all, of which each rank sends all to the next one."""
LEFT_OUT = ("recv_", "broadcast_")
"""The other end of a send, and DDP's buffers, once at the beginning."""


def answers_of(program: str, cases: list[Case]) -> list[Any]:
    """What a program answers to each case, in a process of its own."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([sys.executable, "-m", program], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_called(seen: list[list[Any]]) -> Counter[tuple[str, int, int]]:
    """These operations in tfcalc's words: name, ranks and bytes of each, and how often; between two ranks or more."""
    found = Counter[tuple[str, int, int]]()
    for name, devices, size, times in seen:
        if devices > 1 and name not in LEFT_OUT:
            found[CALLED[name], 2 if name == "send" else devices, size] += times
    return found
