"""Published measurements of serving: nothing is faster than the floor, and the estimate is as near as it says."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from statistics import mean, median

import pytest

from tests import serving_runs
from tests.serving_runs import Run
from tfcalc.plans import Serving
from tfcalc.timing.served import Load, ServedModel
from tfcalc.timing.serving import Sharing, engine_of, rates_table

SAMPLE = 23
"""Of this many rows one is asked; a prime, so that no source is left out."""


@cache
def runs() -> tuple[Run, ...]:
    """A sample of those with a known GPU and engine."""
    found = map(serving_runs.run_of, serving_runs.rows()[::SAMPLE])
    return tuple(run for run in found if run is not None)


def errors(*, first: bool, modes: tuple[str, ...]) -> list[float]:
    """|estimate / measured - 1| of runs that do not look mis-recorded, nor send sums over PCIe."""
    found = []
    for run in runs():
        measured = run.first if first else run.token
        if measured and run.linked and run.runs_known and not run.row["suspect"] and run.row["mode"] in modes:
            found.append(abs(run.guess(first=first).value / measured - 1))
    return found


def test_the_time_of_a_token() -> None:
    """Within 10 % in the middle, 16 % on average; the constants were fitted to these runs."""
    found = errors(first=False, modes=serving_runs.SERVED)
    assert len(found) > 140
    assert median(found) <= 0.10
    assert mean(found) <= 0.16


def test_the_time_of_a_batch_of_prompts() -> None:
    """Static batches on one GPU, or on several with NVLink: 12 % on average."""
    found = errors(first=True, modes=("static",))
    assert len(found) > 40
    assert mean(found) <= 0.12


def test_the_first_token_under_load() -> None:
    """Within 30 % in the middle, 50 % on average, where it is known how many requests ran."""
    found = errors(first=True, modes=("served",))
    assert len(found) > 80
    assert median(found) <= 0.30
    assert mean(found) <= 0.50


def test_the_rate_of_a_system_that_is_always_full() -> None:
    """MLPerf Inference 5.1, offline: 10 % on average of Llama 2 70B and Llama 3.1 405B, which told one constant.

    Llama 3.1 8B, where the host takes most of a step, told nothing: 15 %.
    """
    both = ("llama-2-70b", "llama-3.1-405b")
    for models, number, most in ((both, 38, 0.10), (("llama-3.1-8b",), 8, 0.15)):
        found = [abs(run.estimate / run.measured - 1) for run in serving_runs.offline() if run.row["model"] in models]
        assert len(found) == number
        assert mean(found) <= most
        assert median(found) <= 0.10


def test_formats_of_the_cache_are_said_or_unknown() -> None:
    """What neither a row nor its script says is no format, but of weights in 16 bits, which engines follow."""
    for row in serving_runs.rows():
        assert row["kv"] in ("fp16", "bf16", "fp8", "auto", "unknown"), row["id"]
        assert row["kv"] != "unknown" or row["weights"] not in ("fp16", "bf16"), row["id"]


FASTER = {"s00890", "s00912", "s00913"}
"""Rows below the floor: Qwen3-32B on two GPUs, 416 and 448 requests of 15,000 tokens, which look like several replicas
(``suspect``); of 4,318 no others."""


def test_nothing_is_faster_than_the_floor() -> None:
    """Bytes that have to be read, and requests that have room: no token was faster, nor a first one, but for three."""
    named = (run for row in serving_runs.rows() if row["id"] in FASTER and (run := serving_runs.run_of(row)))
    assert all(run.token and run.floor_of_token > run.token for run in named)
    for run in runs():
        assert not run.token or run.floor_of_token <= run.token or run.row["id"] in FASTER, run.row["id"]
        assert not run.first or run.floor_of_first <= run.first, run.row["id"]


def test_no_estimate_is_below_the_floor() -> None:
    for run in runs():
        for first, floor in ((False, run.floor_of_token), (True, run.floor_of_first)):
            guess = run.guess(first=first)
            assert floor <= guess.low <= guess.value <= guess.high


def test_bands_hold_what_they_say() -> None:
    """About four of five runs are within the band, which was learned on systems left out."""
    inside = []
    for run in runs():
        if run.token and run.linked and not run.row["suspect"]:
            guess = run.guess(first=False)
            inside.append(guess.low <= run.token <= guess.high)
    assert 0.75 <= mean(inside) <= 0.97


@pytest.mark.parametrize(
    ("named", "era"),
    [
        ("vllm", "vllm"),
        ("vllm@0.19.0", "vllm"),
        ("trtllm@0.9.0", "trtllm-0-9"),
        ("trtllm@1.0.0rc3", "trtllm-1-0"),
        ("TensorRT-LLM@1.1.0rc2.post2", "trtllm"),
        ("trtllm", "trtllm"),
        ("nim-trtllm", "nim"),
    ],
)
def test_engines_have_eras(named: str, era: str) -> None:
    found = engine_of(named)
    assert found is not None
    assert found.name == era
    assert engine_of("an engine that nobody ran") is None


def test_eras_by_generation() -> None:
    """TensorRT-LLM of 2026 was run on Hopper and Blackwell, on an A100 that of 2024; no vLLM on Apple's GPUs."""
    cards = serving_runs.cards()
    for name, era in (("A100-SXM-80", "trtllm-0-9"), ("B200-HGX", "trtllm"), ("L40S", "trtllm-0-9")):
        found = engine_of("trtllm", cards[name])
        assert found is not None
        assert found.name == era
    assert engine_of("vllm", cards["M2-Max-96"]) is None


