"""Every recorded model of tests/oracle/params.public.jsonl: parameters, active ones and buffers, to the last one.

The rows were recorded from transformers 5.23.0 (see tests/oracle/README.md); none comes from tfcalc.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfcalc.core.component import STORED, Measure
from tfcalc.core.measure import active_params, params
from tfcalc.core.number import total
from tfcalc.families.published import Published
from tfcalc.workload import Workload

ROWS = [json.loads(line) for line in (Path(__file__).parent / "oracle" / "params.public.jsonl").open(encoding="utf-8")]
BUFFERS = Measure(lambda cost: total(buffer.size for buffer in cost.buffers), STORED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model_type']}:{row['model']}")
def test_a_published_model_is_counted_exactly(row: dict[str, Any]) -> None:
    root = Published(row["config"]).tree(Workload())
    assert root.total(params) == row["total_params"]
    if "active_params" in row:
        assert root.total(active_params) == row["active_params"]
    assert root.total(BUFFERS) == row["persistent_buffers"]
