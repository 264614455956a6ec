"""A few of the random problems of ``problems``; a run of many is ``python -m tests.solving.problems 1000 SEED``."""

from __future__ import annotations

import random

import pytest

from tests.solving.problems import difference, problem


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(6))
def test_solve_answers_as_trying_every_size_does(seed: int) -> None:
    asked = problem(random.Random(f"fast:{seed}"))
    assert not difference(asked), asked.condition
