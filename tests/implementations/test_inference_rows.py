"""Prefill and decode on the tape, held against recorded peaks of transformers (tests/oracle/README.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Workload
from tfcalc.configs.published import Published
from tfcalc.errors import InvalidModel
from tfcalc.implementations.serving import Served, inference
from tfcalc.tape.operations import Numerics

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
FORMATS = {"fp32": "float32", "bf16": "bfloat16"}
POSITIONS = ("n_positions", "max_position_embeddings")
ROWS = recorded("memory/inference.public.jsonl")
CACHES = recorded("memory/kv-cache.public.jsonl")


def named(row: dict[str, Any]) -> str:
    keys = ("model", "batch", "seq", "dtype", "attention", "logits_to_keep", "cache", "max_cache_len")
    return "-".join(str(row[key]) for key in keys if key in row)


def model(name: str, length: int) -> Published:
    """The recorded model, with as many positions as were read."""
    config = dict(CONFIGS[name])
    return Published(config | {field: max(config[field], length) for field in POSITIONS if field in config})


@cache
def served(place: int, phase: str) -> Served:
    row = ROWS[place]
    run = Workload(
        phase=phase,
        batch_size=row["batch"],
        seq_len=row["seq"],
        cached=row["seq"] + 1 if phase == "decode" else None,
        logits="last" if row["logits_to_keep"] else "all",
        kernel=next(iter(row["kernels_run"]), row["attention"]),
    )
    return inference(model(row["model"], row["seq"]), run, Numerics(FORMATS[row["dtype"]]))


each_row = pytest.mark.parametrize("place", range(len(ROWS)), ids=map(named, ROWS))


@each_row
def test_prefill_needs_to_the_byte_what_was_recorded(place: int) -> None:
    row, found = ROWS[place], served(place, "prefill")
    assert found.cache == row["kv_cache_bytes"]
    assert found.logits == row["logits_bytes"]
    assert found.peak == row["prefill_peak_over_params"]
    assert found.activations == row["prefill_activation_peak"]


@each_row
def test_decoding_needs_what_was_recorded_but_for_a_few_positions(place: int) -> None:
    row, found = ROWS[place], served(place, "decode")
    assert found.peak == pytest.approx(row["decode_peak_over_params"], rel=1e-4)
    assert found.activations == pytest.approx(row["decode_activation_peak"], rel=1e-3)
