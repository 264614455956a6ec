"""Live: PyTorch's FSDPMemTracker says what was recorded of it (tests/oracle/memory/fsdp.jsonl)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.verify.fsdp_peaks import CASES, fsdp_peaks

pytestmark = pytest.mark.torch
ROWS = Path(__file__).parents[1] / "oracle" / "memory" / "fsdp.jsonl"


@pytest.mark.parametrize("place", [0, 3, 8])
def test_a_step_of_fsdp_is_as_it_was_recorded(place: int) -> None:
    row = json.loads(ROWS.read_text(encoding="utf-8").splitlines()[place])
    tracked = fsdp_peaks(CASES[place])
    for phase, kinds in row["peaks"].items():
        assert tracked[phase]["Total"] == pytest.approx(kinds["Total"], rel=0.005), phase
