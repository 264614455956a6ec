"""FLOPs of whole models as PyTorch's FlopCounterMode counted them (tests/oracle/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Workload, flops
from tfcalc.configs.published import HFModel

CONFIGS = json.loads((Path(__file__).parent / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
OTHER_LENGTH = {"t5-small": 96}
"""The target's length where the source has 128 and the row does not say (three quarters, as in the zoo's rows)."""


def named(row: dict[str, Any]) -> str:
    keys = ("model", "phase", "attention", "kernel", "use_reentrant", "dropout_zero", "batch", "seq", "cached")
    return "-".join(str(row[key]) for key in keys if key in row)


def kernel(row: dict[str, Any]) -> str:
    """The kernel that ran: sdpa chooses by itself."""
    return next(iter(row["kernels_run"])) if row["kernels_run"] else str(row["attention"])


@pytest.mark.parametrize("row", recorded("zoo.public.jsonl"), ids=named)
def test_a_training_step_is_counted_to_the_last_flop(row: dict[str, Any]) -> None:
    target = row.get("target_seq")  # of an encoder-decoder, where seq is the source's
    run = Workload(
        batch_size=row["batch"],
        seq_len=target or row["seq"],
        source_len=row["seq"] if target else None,
        phase="train",
        kernel=kernel(row),
        convolutions="counter",
    )
    totals = flops(HFModel(CONFIGS[row["model"]]), run).totals
    assert totals["forward_flops"] == row["forward_flops"]
    assert totals["backward_flops"] == row["backward_flops"]
    assert totals["total_flops"] == row["total_flops"]


@pytest.mark.parametrize("row", recorded("decode.public.jsonl"), ids=named)
def test_prefill_and_decode_are_counted_to_the_last_flop(row: dict[str, Any]) -> None:
    if row["phase"] == "decode":
        run = Workload(batch_size=row["batch"], cached=row["cached"], phase="decode")
    else:
        run = Workload(batch_size=row["batch"], seq_len=row["seq"], phase="prefill", logits="last")
    assert flops(HFModel(CONFIGS[row["model"]]), run).answer == row["forward_flops"]


@pytest.mark.parametrize("row", recorded("checkpointed.public.jsonl"), ids=named)
def test_recomputation_is_counted_to_the_last_flop(row: dict[str, Any]) -> None:
    other = OTHER_LENGTH.get(row["model"])
    run = Workload(
        batch_size=row["batch"],
        seq_len=other or row["seq"],
        source_len=row["seq"] if other else None,
        phase="train",
        kernel=row["kernel"],
        recompute="full",
        early_stop=not row["use_reentrant"],
        dropout=not row["dropout_zero"],
        convolutions="counter",
    )
    totals = flops(HFModel(CONFIGS[row["model"]]), run).totals
    assert totals["model_flops"] == row["total_without"]
    assert totals["recompute_flops"] == row["recompute_flops"]
    assert totals["total_flops"] == row["total_flops"]
