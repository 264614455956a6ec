"""Engines' rules for the room of their caches, against lines of their own logs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Quick, recorded
from tfcalc import Serving, Workload, load
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.placed.served import ServedLayout
from tfcalc.serving.engine_rules import CacheLog, Profile, engine, engines
from tfcalc.serving.ranks import ServingRanks

GIB, MIB = 2**30, 2**20
PRINTED = 0.005
"""Half of the last digit of a log's two decimals."""


def logged(row: dict[str, Any]) -> CacheLog:
    model = load(row["model"])
    found = ServingRanks(model, ServedLayout(tp=row["tp"]), Workload(), Serving(context=row["context"]))
    profile = Profile(int(row["profiled_gib"] * GIB), int(row["nontorch_gib"] * GIB))
    memory = int(row["memory_gib"] * GIB)
    return engine(row["engine"]).cache_log(found.each, model, found.plan, profile, memory, row["utilization"])


@pytest.mark.parametrize("row", recorded("serving/engine-logs.jsonl"), ids=lambda row: row["thread"])
def test_the_cache_is_that_of_the_log(row: dict[str, Any]) -> None:
    """What is printed with two decimals is given with two, so that each may be off by half of the last."""
    found = logged(row)
    assert found.available / GIB == pytest.approx(row["available_gib"], abs=4 * PRINTED)
    if "blocks" in row:
        assert found.blocks == pytest.approx(row["blocks"], rel=1e-3, abs=4 * PRINTED * GIB / found.block_bytes)
        assert found.concurrency == pytest.approx(row["concurrency"], rel=1e-3, abs=2 * PRINTED)


def test_the_blocks_of_a_log_follow_from_its_cache() -> None:
    """vllm#12330: 5,691 blocks of 2 MiB are 11.115 GiB, and 91,056 tokens."""
    found = logged(recorded("serving/engine-logs.jsonl")[1])
    assert found.block_bytes == 16 * 131072
    assert found.blocks == pytest.approx(5691, rel=1e-3)
    assert found.tokens == found.blocks * 16


def test_sglang_leaves_as_much_as_its_formula_says() -> None:
    """(memory − reserved)/memory: 512 + 1.5 · chunk + 2 · graphs + tp/8 · 1,024 MB, worked out for three machines."""
    rules = engine("sglang")
    assert rules.share(24_564 * MIB) == round((24_564 - 512 - 3072 - 48 - 128) / 24_564, 3) == 0.847
    assert rules.share(80 * GIB) == round((81_920 - 512 - 12_288 - 512 - 128) / 81_920, 3) == 0.836
    assert rules.share(80 * GIB, 8) == round((81_920 - 512 - 12_288 - 1024 - 1024) / 81_920, 3) == 0.819


