"""Nothing random decides whether a first run of the tests passes."""

from __future__ import annotations

import pytest

from tests.examples import MORE, examples


def test_property_tests_try_the_same_examples_in_every_run(pytestconfig: pytest.Config) -> None:
    exploring = pytestconfig.getoption("--hypothesis-profile") == "explore"
    chosen = examples(7)
    assert chosen.derandomize is not exploring
    assert chosen.max_examples == (7 * MORE if exploring else 7)
    assert chosen.deadline is None
    assert chosen.database is None
