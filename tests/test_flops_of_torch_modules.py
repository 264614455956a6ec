"""FLOPs of torch.nn's modules, forward and backward, as PyTorch's counter recorded them (tests/oracle/README.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Transformer, Workload, flops
from tfcalc.blocks import Attention
from tfcalc.core.component import Component
from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.leaves import linear
from tfcalc.report import exact
from tfcalc.workload import Sequences

ROWS = recorded("modules.public.jsonl")


def component(row: dict[str, Any]) -> Component:
    """The same module in tfcalc."""
    module = row["module"]
    target = row.get("target_length") or row["length"]
    run = Workload(
        batch_size=row["batch"], seq_len=target, source_len=row.get("source_length"), kernel=row.get("kernel", "math")
    )
    queries, keys = run.target, run.source
    if module.startswith("nn.MultiheadAttention"):
        width = row["d_model"] // row["heads"]
        attention = Attention(
            d_model=row["d_model"],
            n_heads=row["heads"],
            n_kv_heads=row["heads"],
            head_dim=width,
            value_dim=width,
            bias=True,
            dropout=False,
            key_width=row.get("kdim"),
            value_width=row.get("vdim"),
        )
        return attention("attention", queries, keys, run, causal=False)
    if module.startswith("output head"):
        return linear("output", row["d_model"], row["vocab"], Sequences(row["batch"], row["length"]).tokens)
    sizes = {
        name: row[key] for name, key in (("d_model", "d_model"), ("n_heads", "heads"), ("d_ff", "d_ff")) if key in row
    }
    if module == "nn.Transformer()":
        return Transformer(**sizes).tree(run)
    if module.startswith("nn.TransformerEncoderLayer"):
        return Transformer(kind="encoder", n_layers=1, **sizes).tree(run)
    assert module == "nn.TransformerDecoderLayer"
    both = Transformer(n_layers=1, **sizes).tree(run)
    return next(node.component for node in both.walk() if node.path == "core.decoder.layer")


@pytest.mark.parametrize("module", sorted({row["module"] for row in ROWS}))
def test_forward_and_backward_are_equal_to_the_last_flop(module: str) -> None:
    rows = [row for row in ROWS if row["module"] == module]
    assert rows
    for row in rows:
        ours = component(row)
        assert ours.total(matmul_flops) == row["forward_flops"], row
        # Our backward gives every input its gradient; the recorded one leaves out that of an input that is a leaf.
        backward = exact(ours.total(matmul_backward_flops)) - row["flops_not_needed_without_input_grad"]
        assert backward == row["backward_flops"], row


def test_all_rows_are_covered() -> None:
    assert len(ROWS) == 206


def test_a_fused_kernel_computes_the_scores_again() -> None:
    """FlopCounterMode: backward of scaled-dot-product attention runs 5 products under flash, 4 under math."""
    model = Transformer(d_model=64, n_heads=4, n_layers=3, kind="encoder")
    scores = 2 * 2 * 64 * 64 * 64 * 3  # 2·b·l·l·h·n
    plain, fused = (
        flops(model, Workload(batch_size=2, seq_len=64, phase="train", kernel=kernel)).answer
        for kernel in ("math", "flash")
    )
    assert fused - plain == scores