def test_the_fewest_requests_whose_first_token_is_known() -> None:
    """Of as many at once three systems or more tell it; of fewer what a server takes beside reading may be anything.

    Batches without a server (TensorRT-LLM 0.9) and llama-bench tell none.
    """
    systems: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in serving_runs.rows():
        by = engine_of(
            serving_runs.engine_of_row(row), serving_runs.cards().get(serving_runs.CARDS.get(row["gpu"], row["gpu"]))
        )
        if by and row["mode"] == "served" and row["ttft_ms"] and not row["suspect"]:
            systems[by.name, round(float(row["requests"]))].add(row["unit"])
    for name, era in rates_table()["engines"].items():
        told = [requests for (of, requests), units in systems.items() if of == name and len(units) >= 3]
        assert era["fewest"] == min(told, default=0), name


def test_what_a_server_takes_is_in_a_first_token_or_not() -> None:
    """A band begins without it where all runs had more requests, and ends with that of other eras where none was a
    server's; of as many as runs had it is that of systems left out.
    """
    cards = serving_runs.cards()
    for gpu, requests, less, more in (
        ("H100-SXM", 1, True, False),
        ("H100-SXM", 4, False, False),
        ("A100-SXM-80", 4, False, True),
    ):
        load = Load(512, 100, requests)
        of = ServedModel(serving_runs.model("llama-3.1-8b"), Serving(), Sharing(), cards[gpu], load, "trtllm")
        by = engine_of("trtllm", cards[gpu])
        assert by is not None
        band, guess = of.band(first=True), of.guess(requests, by, of.band(first=True), first=True)
        floor = of.floor_of_prompt(requests).seconds
        assert guess.low == pytest.approx(max(floor, band.low * (guess.value - (by.first if less else 0))))
        served = max(era["first"] for era in rates_table()["engines"].values() if era["engine"] == "tensorrt-llm")
        assert guess.high == pytest.approx(band.high * guess.value + (served if more else 0))


def test_rates_are_shares() -> None:
    """No operator reaches more than the datasheet says, and no engine moves bytes faster than that."""
    for known in rates_table()["operators"].values():
        shares = [known[name] for name in ("cache", "attention", "expert_weights")]
        for name in ("weights", "products", "expert_products"):
            shares += known[name].values()
        assert all(0 < share <= 1 for share in shares)
        for era in rates_table()["engines"].values():
            memory = {**rates_table()["shared"], **era}["memory"]
            assert max(*known["weights"].values(), known["expert_weights"]) * memory <= 1
