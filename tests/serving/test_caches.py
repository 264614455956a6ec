"""Caches against what transformers holds (tests/oracle/README.md), and the layouts of vLLM's formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Transformer, Workload
from tfcalc.catalog import load
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.core.polynomial import symbols
from tfcalc.errors import InvalidModel
from tfcalc.serving.caches import cache

CONFIGS = json.loads((Path(__file__).parent.parent / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
ROWS = recorded("memory/kv-cache.public.jsonl")
ROOM = 20
"""Tokens that the recorded static caches have room for beyond the prompt."""


def named(row: dict[str, Any]) -> str:
    return f"{row['model']}-{row['cache']}-{row['batch']}-{row['seq']}"


def decoding(model: Any, batch: int, tokens: int, source: int | None = None) -> Component:
    run = Workload(phase="decode", batch_size=batch, cached=tokens, source_len=source)
    tree: Component = model.tree(run)
    return tree


@pytest.mark.parametrize("row", [row for row in ROWS if row["cache"] == "dynamic"], ids=named)
def test_a_dynamic_cache_holds_what_transformers_holds(row: dict[str, Any]) -> None:
    model, batch, length = HFModel(CONFIGS[row["model"]]), row["batch"], row["seq"]
    assert cache(decoding(model, batch, length)).total(bytes_held) == row["bytes_after_prefill"]
    assert cache(decoding(model, batch, length + 1)).total(bytes_held) == row["bytes_after_1_decode"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["cache"] == "static"], ids=named)
def test_a_static_cache_holds_what_transformers_holds(row: dict[str, Any]) -> None:
    tree = decoding(HFModel(CONFIGS[row["model"]]), row["batch"], row["seq"])
    held = cache(tree, how="static", longest=row["seq"] + ROOM)
    assert held.total(bytes_held) == row["bytes_after_prefill"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["cache"] == "encdec"], ids=named)
def test_cross_attention_keeps_the_source_once(row: dict[str, Any]) -> None:
    tree = decoding(HFModel(CONFIGS[row["model"]]), row["batch"], row["target_seq"], row["seq"])
    own, cross = (part.total(bytes_held) for part in cache(tree).parts)
    assert (own, cross) == (row["self_bytes"], row["cross_bytes"])


def test_the_closed_form_is_twice_everything() -> None:
    b, c, h, a, n = symbols("b c h a n")
    model = Transformer(d_model=h, n_heads=a, n_layers=n, kind="decoder", n_kv_heads=2, head_dim=64)
    held = cache(model.tree(Workload(phase="decode", batch_size=b, cached=c))).total(bytes_held)
    assert str(held) == "512*b*c*n"  # 2 (K, V) · 2 heads · 64 · 2 bytes


def test_an_encoder_keeps_nothing() -> None:
    model = Transformer(kind="encoder", n_layers=2)
    assert cache(decoding(model, 1, 10)).parts == ()


@pytest.mark.parametrize(
    ("format", "bytes_per_token"),
    [
        # of one layer of Llama-3.1-8B: 8 heads of 128, keys and values
        ("bf16", 2 * 8 * 128 * 2),
        ("fp32", 2 * 8 * 128 * 4),
        ("fp8", 2 * 8 * 128),
        ("fp8-per-token", 2 * 8 * 128 + 2 * 4 * 8),  # vLLM: 2 · heads · 4 bytes of scales
        ("int8-per-token", 2 * 8 * 128 + 2 * 4 * 8),
        ("nvfp4", 2 * 8 * (128 // 2 + 128 // 16)),  # vLLM: head_size/2 + head_size/16
    ],
)
def test_a_format_has_the_bytes_that_vllm_gives_it(format: str, bytes_per_token: int) -> None:
    held = cache(decoding(load("llama-3.1-8b"), 1, 1), format=format)
    assert held.total(bytes_held) == 32 * bytes_per_token


def test_deepseeks_format_takes_656_bytes_a_token() -> None:
    held = cache(decoding(load("deepseek-v3"), 1, 1), format="fp8_ds_mla")
    assert held.total(bytes_held) == 61 * 656


def test_a_paged_cache_has_whole_blocks() -> None:
    token = 32 * 2 * 8 * 128 * 2
    for tokens, blocks in ((1, 1), (16, 1), (17, 2), (100, 7)):
        held = cache(decoding(load("llama-3.1-8b"), 3, tokens), how="paged")
        assert held.total(bytes_held) == 3 * blocks * 16 * token


def test_a_paged_window_takes_one_block_more_than_fit_into_it() -> None:
    # Mistral-7B sees 4096 tokens: 256 blocks, and one more, for the window rarely starts where a block does
    token = 32 * 2 * 8 * 128 * 2
    for tokens, blocks in ((4096, 256), (4097, 257), (100_000, 257)):
        tree = decoding(load("mistral-7b-v0.1"), 1, tokens)
        assert cache(tree, how="paged").total(bytes_held) == blocks * 16 * token


@pytest.mark.parametrize(("how", "format"), [("dinamic", "bf16"), ("static", "fp9"), ("dynamic", "fp8_ds_mla")])
def test_what_is_not_known_is_refused_in_one_line(how: str, format: str) -> None:
    with pytest.raises(InvalidModel) as error:
        cache(decoding(load("gpt2"), 1, 1), how=how, format=format)
    assert "\n" not in str(error.value)
