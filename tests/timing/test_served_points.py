"""A served model at many points: arrays give what single questions give."""

from __future__ import annotations

import numpy as np
import pytest

import tfcalc
from tfcalc import Serving
from tfcalc.answers.serve import serve
from tfcalc.answers.serve_case import ServeCase
from tfcalc.arrays.serving import LONGEST, serve_points
from tfcalc.errors import UsageError

KINDS = {
    "llama-3-8b": "vllm",
    "gpt-oss-120b": "trtllm@1.1",  # windows, experts
    "deepseek-v2-lite": "sglang",  # latent vectors
    "qwen3.5-27b": "vllm",  # states
    "llama-2-13b": "llama.cpp",
}


@pytest.mark.parametrize("name", KINDS)
def test_arrays_are_single_answers(name: str) -> None:
    """200 points of each of five kinds of model, on 1 to 8 GPUs: the same floats, but for the order of sums."""
    draw, engine = np.random.default_rng(11), KINDS[name]
    plan = Serving(kv="q8_0" if engine == "llama.cpp" else "fp8")
    loads = [
        (int(draw.integers(1, 9000)), int(draw.integers(1, 900)), 2 ** int(draw.integers(0, 4))) for _ in range(10)
    ]
    requests = [int(each) for each in 1 + draw.integers(0, 2000, 20)]
    points = [(*load, each) for load in loads for each in requests]
    prompt, answer, tp, concurrency = np.array(points).T
    found = serve_points(name, "h100", prompt, answer, concurrency, tp=tp, engine=engine, plan=plan)
    assert len(found.token) == 200
    of: ServeCase | None = None
    for place, (length, tokens, size, each) in enumerate(points):
        if of is None or place % len(requests) == 0:
            of = serve(name, f"{size}xh100", length, tokens, tp=size, engine=engine, plan=plan).case
        at = of.point(each)
        single = [of.of.capacity, at.floor_of_token.seconds, at.floor_of_first.seconds]
        single += [at.token.value, at.first.value, at.rate.value] if of.by else [np.nan] * 3
        assert found.fits[place] == of.holds
        wanted = np.array(single if of.holds else [np.nan] * 6)
        assert np.allclose([each[place] for each in found[1:]], wanted, rtol=1e-12, equal_nan=True)


def test_arrays_are_broadcast() -> None:
    grid = serve_points("llama-3-8b", "h100", np.array([[100], [1000]]), 64, np.array([1, 4, 16]))
    assert len(grid.rate) == 6
    alone = serve_points("llama-3-8b", "h100", 1000, 64, 16)
    assert grid.rate[5] == alone.rate[0] > grid.rate[4]
    too_large = serve_points("llama-3.1-405b", "h100", 100, 64, [1, 2])
    assert not too_large.fits.any()
    assert np.isnan(too_large.token).all()
    unknown = serve_points("t5-small", "h100", 100, 64, 2)
    assert np.isnan(unknown.token[0])
    assert unknown.floor_of_token[0] > 0


@pytest.mark.parametrize(
    ("sizes", "fact"),
    [
        ((0, 10, 1), "a size below 1"),
        ((10.5, 10, 1), "no whole number"),
        ((LONGEST, 10, 1), "requests of more than"),
        ((np.array([], dtype=int), 10, 1), "0 points"),
    ],
)
def test_what_is_no_point_is_refused(sizes: tuple[object, object, object], fact: str) -> None:
    with pytest.raises(UsageError, match=fact):
        serve_points("llama-3-8b", "h100", *sizes)  # type: ignore[arg-type]


def test_the_library_has_it() -> None:
    assert tfcalc.serve_points is serve_points
