"""The memory of serving, as it is asked for, against recorded caches and peaks (tests/oracle/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Conventions, InvalidModel, UsageError, Workload, load, memory
from tfcalc.configs.published import HFModel
from tfcalc.plans import Serving

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
RUN, GIB = Workload(), 2**30


def model(row: dict[str, Any]) -> HFModel:
    config = dict(CONFIGS[row["model"]])
    positions = ("n_positions", "max_position_embeddings")
    return HFModel(config | {name: max(config[name], row["seq"] + 8) for name in positions if name in config})


@pytest.mark.parametrize(
    "row",
    [row for row in recorded("memory/kv-cache.public.jsonl") if row["cache"] == "dynamic"],
    ids=lambda row: f"{row['model']}-{row['batch']}-{row['seq']}",
)
def test_a_dynamic_cache_holds_what_was_recorded(row: dict[str, Any]) -> None:
    plan = Serving(context=row["seq"], concurrency=row["batch"], kv="bf16", cache="dynamic")
    answer = memory(model(row), RUN, Conventions(dtype="bf16"), serving=plan)
    assert answer.totals["kv_cache_bytes"] == row["bytes_after_prefill"]


@pytest.mark.parametrize(
    "row",
    [row for row in recorded("memory/inference.public.jsonl") if row["logits_to_keep"] == 1],
    ids=lambda row: f"{row['model']}-{row['batch']}-{row['seq']}-{row['dtype']}-{row['attention']}",
)
def test_reading_the_prompts_takes_what_was_recorded(row: dict[str, Any]) -> None:
    kernel = next(iter(row["kernels_run"])) if row["kernels_run"] else row["attention"]
    plan = Serving(context=row["seq"], concurrency=row["batch"], kv=row["dtype"], cache="dynamic")
    answer = memory(model(row), Workload(kernel=kernel), Conventions(dtype=row["dtype"]), serving=plan)
    prefill = {phase["phase"]: phase["temporary_bytes"] for phase in answer.more["phases"]}["prefill"]
    assert answer.totals["kv_cache_bytes"] == row["kv_cache_bytes"]
    assert prefill == pytest.approx(row["prefill_activation_peak"], rel=0.01)
    held = int(answer.totals["weights_bytes"]) + int(answer.totals["buffers_bytes"])
    assert held == pytest.approx(row["params_and_buffers_bytes"], rel=1e-3)  # buffers that no checkpoint has


def test_a_cache_is_what_a_server_logs() -> None:
    """vllm#10517: Llama-3.1-8B, 131,072 bytes of cache for each token; llama.cpp#4381: 64 MiB of Mixtral at 512."""
    plan = Serving(context=23_648, cache="paged")
    assert memory(load("llama-3.1-8b"), RUN, serving=plan).totals["kv_cache_bytes"] == 23_648 * 131_072
    at_512 = memory(load("mixtral-8x7b"), RUN, serving=Serving(context=512, cache="dynamic"))
    assert at_512.totals["kv_cache_bytes"] == 64 * 2**20


def test_the_terms_add_up() -> None:
    for plan in (
        Serving(),
        Serving(context=4096, cache="dynamic"),
        Serving(context=4096, concurrency=8, cache="paged", weights="nf4", kv="fp8"),
    ):
        totals = memory(load("llama-3-8b"), RUN, serving=plan).totals
        terms = ("weights_bytes", "kv_cache_bytes", "buffers_bytes", "temporary_bytes")
        assert totals["total_bytes"] == sum(int(totals[term]) for term in terms)


def test_weights_are_stored_as_the_config_says() -> None:
    """gpt-oss-120b is published in MXFP4, 60.8 GiB (arXiv 2508.10925, table 1)."""
    totals = memory(load("gpt-oss-120b"), RUN, serving=Serving(context=1024, cache="paged")).totals
    assert int(totals["weights_bytes"]) / GIB == pytest.approx(60.8, abs=0.05)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Serving(weights="int5"), "int5"),
        (Serving(kv="fp9"), "fp9"),
        (Serving(kv=[9]), r"kv \[9\]"),  # type: ignore[arg-type]
        (Serving(cache="pages"), "pages"),
        (Serving(concurrency=0), "concurrency 0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_what_was_given(asked: Serving, said: str) -> None:
    with pytest.raises((InvalidModel, UsageError), match=said):
        memory(load("gpt2"), RUN, serving=asked)


def test_what_reads_images_beside_text_writes_none() -> None:
    with pytest.raises(InvalidModel, match="does not generate text"):
        memory(load("clip-vit-base-patch16"), RUN, serving=Serving())
