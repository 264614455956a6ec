"""Live: the memory of a step under PyTorch's DistributedDataParallel, beside that of the same step without it.

A group of one process has the buckets of any other: torch/csrc/distributed/c10d/reducer.cpp (initialize_buckets) asks
for the weights alone.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.torch


def held(shared: bool, view: bool = False) -> dict[str, int]:
    """After and at most within forward and backward of the third step; the second one rebuilds the buckets."""
    from torch.distributed._tools.mem_tracker import MemTracker

    from tests.verify.peaks import from_now, most, now

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model: torch.nn.Module = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
        numbers = list(model.parameters())
        x, tracker = torch.zeros(4, 256), MemTracker()
        tracker.track_external(model, x)
        found: dict[str, int] = {}
        with tracker:
            if shared:
                model = DistributedDataParallel(model, gradient_as_bucket_view=view)
            for _ in range(3):
                tracker.reset_mod_stats()
                from_now(tracker)
                loss = model(x).sum()
                found["forward"] = now(tracker)["Total"]
                loss.backward()
                del loss
                found |= {"backward": now(tracker)["Total"], "peak": most(tracker)["Total"]}
                for weight in numbers:
                    weight.grad = None
            found["after"] = now(tracker)["Total"]
    finally:
        dist.destroy_process_group()
    return found


GRADIENTS = 4 * 8 * (256 * 256 + 256)


def test_buckets_are_as_large_as_all_gradients_from_one_step_to_the_next() -> None:
    alone, shared = held(shared=False), held(shared=True)
    for moment in alone:
        assert shared[moment] - alone[moment] == pytest.approx(GRADIENTS, rel=0.01), moment


def test_gradients_that_are_views_of_buckets_take_no_more_once_they_are_there() -> None:
    alone, shared = held(shared=False), held(shared=True, view=True)
    assert shared["forward"] - alone["forward"] == pytest.approx(GRADIENTS, rel=0.01)
    assert shared["backward"] - alone["backward"] == pytest.approx(0, abs=GRADIENTS // 100)
    assert shared["after"] - alone["after"] == pytest.approx(GRADIENTS, rel=0.01)
