"""Bytes that FSDP2 gathers, by stages, replicas and pipelines, against PyTorch's FSDPMemTracker, which runs here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

import tfcalc
from tests.timing.fsdp_memory import SIZES
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of

WHY = "transformers is not installed: pip install transformers"
pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("transformers") is None, reason=WHY)]

CASES: list[dict[str, Any]] = [
    {"vocab_size": vocabulary, "tie_word_embeddings": tied, "zero": zero, "replicas": replicas, "pipeline": pipeline}
    for vocabulary, tied, zero, replicas, pipeline in (
        (256, False, 3, 1, False),
        (8000, False, 3, 1, False),
        (8000, True, 3, 1, False),
        (256, False, 3, 2, False),
        (256, False, 2, 1, False),
        (8000, False, 2, 1, False),
        (8000, True, 2, 1, False),
        (256, False, 2, 4, False),
        (256, False, 2, 1, True),
    )
]


def test_what_is_gathered_is_what_pytorch_has() -> None:
    """Two tokens, on 8 GPUs, the third micro-batch of a second step: states, and what is gathered at the peak.

    In a pipeline the shards of gradients are made behind the last micro-batch, in the place of their sums.
    """
    words = [sys.executable, "-m", "tests.timing.fsdp_memory", json.dumps(CASES)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    for case, seen in zip(CASES, json.loads(done.stdout), strict=True):
        sizes = SIZES | {name: case[name] for name in ("vocab_size", "tie_word_embeddings")}
        work, shards = work_of(tfcalc.from_config({"model_type": "llama", **sizes}), 2), 8 // case["replicas"]
        at = Layouts(dp=8, shards=shards, zero=case["zero"], batches=4)
        found = float(DeviceMemory(work, at, fsdp=True).peak)
        if case["pipeline"]:  # all layers are on the one GPU that runs
            here = at._replace(pp=2, stages=((4,), (0,), (4,)))
            memory = DeviceMemory(work, here, fsdp=True)
            embedding = work.vocabulary * work.width  # which the last stage does not have
            found = float(memory.moments(last=True)[0].bytes) + (16 / 8 + 2 + 4 * 7 / 8) * embedding
        assert found == pytest.approx(seen, rel=0.01), case
