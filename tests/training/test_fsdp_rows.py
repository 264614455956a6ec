"""A step of FSDP2, phase by phase, beside what PyTorch's FSDPMemTracker recorded.

``python -m tests.verify.fsdp_peaks`` made the rows, with torch 2.13 on a CPU, in a group of processes that are not
there (the ``fake`` backend).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfcalc import Workload, memory
from tfcalc.configs.published import HFModel
from tfcalc.plans import Training

ROWS = [json.loads(line) for line in Path("tests/oracle/memory/fsdp.jsonl").read_text(encoding="utf-8").splitlines()]


def timeline(row: dict[str, Any], layout: str = "fsdp2") -> dict[str, dict[str, int]]:
    """Ours, by phase."""
    run = Workload(
        phase="train",
        batch_size=row["batch"],
        seq_len=row["seq"],
        kernel="eager",
        recompute="full" if row["checkpointing"] else "none",
    )
    plan = Training(
        precision=row["precision"],
        optimizer="adamw",
        device="recorded",
        zero="3",
        gpus=row["devices"],
        layout=layout,
        grad_accum=row["micro_batches"],
    )
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": row["vocab"],
        "hidden_size": row["width"],
        "intermediate_size": 3 * row["width"],
        "num_hidden_layers": row["layers"],
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": row["width"] // 4,
        "tie_word_embeddings": False,
    }
    found: Any = memory(HFModel(config), run, training=plan).more["timeline"]
    return {phase["phase"]: phase for phase in found}


def name(row: dict[str, Any]) -> str:
    """``9-96-bf16-fsdp-4``, and what else there is."""
    more = "-checkpointing" * row["checkpointing"] + "-accumulated" * (row["micro_batches"] > 1)
    return f"{row['layers']}-{row['vocab']}-{row['precision']}-{row['devices']}{more}"


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_each_phase_of_fsdp_peaks_where_pytorch_has_it(row: dict[str, Any]) -> None:
    ours, theirs = timeline(row), row["peaks"]
    ours["forward"] = max(ours["forward"], ours.pop("loss"), key=lambda phase: phase["peak_bytes"])
    for phase in ours:
        nearly = 0.01 if row["checkpointing"] and phase == "forward" else 2e-4  # of small models: no kernel's workspace
        assert ours[phase]["peak_bytes"] == pytest.approx(theirs[phase]["Total"], rel=nearly), phase


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_other_devices_lend_is_what_pytorch_lends(row: dict[str, Any]) -> None:
    """At the peak of backward: unsharded weights, buffers of both messages; and the pieces of gradients."""
    ours, theirs = timeline(row)["backward"], row["peaks"]["backward"]
    lent = sum(theirs.get(kind, 0) for kind in ("Unsharded Param", "All Gather", "Reduce Scatter"))
    assert ours["gathered_bytes"] == lent
    assert ours["gradients_bytes"] == theirs.get("Sharded Grad", 0)


def test_fsdp1_keeps_no_buffers_beside_the_weights() -> None:
    """Its weights are gathered where they stay, so that it holds less than FSDP2 by one unit in forward."""
    row = next(row for row in ROWS if row["layers"] == 9 and row["precision"] == "fp32")
    first, second = timeline(row, "fsdp1")["forward"], timeline(row)["forward"]
    unit = 4 * (128 * 128 * 2 + 2 * 128 * 64 + 3 * 128 * 384 + 2 * 128)
    assert second["gathered_bytes"] - first["gathered_bytes"] == 2 * unit
