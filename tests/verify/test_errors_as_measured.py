"""The table of errors: a class that it has as exact is so for a config that it was not made with."""

from __future__ import annotations

import pytest

from tfcalc.training.measured import errors as recorded

pytestmark = pytest.mark.torch

ANOTHER = 50
"""A draw that the table does not know."""
EXACT = [f"{name}:{each}" for name, classes in recorded().items() for each, error in classes.items() if not error]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", EXACT)
def test_exact_classes_are_exact_for_another_config(name: str) -> None:
    from tests.verify.compare_memory import CASES, errors

    found: list[float] = []
    for (attention, recipe), data in zip((*reversed(CASES), CASES[0]), (False, False, True), strict=True):
        found = found or errors(name, attention, recipe, 1, first=ANOTHER, data=data)
    assert found == [0.0]
