"""Prefill and decode on the tape, held against recorded peaks of transformers (tests/oracle/README.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Workload, load
from tfcalc.backends.cache import CACHE, ModelCache
from tfcalc.configs.published import HFModel
from tfcalc.errors import InvalidModel
from tfcalc.number_formats import WIDTHS
from tfcalc.serving.inference import InferencePeak, at_peak, inference
from tfcalc.tape.interpreter import Interpreter, Numerics
from tfcalc.tape.memory_tracker import MemoryTracker
from tfcalc.tape.tape import Tape

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
FORMATS = {"fp32": "float32", "bf16": "bfloat16"}
POSITIONS = ("n_positions", "max_position_embeddings")
ROWS = recorded("memory/inference.public.jsonl")
CACHES = recorded("memory/kv-cache.public.jsonl")


def named(row: dict[str, Any]) -> str:
    keys = ("model", "batch", "seq", "dtype", "attention", "logits_to_keep", "cache", "max_cache_len")
    return "-".join(str(row[key]) for key in keys if key in row)


def model(name: str, length: int) -> HFModel:
    """The recorded model, with as many positions as were read."""
    config = dict(CONFIGS[name])
    return HFModel(config | {field: max(config[field], length) for field in POSITIONS if field in config})


@cache
def served(place: int, phase: str) -> InferencePeak:
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


@pytest.mark.parametrize("row", recorded("memory/serving-live.jsonl"), ids=named)
def test_static_caches_windows_and_latent_vectors_need_what_runs(row: dict[str, Any]) -> None:
    published = HFModel(model(row["model"], row["longest"] or row["seq"] + 1).data | row["over"])
    ran = list(row["kernels"]) or [row["attention"]]
    logits = "last" if row["logits_to_keep"] else "all"
    prompt = Workload(phase="prefill", batch_size=row["batch"], seq_len=row["seq"], logits=logits, kernel=ran[0])
    token = Workload(phase="decode", batch_size=row["batch"], cached=row["seq"] + 1, kernel=ran[-1])
    numerics, room = Numerics(FORMATS[row["dtype"]]), row["longest"] or None
    prefill = inference(published, prompt, numerics, row["cache"], room)
    decode = inference(published, token, numerics, row["cache"], room)
    assert (prefill.cache, decode.cache) == (row["kv"], row["kv_after"])
    off = 0.03 if row["model"] == "opt-125m" else 0.002  # OPT's network stands in its layer, which forgets its input
    assert prefill.peak == pytest.approx(row["prefill"], rel=off)
    assert decode.peak == pytest.approx(row["decode"], rel=1e-3)


DECODERS = [row for row in CACHES if row["model"] != "bart-base"]
LATENT_AND_STATIC = [row for row in DECODERS if (row["model"], row["cache"]) == ("deepseek-v2-lite", "static")]


def held(row: dict[str, Any]) -> ModelCache:
    run = Workload(phase="decode", batch_size=row["batch"], cached=row["seq"] + 1)
    return ModelCache(model(row["model"], row["seq"] + 20).tree(run), row["cache"], row["seq"] + 20)


@pytest.mark.parametrize("row", [row for row in DECODERS if row not in LATENT_AND_STATIC], ids=named)
def test_a_cache_is_as_large_as_transformers_holds_it(row: dict[str, Any]) -> None:
    kept = held(row)
    kept.filled(Interpreter(Tape(MemoryTracker()), Numerics("bfloat16")), row["seq"])
    assert kept.size == row["bytes_after_prefill"]


@pytest.mark.parametrize("row", LATENT_AND_STATIC, ids=named)
def test_a_static_cache_of_latent_vectors_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(InvalidModel, match="static cache for"):
        held(row)


MANY_LAYERS = ("llama-3-8b", "gpt2", "mistral-7b-v0.1", "gpt-oss-20b", "gemma-3-270m", "olmo-3.1-32b-instruct")
"""Of one kind, with windows, and of several kinds in turn: at least twelve layers each."""
REPEATED = [(name, cache) for name in MANY_LAYERS for cache in ("dynamic", "static")] + [("deepseek-v2", "dynamic")]


@pytest.mark.parametrize("length", [3, 700, 9_000])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize(("name", "cache"), REPEATED)
def test_layers_at_the_ends_tell_the_peak_of_all(name: str, cache: str, phase: str, length: int) -> None:
    """For a tracker of one's own every layer runs; without one those at the ends stand for the rest."""
    run = Workload(batch_size=3, seq_len=length, phase=phase, cached=length if phase == "decode" else None)
    asked, numerics = load(name), Numerics("bfloat16")
    assert isinstance(asked, HFModel)
    assert inference(asked, run, numerics, cache) == inference(asked, run, numerics, cache, tracker=MemoryTracker())


def test_what_is_live_at_the_peak_is_all_of_it() -> None:
    run, numerics = Workload(phase="decode", cached=513, kernel="flash"), Numerics("bfloat16")
    row = next(row for row in ROWS if row["model"] == "llama-3.2-1b" and row["seq"] == 512 and row["dtype"] == "bf16")
    found = at_peak(model("llama-3.2-1b", 513), run, numerics)
    assert sum(each.elements * WIDTHS[each.dtype] for each in found) == row["decode_peak_over_params"]
    assert {each.dtype for each in found if each.label == CACHE} == {"bfloat16"}


@pytest.mark.parametrize(
    ("name", "phase", "says"),
    [
        ("bert-base", "prefill", "has no KV cache"),
        ("t5-small", "prefill", "caches K, V"),
        ("gpt2", "train", "phase 'train' with a cache"),
    ],
)
def test_what_cannot_be_served_is_said(name: str, phase: str, says: str) -> None:
    with pytest.raises(InvalidModel, match=says):
        inference(model(name, 100), Workload(phase=phase, seq_len=100), Numerics("bfloat16"))


def test_only_known_caches_can_be_asked_for() -> None:
    with pytest.raises(InvalidModel, match="cache 'statik'"):
        inference(model("gpt2", 100), Workload(phase="prefill", seq_len=100), Numerics("bfloat16"), "statik")


def test_caches_of_too_many_layers_are_refused() -> None:
    deep = load("llama-3-8b").replaced(n_layers=1_001)
    assert isinstance(deep, HFModel)
    with pytest.raises(InvalidModel, match="a static cache of 1,001 layers has too many"):
        inference(deep, Workload(phase="prefill", seq_len=100), Numerics("bfloat16"), "static")
