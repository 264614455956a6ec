"""Forward FLOPs of whole models as PyTorch's FlopCounterMode counted them (tests/oracle/zoo.public.jsonl)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc.configs.published import Published
from tfcalc.core.measure import matmul_flops
from tfcalc.workload import Workload

ROWS = recorded("zoo.public.jsonl")
CONFIGS = json.loads((Path(__file__).parent / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']}-{row['attention']}-{row['batch']}x{row['seq']}")
def test_a_forward_pass_is_counted_to_the_last_flop(row: dict[str, Any]) -> None:
    target = row.get("target_seq")  # of an encoder-decoder, where seq is the source's
    run = Workload(batch_size=row["batch"], seq_len=target or row["seq"], source_len=row["seq"] if target else None)
    assert Published(CONFIGS[row["model"]]).tree(run).total(matmul_flops) == row["forward_flops"]
