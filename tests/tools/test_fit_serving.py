"""The fits of serving's rates that run side by side, against each run alone."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests import serving_runs
from tests.serving_runs import Run
from tools.fit_serving import NONE, WITHIN, Fit, System, beginning

ENGINE = "nim"
FEW = 4
"""Runs of each system: formulas are the same with few."""


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Run]]:
    """A few runs of each system of an engine."""
    found: dict[str, list[Run]] = defaultdict(list)
    for row in serving_runs.rows():
        if row["unit"].startswith(f"{ENGINE}/") and not row["suspect"] and len(found[row["unit"]]) < FEW:
            run = serving_runs.run_of(row)
            if run is not None and run.linked and run.runs_known:
                found[row["unit"]].append(run)
    return dict(found)


def test_a_fit_beside_others_that_leaves_a_system_out_is_the_fit_to_all_runs_but_its_own(
    runs: dict[str, list[Run]],
) -> None:
    every = [run for each in runs.values() for run in each]
    leaving: list[System] = [NONE, *((ENGINE, unit) for unit in runs)]
    assert len(leaving) > 2
    together = Fit({ENGINE: every}, {ENGINE: beginning(ENGINE)}, leaving)
    together.run(2)
    moved = set()
    for place, (_, left) in enumerate(leaving):
        others = [run for unit, each in runs.items() if unit != left for run in each]
        alone = Fit({ENGINE: others}, {ENGINE: beginning(ENGINE)}, [NONE])
        alone.run(2)
        one, other = together.one(ENGINE, place), alone.one(ENGINE, 0)
        assert [getattr(one, rate) for rate in WITHIN] == pytest.approx([getattr(other, rate) for rate in WITHIN])
        moved.add(tuple(getattr(one, rate) for rate in WITHIN))
    assert len(moved) > 1, "a fit that no run changes says nothing"