def test_what_is_left_is_by_each_engine_in_its_own_order() -> None:
    """By hand, of a card of 80 GiB, 1 GiB profiled, 2 GiB outside, 0.5 GiB of graphs, a share of 0.9."""
    model = load("llama-3-8b")
    found = ServingRanks(model, ServedLayout(), Workload(), Serving(context=8192))
    weights, given = 2 * 8_030_261_248 + 2 * 8192 * 128, Profile(GIB, 2 * GIB, GIB // 2)
    left = {
        "vllm@0.10": int(72 * GIB) - weights - 3 * GIB,
        "vllm@0.24": int(72 * GIB) - weights - 3 * GIB - GIB // 2,
        "sglang": int(78 * GIB * 0.9) - weights,
        "tensorrt-llm": int((77 * GIB - weights) * 0.9),
    }
    for name, size in left.items():
        log = engine(name).cache_log(found.each, model, found.plan, given, 80 * GIB, 0.9)
        assert log.available == pytest.approx(size, abs=GIB // 1000), name
        assert log.tokens == pytest.approx(size / 131072, rel=1e-3)
    with pytest.raises(InvalidModel, match="GiB for its cache"):
        engine("vllm").cache_log(found.each, model, found.plan, Profile(60 * GIB, GIB), 80 * GIB, 0.9)


def test_every_engine_answers_on_cards_of_every_size(quick: Quick) -> None:
    """vLLM reads 8,192 tokens of a prompt at once from 70 GiB on, and 2,048 on what is smaller and on an A100."""
    vllm = engine("vllm")
    assert [vllm.batches(80 * GIB, "H100 SXM"), vllm.batches(15 * GIB, "T4"), vllm.batches(80 * GIB, "A100")] == [
        8192,
        2048,
        2048,
    ]
    for name in (f"{one.name}@{one.version}" for each in engines().values() for one in each):
        found = quick("memory", "gpt2", "--serve", "--context", "1k", "--gpu", "t4", "--engine", name)
        assert (found.returncode, found.stderr) == (0, ""), name


def test_the_stage_with_the_least_room_decides() -> None:
    """vllm PR #20665: of 27 layers the first of two stages has 14, each token 576 numbers in each of them."""
    model = load("deepseek-v2-lite")
    found = ServingRanks(model, ServedLayout(tp=2, pp=2), Workload(), Serving(context=1024))
    log = engine("vllm").cache_log(found.each, model, found.plan, Profile(GIB, GIB), 22 * GIB, 0.9)
    assert log.block_bytes == 16 * 14 * 576 * 2


def test_transformers_takes_its_own_cache_and_the_whole_card(quick: Quick) -> None:
    words = ("memory", "llama-3-8b", "--serve", "--gpu", "h100")
    said = quick(*words, "--engine", "transformers").stdout
    assert said == quick(*words, "--cache", "dynamic").stdout
    assert "dynamic KV cache" in said
    assert "90 %" in quick(*words).stdout
    assert "90 %" not in said
    assert "profiles nothing" in quick(*words, "--engine", "transformers", "--gpu-memory-utilization", "0.9").stderr


def test_engines_are_dated_and_have_sources() -> None:
    newest = {name: each[0].version for name, each in engines().items()}
    assert {"vllm": "0.26", "sglang": "0.5"}.items() <= newest.items()
    assert newest.keys() == {"llama.cpp", "nim", "sglang", "tensorrt-llm", "transformers", "vllm"}
    assert all(one.sources and one.dated >= "2025" for each in engines().values() for one in each)
    with pytest.raises(UsageError, match="did you mean vllm"):
        engine("vlm")


def test_a_version_has_the_newest_rules_up_to_it() -> None:
    asked = {"vllm@0.19.0": "0.10", "vllm@0.25.1": "0.24", "vllm@nightly": "0.26", "trtllm@1.0": "1.2"}
    assert {text: engine(text).version for text in asked} == asked


def test_the_command_line_prints_the_lines_of_the_log(quick: Quick) -> None:
    words = ("memory", "llama-3.1-70b", "--serve", "--gpu", "4xh100", "--engine", "vllm")
    profile = ("--profiled", "1.30GiB", "--nontorch", "0.90GiB")
    said = quick(*words, *profile).stdout
    assert "vllm 0.26 would log: Available KV cache memory: " in said
    found = json.loads(quick(*words, *profile, "--json").stdout)["engine"]
    # 0.92 of the card less 32.89 GiB, 1.3 and 0.9; a token takes 80 layers of 2 heads on each GPU
    assert found["available_bytes"] == pytest.approx(0.92 * found["card_bytes"] - (32.89 + 2.2) * GIB, rel=1e-3)
    assert found["blocks"] == found["available_bytes"] // (16 * 80 * 2 * 2 * 128 * 2)
    refused = {
        (*words, "--profiled", "1GiB"): "both --profiled and --nontorch",
        (*words[:5], *profile): "has no effect without --engine",
        ("memory", "llama-3.1-8b", "--serve", "--engine", "vllm"): "has no effect without --gpu",
    }
    for each, fact in refused.items():
        done = quick(*each)
        assert done.returncode == 2
        assert fact in done.stderr
