"""Sweeps: at each point what a single answer says; nothing where there is none; columns that other libraries take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfcalc
from tfcalc import Serving, Training, Workload
from tfcalc.arrays.evaluation import reach
from tfcalc.core.measure import bytes_held
from tfcalc.core.polynomial import symbols
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_serving
from tfcalc.serving.caches import cache, cache_format
from tfcalc.serving.stored import at_work

PRESETS = ("llama-3-8b", "gpt2", "mixtral-8x7b", "t5-small", "gemma-2-2b", "falcon-7b")
TRAIN = Workload(phase="train")
DRAWN = 6

Single = Callable[[Any, dict[str, int]], int]


def served(model: Any, at: dict[str, int]) -> Any:
    return tfcalc.memory(model, serving=Serving().replaced(**at))


CASES: dict[str, tuple[str, dict[str, Any], tuple[str, ...], Single]] = {
    "params": ("params", {}, ("d_model", "n_layers", "n_heads"), lambda m, at: tfcalc.params(m.replaced(**at)).answer),
    "flops": (
        "flops",
        {"workload": TRAIN},
        ("batch_size", "seq_len"),
        lambda m, at: tfcalc.flops(m, TRAIN.replaced(**at)).answer,
    ),
    "at rest": ("memory", {}, ("n_layers", "vocab_size"), lambda m, at: tfcalc.memory(m.replaced(**at)).answer),
    "peak": (
        "memory",
        {"training": Training()},
        ("batch_size", "seq_len"),
        lambda m, at: tfcalc.memory(m, TRAIN.replaced(**at)).answer,
    ),
    "cache": ("cache", {}, ("concurrency", "context"), lambda m, at: int(served(m, at).totals["kv_cache_bytes"])),
    "serving": ("memory", {"serving": Serving()}, ("concurrency", "context"), lambda m, at: int(served(m, at).answer)),
}
SPANS = {
    "d_model": (1, 65, 64),
    "n_layers": (1, 30, 1),
    "n_heads": (1, 17, 1),
    "vocab_size": (1, 500, 100),
    "batch_size": (1, 40, 1),
    "seq_len": (1, 5000, 1),
    "concurrency": (1, 40, 1),
    "context": (1, 9000, 1),
}
"""From, below, and by which factor."""


def drawn(names: tuple[str, ...], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: SPANS[name][2] * rng.integers(*SPANS[name][:2], DRAWN) for name in names}


def singly(single: Single, model: Any, at: dict[str, int]) -> int | None:
    try:
        return single(model, at)
    except tfcalc.InvalidModel:
        return None


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PRESETS)
def test_each_point_is_a_single_answer(name: str, case: str) -> None:
    """Heads that do not divide the width among them: there both have no answer."""
    of, how, names, single = CASES[case]
    model, sizes = tfcalc.load(name), drawn(names, 15)
    swept = tfcalc.sweep(model, of, **how, **sizes)
    for row, found in enumerate(swept.to_dict()[swept.key]):
        at = {size: int(values[row]) for size, values in sizes.items()}
        assert found == singly(single, model, at), at


CACHES = {
    "llama-3-8b": Serving(),
    "gemma-2-2b": Serving(cache="dynamic", kv="fp8"),  # every other layer keeps a window
    "deepseek-v2-lite": Serving(block=32),
    "gpt2": Serving(cache="static"),
}


@pytest.mark.parametrize("name", CACHES)
def test_caches_are_those_of_single_answers(name: str) -> None:
    """At 250 random points of each: its layers' caches, added up in a run with these whole numbers; at three of them,
    the whole answer, which takes 20 times as long."""
    model, plan, rng = tfcalc.load(name), CACHES[name], np.random.default_rng(1015)
    requests, contexts = rng.integers(1, 200, 250), rng.integers(1, 20_000, 250)
    swept = tfcalc.sweep(model, "cache", serving=plan, concurrency=requests, context=contexts).values.tolist()
    points = [
        plan.replaced(concurrency=b, context=c) for b, c in zip(requests.tolist(), contexts.tolist(), strict=True)
    ]
    for found, point in zip(swept, points, strict=True):
        run, one = resolve_serving(model, Workload(), point)
        tree = model.tree(at_work(run, one))
        block = value_of(one.block)
        held = cache(tree, how=one.cache, format=cache_format(one.kv), longest=one.context, block=block)
        assert found == held.total(bytes_held), point
    for found, point in zip(swept[:3], points, strict=False):
        assert found == tfcalc.memory(model, serving=point).totals["kv_cache_bytes"], point


def test_points_of_no_model_have_no_answer() -> None:
    """512 and 768 have 8 heads of 64 and 96; 514 and 3 do not divide by 8."""
    swept = tfcalc.sweep(tfcalc.Transformer(kind="encoder", n_layers=1), d_model=[512, 514, 768, 3])
    assert swept.valid.tolist() == [True, False, True, False]
    assert swept.to_dict()["total_params"] == [12 * 512**2 + 15 * 512, None, 12 * 768**2 + 15 * 768, None]
    assert np.ma.getmaskarray(swept.values).tolist() == [False, True, False, True]
    (why,) = swept.refused
    assert (why.first, why.points) == (1, 2)
    assert "d_model 514 is not divisible by heads 8" in str(why.error)


def test_where_no_point_has_an_answer_the_first_refusal_is_raised() -> None:
    with pytest.raises(tfcalc.InvalidModel, match="d_model 513 is not divisible by heads 8"):
        tfcalc.sweep(tfcalc.Transformer(), d_model=[513, 514])


def test_layers_of_both_stacks_are_swept_together() -> None:
    model = tfcalc.load("t5-small")
    swept = tfcalc.sweep(model, n_layers=[2, 6])
    assert swept.values.tolist() == [tfcalc.params(model.replaced(n_layers=n)).answer for n in (2, 6)]


def test_sizes_of_plans_are_swept() -> None:
    model, ranks = tfcalc.load("gpt2"), [4, 8]
    swept = tfcalc.sweep(model, "trainable", training=Training(lora=4), lora=ranks)
    # 12 layers with c_attn (768 → 2,304), c_proj (768 → 768), c_fc (768 → 3,072), c_proj (3,072 → 768)
    each = 768 + 2304 + 768 + 768 + 768 + 3072 + 3072 + 768
    assert swept.values.tolist() == [12 * rank * each for rank in ranks]


def test_numbers_beyond_64_bits_are_exact() -> None:
    run, lengths = Workload(batch_size=10**6), [10**6, 10**9]
    swept = tfcalc.sweep(tfcalc.load("llama-3-8b"), "flops", run, seq_len=lengths)
    assert swept.values.dtype == object
    for length, found in zip(lengths, swept.values.tolist(), strict=True):
        assert found == tfcalc.flops(tfcalc.load("llama-3-8b"), run.replaced(seq_len=length)).answer > 2**63


def test_reach_is_above_every_number_on_the_way() -> None:
    """20h² - h at h ≤ 100 meets 200,000 and 100, h²/a 10,000 before it is divided, ⌊h/7⌋ 100."""
    h, a = symbols("h a")
    most = {"h": 100, "a": 5}
    assert reach(20 * h * h - h, most) == 200_100
    assert reach(h * h / a, most) == 10_000
    assert reach(h // 7, most) == 101


def test_more_runs_than_anybody_waits_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In training each model is run by itself."""
    monkeypatch.setattr("tfcalc.arrays.evaluation.RUNS", 3)
    model = tfcalc.Transformer(kind="encoder", n_layers=1, d_model=8)
    assert tfcalc.sweep(model, "memory", TRAIN, n_layers=[1, 2, 3]).rows == 3
    with pytest.raises(tfcalc.UsageError, match="more than 3 runs"):
        tfcalc.sweep(model, "memory", TRAIN, n_layers=[1, 2, 3, 4])


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"d_model": []}, "d_model has no values"),
        ({"d_model": [64.0]}, "values of d_model are not whole numbers"),
        ({"d_model": [0, 64]}, "d_model 0 is too small"),
        ({"d_model": [10**13]}, "d_model 1e\\+13 is too large"),
        ({"d_model": [8, 16], "n_layers": [1, 2, 3]}, "make no points"),
        ({"d_model": np.arange(1, 4001)[:, None], "n_layers": np.arange(1, 4001)}, "16,000,000 points are too many"),
        ({"d_model": [8], "h": [8]}, "d_model and h are one size"),
        ({"width": [8]}, "'width' is not known"),
        ({"lora": [8]}, "'lora' is not known"),
    ],
)
def test_what_cannot_be_swept_is_refused(sizes: dict[str, Any], said: str) -> None:
    with pytest.raises(tfcalc.UsageError, match=said) as refusal:
        tfcalc.sweep(tfcalc.Transformer(), **sizes)
    assert "\n" not in str(refusal.value)


