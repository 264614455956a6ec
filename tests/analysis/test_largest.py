"""The largest size within a budget: right for whatever never falls, and found in few trials."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tfcalc import Workload, load
from tfcalc.catalog import from_config
from tfcalc.plans import Serving, Training
from tfcalc.search.largest import MOST, largest
from tfcalc.serving.memory import served
from tfcalc.training.peaks import training_peak

Need = Callable[[int], int]
STARTS = st.sampled_from([1, 3, 8, 512, 4096])


class Counted:
    """A need that remembers how often it was asked."""

    def __init__(self, need: Need) -> None:
        self.need, self.asked = need, list[int]()

    def __call__(self, size: int) -> int:
        self.asked.append(size)
        return self.need(size)


def is_boundary(need: Need, budget: int, found: int, most: int = MOST) -> bool:
    """Whether this one fits, and one more does not."""
    below = found == 0 or need(found) <= budget
    return below and (found == most or need(found + 1) > budget)


@given(
    fixed=st.integers(0, 10**11),
    slope=st.integers(1, 10**9),
    floor=st.integers(0, 10**12),
    size=st.integers(0, 10**6),
    start=STARTS,
)
def test_lines_over_a_floor(fixed: int, slope: int, floor: int, size: int, start: int) -> None:
    """As a batch needs memory: the optimizer's step, or else the activations."""
    need = Counted(lambda n: max(floor, fixed + slope * n))
    budget = fixed + slope * size + slope // 2
    found = largest(need, budget, start=start)
    assert is_boundary(need.need, budget, found)
    assert len(need.asked) <= 60
    if floor > budget:
        assert found == 0


@given(st.integers(0, 10**11), st.integers(1, 10**9), st.integers(0, 10**6), STARTS)
def test_a_line_takes_few_trials(fixed: int, slope: int, size: int, start: int) -> None:
    need = Counted(lambda n: fixed + slope * n)
    assert largest(need, fixed + slope * size + slope // 2, start=start) == size
    assert len(need.asked) <= 8


@given(
    a=st.integers(0, 10**6),
    b=st.integers(1, 10**8),
    c=st.integers(0, 10**11),
    block=st.integers(1, 4096),
    budget=st.integers(1, 10**16),
    start=STARTS,
)
def test_parabolas_roots_and_stairs(a: int, b: int, c: int, block: int, budget: int, start: int) -> None:
    shapes: list[Need] = [
        lambda n: c + b * n + a * n * n,
        lambda n: c + b * (-(-n // block)),
        lambda n: c + b * isqrt(n),
        lambda n: max(2 * c, c + a * (-(-n // block) * block) ** 2),
        lambda n: c + b * min(n, block),
    ]
    for shape in shapes:
        need = Counted(shape)
        found = largest(need, budget, start=start)
        assert is_boundary(shape, budget, found)
        assert len(need.asked) <= 100
        assert len(need.asked) == len(set(need.asked)), "no size is asked for twice"


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=300),
    st.integers(0, 200_000),
    st.integers(1, 400),
    st.sampled_from([1, 2, 16, 500]),
)
def test_whatever_never_falls(steps: list[int], budget: int, start: int, step: int) -> None:
    needs = list(accumulate(steps))
    found = largest(lambda n: needs[n - 1], budget, start=start, most=len(needs), step=step)
    assert found == sum(need <= budget for need in needs)


@given(st.integers(0, 10**11), st.integers(1, 10**9), st.integers(1, 10**5), st.sampled_from([8, 16, 256]), STARTS)
def test_stairs_whose_steps_are_known_take_few_trials(c: int, slope: int, steps: int, wide: int, start: int) -> None:
    """As a paged cache needs memory: block by block."""
    need = Counted(lambda n: c + slope * -(-n // wide))
    assert largest(need, c + slope * steps + slope // 2, start=start, step=wide) == steps * wide
    assert len(need.asked) <= 12


def test_what_has_no_limit_stops_at_the_most() -> None:
    assert largest(lambda _: 5, 5) == MOST
    assert largest(lambda n: n, 10**15, most=1000) == 1000
    assert largest(lambda n: n, 5, most=0) == 0
    assert largest(lambda n: n, 0) == 0


def training(name: str, field: str, run: Workload, plan: Training) -> Need:
    return lambda size: training_peak(load(name), run.replaced(**{field: size}), plan)


@pytest.mark.parametrize("kernel", ["eager", "math", "efficient", "flash"])
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize(("field", "start", "trials"), [("batch_size", 8, 8), ("seq_len", 1024, 16)])
def test_one_more_does_not_fit_in_training(kernel: str, recompute: str, field: str, start: int, trials: int) -> None:
    run = Workload(batch_size=8, seq_len=1024, phase="train", kernel=kernel, recompute=recompute)
    for budget in (24 * 10**9, 80 * 2**30):
        need = Counted(training("gpt2", field, run, Training(precision="bf16")))
        found = largest(need, budget, start=start)
        assert found > 0
        assert {found, found + 1} <= set(need.asked)
        assert is_boundary(need.need, budget, found)
        assert len(set(need.asked)) <= trials


@examples(25)
@given(
    layers=st.integers(1, 4),
    heads=st.sampled_from([1, 2, 4]),
    width=st.sampled_from([8, 32, 64]),
    vocabulary=st.integers(2, 5000),
    spare=st.integers(0, 10**8),
    field=st.sampled_from(["batch_size", "seq_len"]),
)
def test_one_more_does_not_fit_in_small_models(
    layers: int, heads: int, width: int, vocabulary: int, spare: int, field: str
) -> None:
    sizes = {"n_layer": layers, "n_head": heads, "n_embd": width, "vocab_size": vocabulary}
    model = from_config({"model_type": "gpt2", **sizes})
    run = Workload(batch_size=2, seq_len=16, phase="train", kernel="eager")

    def need(size: int) -> int:
        return training_peak(model, run.replaced(**{field: size}), Training())

    budget = need(1) + spare
    assert is_boundary(need, budget, largest(need, budget, start=2))


@pytest.mark.parametrize("cache", ["dynamic", "static", "paged"])
@pytest.mark.parametrize("field", ["context", "concurrency"])
def test_one_more_does_not_fit_in_serving(cache: str, field: str) -> None:
    model, plan, run = load("gpt2"), Serving(cache=cache, context=1024), Workload(kernel="flash")
    need = Counted(lambda size: served(model, run, plan.replaced(**{field: size})).total)
    found = largest(need, 8 * 10**9)
    assert found > 1
    assert {found, found + 1} <= set(need.asked)
    assert is_boundary(need.need, 8 * 10**9, found)
    assert len(need.asked) <= 16
