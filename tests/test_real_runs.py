"""Peaks that people measured on real GPUs, beside what tfcalc says of the same runs."""

from __future__ import annotations

import pytest

from tests.real_runs import CLOSE, KEYS, UNITS, Compared, Run, all_compared, compared, run_of, runs, spread

RUNS = [pytest.param(run, id=f"{run.group}: {run.run}") for run in runs()]


def allocated(run: Run) -> bool:
    """Whether it is what PyTorch's allocator gave out. A difference of two peaks is not a peak."""
    return run.quantity in ("allocated", "active") and not run.less


def errors(found: list[Compared]) -> list[float | None]:
    return [one.error for one in found]


@pytest.mark.xfail(strict=True, reason="what CUDA does is not counted yet")
def test_the_median_error_of_allocated_bytes_is_small() -> None:
    assert abs(spread(errors(all_compared(allocated))).median) <= 0.02


@pytest.mark.xfail(strict=True, reason="what CUDA does is not counted yet")
def test_nine_of_ten_predictions_of_allocated_bytes_are_close() -> None:
    assert spread(errors(all_compared(allocated))).close >= 0.9


@pytest.mark.xfail(strict=True, reason="torchtitan's settings are not known yet")
def test_nine_of_ten_runs_have_a_number() -> None:
    said = spread(errors(all_compared()))
    assert said.numbers >= 0.9 * said.rows


@pytest.mark.parametrize("run", RUNS)
def test_a_run_without_a_number_says_why(run: Run) -> None:
    one = compared(run)
    assert (one.predicted is None) == bool(one.why_not)


@pytest.mark.parametrize("run", RUNS)
def test_each_row_is_whole(run: Run) -> None:
    assert run.measured > 0
    assert run.source
    assert run.unit in UNITS
    assert run.quantity in KEYS
    assert bool(run.arguments) != bool(run.reason)
    assert not run.less or run.arguments


def test_no_run_is_there_twice() -> None:
    assert len({(run.source, run.run) for run in runs()}) == len(runs())


def test_what_is_less_is_taken_off() -> None:
    asked = ("memory", "gpt2", "--train", "--seq", "64")
    row = {
        "group": "",
        "source": "",
        "run": "",
        "card": "",
        "quantity": "allocated",
        "unit": "GiB",
        "measured": 2.0,
        "arguments": [*asked, "--batch", "2"],
    }
    whole, base = compared(run_of(row)), compared(run_of(row | {"arguments": list(asked)}))
    difference = compared(run_of(row | {"less": list(asked)}))
    assert whole.predicted is not None
    assert base.predicted is not None
    assert difference.predicted == whole.predicted - base.predicted
    assert base.error == base.predicted / 2**31 - 1


def test_a_command_that_is_refused_has_no_number() -> None:
    row = {"group": "", "source": "", "run": "", "card": "", "quantity": "allocated", "unit": "GiB", "measured": 1.0}
    one = compared(run_of(row | {"arguments": ["memory", "gpt2", "--train", "--seq", "0"]}))
    assert one.predicted is None
    assert "0" in one.why_not


def test_statistics_by_hand() -> None:
    """Ten errors from −0.05 to 0.04: p10 lies a tenth of the way, at the place 0.9 of 0 to 9."""
    said = spread([*(place / 100 - 0.05 for place in range(10)), None, 2 * CLOSE])
    assert said.rows == 12
    assert said.numbers == 11
    assert said.median == pytest.approx(0.0)
    assert said.p10 == pytest.approx(-0.04)
    assert said.p90 == pytest.approx(0.04)
    assert said.close == pytest.approx(10 / 12)