def test_without_numpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    with pytest.raises(tfcalc.Unavailable, match=r"numpy is not installed.*tfcalc\[sweep\]"):
        tfcalc.sweep(tfcalc.Transformer(), d_model=[512])


def test_columns_are_labelled_and_numpy_takes_them() -> None:
    swept = tfcalc.sweep(tfcalc.load("gpt2"), "flops", batch_size=[[1], [2]], seq_len=[8, 16, 24])
    assert list(swept.columns) == ["batch_size", "seq_len", "total_flops"]
    assert swept.units == {"batch_size": "", "seq_len": "tokens", "total_flops": "flops"}
    assert swept.shape == swept.values.shape == (2, 3)
    assert swept["seq_len"].tolist() == [8, 16, 24, 8, 16, 24]
    records = np.asarray(swept)
    assert records.dtype.names == ("batch_size", "seq_len", "total_flops")
    assert records["total_flops"].tolist() == swept.values.ravel().tolist()
    marked = np.asarray(tfcalc.sweep(tfcalc.Transformer(), d_model=[512, 513]))
    assert marked["total_params"][0] == 44_140_544
    assert np.isnan(marked["total_params"][1])


def test_progress_ends_with_all_points() -> None:
    told: list[int] = []
    tfcalc.sweep(tfcalc.load("gpt2"), "flops", progress=told.append, seq_len=[8, 16, 24])
    assert told[-1] == 3
    assert told == sorted(told)
