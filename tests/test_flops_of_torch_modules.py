"""FLOPs of torch.nn's modules, forward and backward, as PyTorch's counter recorded them (tests/oracle/README.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Transformer, Workload, flops
from tfcalc.blocks import Attention, FeedForward, Layer
from tfcalc.core.component import Component
from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.leaves import linear
from tfcalc.workload import Sequences

ROWS = recorded("modules.public.jsonl")


def component(row: dict[str, Any]) -> Component:
    """The same module in tfcalc."""
    module = row["module"]
    target = row.get("target_length") or row["length"]
    run = Workload(
        batch_size=row["batch"],
        seq_len=target,
        source_len=row.get("source_length"),
        phase="train",
        kernel=row.get("kernel", "math"),
        input_gradient=row.get("input_requires_grad", False),
        dropout=False,
    )
    asked = run.input_gradient
    queries, keys = run.target._replace(needs_gradient=asked), run.source._replace(needs_gradient=asked)
    if module.startswith("nn.MultiheadAttention"):
        width = row["d_model"] // row["heads"]
        attention = Attention(
            d_model=row["d_model"],
            n_heads=row["heads"],
            n_kv_heads=row["heads"],
            head_dim=width,
            value_dim=width,
            bias=True,
            key_width=row.get("kdim"),
            value_width=row.get("vdim"),
        )
        return attention("attention", queries, keys, run, causal=False)
    if module.startswith("output head"):
        return linear("output", row["d_model"], row["vocab"], Sequences(row["batch"], row["length"]).tokens)
    sizes = {
        name: row[key] for name, key in (("d_model", "d_model"), ("n_heads", "heads"), ("d_ff", "d_ff")) if key in row
    }
    sizes["pre_norm"] = row["norm_first"]
    if module == "nn.Transformer()":
        return Transformer(**sizes).tree(run)
    if module.startswith("nn.TransformerEncoderLayer"):
        return Transformer(kind="encoder", n_layers=1, **sizes).tree(run)
    assert module == "nn.TransformerDecoderLayer"
    pre_norm, parts = sizes.pop("pre_norm"), Transformer(**sizes)
    layer = Layer(*blocks_of(parts), parts.d_model, "layernorm", causal=True, post_norm=not pre_norm)
    return layer(queries._replace(needs_gradient=asked or pre_norm), keys, run)


def blocks_of(model: Transformer) -> tuple[Attention, FeedForward]:
    """The blocks that torch.nn.TransformerDecoderLayer is made of."""
    h, a, width = model.d_model, model.n_heads, model.size("head_dim")
    return Attention(h, a, a, width, width, bias=True), FeedForward(h, model.size("d_ff"), "relu", bias=True)


@pytest.mark.parametrize("module", sorted({row["module"] for row in ROWS}))
def test_forward_and_backward_are_equal_to_the_last_flop(module: str) -> None:
    rows = [row for row in ROWS if row["module"] == module]
    assert rows
    for row in rows:
        ours = component(row)
        assert ours.total(matmul_flops) == row["forward_flops"], row
        assert ours.total(matmul_backward_flops) == row["backward_flops"], row


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
