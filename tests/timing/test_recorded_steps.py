"""Steps that were timed on one H100 (tests/oracle/memory/h100.jsonl), beside the estimates of ``train``."""

from __future__ import annotations

from statistics import mean, median

import pytest

from tfcalc.timing.estimate import EAGER
from tfcalc.timing.rates import table
from tools.fit_transformers import steps


@pytest.fixture(scope="module")
def errors() -> dict[str, list[float]]:
    """Errors by length of the step: of at least 0.1 s, and of shorter ones, which wait for Python."""
    found: dict[str, list[float]] = {"long": [], "short": []}
    for step in steps():
        found["long" if step.seconds > 0.15 else "short"].append(step.error(table()))
    return found


def test_half_of_them_are_within_a_tenth(errors: dict[str, list[float]]) -> None:
    sizes = [abs(error) for each in errors.values() for error in each]
    assert median(sizes) <= 0.1
    assert mean(sizes) <= 0.13


def test_long_steps_are_closer(errors: dict[str, list[float]]) -> None:
    assert len(errors["long"]) > 25
    assert mean(map(abs, errors["long"])) <= 0.09


def test_the_band_has_nine_of_ten(errors: dict[str, list[float]]) -> None:
    """It was learned with whole models left out, so that it is not too narrow for those that were not."""
    most = table()["bands"][EAGER]["p90"]
    both = [*errors["long"], *errors["short"]]
    assert sum(-most / (1 + most) <= error <= most / (1 - most) for error in both) >= 0.9 * len(both)
    assert len(both) == table()["bands"][EAGER]["runs"]
