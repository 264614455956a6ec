"""What autograd keeps and the most that is live, held against recorded training steps (tests/oracle/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Workload
from tfcalc.backends.program import program
from tfcalc.configs.published import HFModel
from tfcalc.core.number import total
from tfcalc.tape.interpreter import Numerics

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
RECORDED = Numerics(aligned_masks=False, traced=True)  # without data, on a CPU
NUMERICS = {
    "fp32": RECORDED,
    "bf16 (pure)": RECORDED._replace(weights="bfloat16", statistics="bfloat16"),  # CUDA keeps them in fp32
    "fp32 weights, CUDA bf16 autocast": RECORDED._replace(autocast="bfloat16"),
}
RECOMPUTED = {None: "none", "nonreentrant": "full", "reentrant": "full"}
POSITIONS = ("n_positions", "max_position_embeddings")
ROWS = recorded("memory/training.public.jsonl")


def named(row: dict[str, Any]) -> str:
    keys = ("model", "batch", "seq", "recipe", "attention", "recompute", "optimizer", "zero_dropout")
    return "-".join(str(row[key]) for key in keys)


def model(row: dict[str, Any]) -> HFModel:
    """The recorded model, with as many positions as were read."""
    config = dict(CONFIGS[row["model"]])
    return HFModel(config | {name: max(config[name], row["seq"]) for name in POSITIONS if name in config})


def workload(row: dict[str, Any]) -> Workload:
    """The recorded step; sdpa chooses its kernel by itself. A decoder got half as many tokens as its encoder."""
    target = row["seq"] // 2 if CONFIGS[row["model"]].get("is_encoder_decoder") else None
    return Workload(
        phase="train",
        batch_size=row["batch"],
        seq_len=target or row["seq"],
        source_len=row["seq"] if target else None,
        kernel=next(iter(row["kernels_run"])) if row["kernels_run"] else row["attention"],
        dropout=not row["zero_dropout"],
        recompute=RECOMPUTED[row["recompute"]],
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("row", [row for row in ROWS if "saved_bytes" in row], ids=named)
def test_what_autograd_keeps_is_equal_to_the_byte(row: dict[str, Any]) -> None:
    whole, run = model(row), workload(row)
    ran = program(whole, run, NUMERICS[row["recipe"]], "auto")
    loss = ran(whole.tree(run))
    assert loss.node is not None
    assert ran.tape.tracker.saved == row["saved_bytes"]
    once = program(whole, run, NUMERICS[row["recipe"]], "auto", every_layer=False)
    once(whole.tree(run))
    assert total(kept.copies * kept.storage.size for kept in once.tape.kept.values()) == row["saved_bytes"]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("row", ROWS, ids=named)
def test_the_peak_of_each_phase_is_within_one_percent(row: dict[str, Any]) -> None:
    whole, run = model(row), workload(row)
    ran = program(whole, run, NUMERICS[row["recipe"]], "auto")
    tracker = ran.tape.tracker
    tracker.begin("forward")
    loss = ran(whole.tree(run))
    ran.autocast_ends()
    tracker.begin("backward")
    ran.tape.backward(loss)
    backward = tracker.new_phase()
    forward = max(tracker.phases["forward"], tracker.phases["loss"], key=lambda moment: moment.total)
    phases = row["phases"]
    base = phases["start"]["Total"]
    assert base + forward.total == pytest.approx(phases["fwd_peak"]["Total"], rel=0.01)
    assert base + backward.total == pytest.approx(phases["bwd_peak"]["Total"], rel=0.01)
    assert tracker.gradients == phases["bwd_end"]["Gradient"]
