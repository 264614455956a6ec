"""llama.cpp's buffers, against its own logs: layers on the card and in RAM, caches of its types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Quick, recorded
from tfcalc import Serving, Workload, fits, load
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.model import Model
from tfcalc.serving.memory import Served, served

MIB = 2**20
PRINTED = 0.005
ALL = 999


def loaded(model: Model, **plan: Any) -> Served:
    return served(model, Workload(), Serving(cache="cells", gpu_layers=plan.pop("ngl", ALL), **plan), formulas=False)


def mib(part: Component) -> float:
    return value_of(part.total(bytes_held)) / MIB


@pytest.mark.parametrize("row", recorded("serving/llama-cpp-logs.jsonl"), ids=lambda row: row["thread"])
def test_buffers_are_those_of_the_log(row: dict[str, Any]) -> None:
    model = HFModel(row["config"]) if "config" in row else load(row["model"])
    found = loaded(model, weights=row["type"], context=row["context"], concurrency=row["concurrency"], kv="fp16")
    states = sum(mib(part) for part in found.cache.parts if "linear" in part.name)
    assert states == pytest.approx(row.get("states_mib", 0), abs=PRINTED)
    assert mib(found.cache) - states == pytest.approx(row["kv_mib"], abs=PRINTED)
    if "gpu_mib" in row:
        assert mib(found.weights) == pytest.approx(row["gpu_mib"], abs=2 * PRINTED)
        assert found.host / MIB == pytest.approx(row["cpu_mib"], abs=2 * PRINTED)


def test_layers_are_on_the_card_or_in_ram() -> None:
    """Of Llama 3 8B each of 32 layers has 218,112,000 numbers in 2 bytes; the table is in RAM, and the head is 33rd."""
    model, layer, table = load("llama-3-8b"), 2 * 218_112_000, 2 * 128_256 * 4096
    cache = 8192 * 2 * 8 * 128 * 2
    for number, on_card in ((8, 8 * layer), (32, 32 * layer), (33, 32 * layer + table + 2 * 4096)):
        found = loaded(model, ngl=number, weights="bf16", context=8192, kv="bf16")
        layers = min(number, 32)
        assert value_of(found.weights.total(bytes_held)) == on_card
        assert value_of(found.cache.total(bytes_held)) == layers * cache
        assert found.host == 2 * 8_030_261_248 - on_card + (32 - layers) * cache
    with pytest.raises(InvalidModel, match="--ngl 4 has no effect with a paged cache"):
        served(model, Workload(), Serving(gpu_layers=4))
    with pytest.raises(InvalidModel, match="layers are counted of the one stack"):
        loaded(load("flan-t5-small"), ngl=4)


def test_several_cards_have_whole_layers(quick: Quick) -> None:
    """Of 33 parts of Llama 3 8B, the head among them, the first of two cards has 17: 17 / 33 is the first place beyond
    a half (``std::upper_bound`` of splits in load_tensors). The other has 15 layers and the head; the table is in RAM.
    """
    words = ("--gpu", "2xrtx-4090", "--engine", "llama.cpp", "--weights", "bf16", "--context", "8k")
    found = json.loads(quick("memory", "llama-3-8b", "--serve", *words, "--pp", "2", "--json").stdout)
    layer, table, cache = 2 * 218_112_000, 2 * 128_256 * 4096, 8192 * 2 * 8 * 128 * 2
    ranks = [(one["layers"], one["weights_bytes"], one["kv_cache_bytes"]) for one in found["ranks"]]
    assert ranks == [(17, 17 * layer, 17 * cache), (15, 15 * layer + table + 2 * 4096, 15 * cache)]
    assert found["host_bytes"] == table
    refused = quick("memory", "llama-3-8b", "--serve", *words, "--tp", "2")
    assert "llama.cpp gives each GPU whole layers; take --pp alone" in refused.stderr
    assert "--ngl 20 on several GPUs" in quick("memory", "llama-3-8b", "--serve", *words, "--ngl", "20").stderr


def test_serve_and_memory_have_the_same_cards(quick: Quick) -> None:
    """Llama 3.1 70B in Q4_K_M, of some 42 GB, is on two cards of 24: what serve names holds by memory, too."""
    asked = ("llama-3.1-70b", "--weights", "q4_k_m", "--engine", "llama.cpp", "--context", "8k")
    told = quick("serve", *asked, "--gpu", "rtx-4090").stdout.splitlines()[0]
    flags = told.partition("; ")[2].removesuffix(" would hold it").split()
    assert flags == ["--gpu", "2xrtx-4090", "--tp", "1", "--pp", "2"]
    for command in (("serve",), ("memory", "--serve")):
        assert quick(*command, *asked, *flags).returncode == 0


def test_caches_have_the_bits_of_their_types() -> None:
    """Bytes of a block of 32 numbers (ggml's type sizes): f16 64, q8_0 34, q5_1 24, q5_0 22, q4_1 20, q4_0 18."""
    sizes = {"fp16": 64, "q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18}
    for name, size in sizes.items():
        found = loaded(load("llama-3-8b"), context=8192, kv=name)
        assert value_of(found.cache.total(bytes_held)) == 32 * 8192 * 2 * 8 * 128 // 32 * size


def test_cells_are_padded_and_windows_have_a_step_more() -> None:
    """8,100 tokens take 8,192 cells; a window of 1,024 beside steps of 512 takes 1,536."""
    found = loaded(load("gemma-3-12b-it"), context=8100, kv="fp16")
    per_cell = 2 * 8 * 256 * 2
    assert value_of(found.cache.total(bytes_held)) == per_cell * (8 * 8192 + 40 * 1536)


def test_a_card_or_a_mac_gets_the_type_of_most_bits_that_fits(quick: Quick) -> None:
    words = ("memory", "llama-3.1-70b", "--serve", "--engine", "llama.cpp", "--gpu")
    mac = json.loads(quick(*words, "m3-max-64", "--json").stdout)
    assert mac["changes"][0]["flags"] == "--weights q4_k_m"
    for name, held in (("q4_k_m", 0), ("q5_k_m", 1)):
        assert quick(*words, "m3-max-64", "--weights", name, "--strict").returncode == held
    card = json.loads(quick(*words, "rtx-3090", "--weights", "q4_k_m", "--json").stdout)
    most = card["largest_gpu_layers"]
    for number, held in ((most, 0), (most + 1, 1)):
        found = quick(*words, "rtx-3090", "--weights", "q4_k_m", "--ngl", f"{number}")
        assert found.returncode == held
        assert f"{number} of 81 layers on the card" in found.stdout
    assert "llama.cpp takes what it needs" in quick(*words, "rtx-3090", "--gpu-memory-utilization", "0.9").stderr


def test_the_library_takes_the_engine() -> None:
    found = fits(load("llama-3-8b"), gpu="rtx-3060", serving=Serving(weights="q4_k_m"), engine="llama.cpp")
    assert found.fits
    assert found.report.to_dict()["host_bytes"] == pytest.approx(281.8125 * MIB)
