"""How a mixture of experts is counted, whichever way transformers runs it (tests/oracle/experts.public.jsonl)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.workload import Workload

# The rows do not say how large their tiny Mixtral is. What each expert adds to the router, 2·t·h·n = 38,400, and each
# active one to the rest, 6·t·h·f·n = 11,059,200, leave f = 96 and t·h·n = 19,200; the rest fits these sizes.
TINY = {
    "model_type": "mixtral",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 120,
}
RUN = Workload(batch_size=3, seq_len=100, phase="train", kernel="eager")
UNSEEN = "grouped_mm"
"""PyTorch's counter has no formula for it, so that it sees the router, but no expert."""


@pytest.mark.parametrize("row", recorded("experts.public.jsonl"), ids=lambda row: "-".join(map(str, row.values())))
def test_active_experts_and_the_router_are_counted(row: dict[str, Any]) -> None:
    model = HFModel({**TINY, "num_local_experts": row["experts"], "num_experts_per_tok": row["top_k"]})
    root = model.tree(RUN).root()
    experts = [node for node in root.walk() if node.component.kind == "experts"]
    for measure, key in ((matmul_flops, "forward_flops"), (matmul_backward_flops, "backward_flops")):
        unseen = sum(node.total(measure) for node in experts) if row["experts_implementation"] == UNSEEN else 0
        assert root.total(measure) - unseen == row[key]
