"""The table of errors: a family that it has as exact is so for a config that it was not made with."""

from __future__ import annotations

import pytest

from tfcalc.implementations.transformers.measured import errors as recorded

pytestmark = pytest.mark.torch

ANOTHER = 50
"""A draw that the table does not know."""
EXACT = [model_type for model_type, error in recorded().items() if not error]


@pytest.mark.parametrize("model_type", EXACT)
def test_exact_families_are_exact_for_another_config(model_type: str) -> None:
    from tests.verify.compare_memory import CASES, errors

    found: list[float] = []
    for (attention, recipe), data in zip((*reversed(CASES), CASES[0]), (False, False, True), strict=True):
        found = found or errors(model_type, attention, recipe, 1, first=ANOTHER, data=data)
    assert found == [0.0]
