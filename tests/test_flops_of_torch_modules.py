"""FLOPs of torch.nn's modules, forward and backward, as PyTorch's counter recorded them (tests/oracle/README.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Transformer, Workload, flops
from tfcalc.core.component import Component
from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.module import Context, Encoded, Module
from tfcalc.tape.counting import Counting
from tfcalc.zoo.classic import Layer

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
    asked, width = run.input_gradient, row.get("d_model", 512)
    if module.startswith("nn.MultiheadAttention"):
        read = (width, row.get("kdim") or width, row.get("vdim") or width)
        attention = attends("attention", CrossAttention, width, row["heads"], read, causal=False)
        return ran(attention, run, width, reached=asked)
    if module.startswith("output head"):
        head = Linear("output", width, row["vocab"], "vocab")
        return ran(head, run.replaced(seq_len=row["length"], source_len=None), width, reached=True)
    sizes = {
        name: row[key] for name, key in (("d_model", "d_model"), ("n_heads", "heads"), ("d_ff", "d_ff")) if key in row
    }
    sizes["pre_norm"] = row["norm_first"]
    if module == "nn.Transformer()":
        return Transformer(**sizes).tree(run)
    if module.startswith("nn.TransformerEncoderLayer"):
        return Transformer(kind="encoder", n_layers=1, **sizes).tree(run)
    assert module == "nn.TransformerDecoderLayer"
    model = Transformer(**sizes)
    f, heads, names = model.size("d_ff"), row.get("heads", 8), ("self", "cross", "ffn")
    subs = (
        attends("self_attention", Attention, width, heads, (width,) * 3, causal=True),
        attends("cross_attention", CrossAttention, width, heads, (width,) * 3, causal=False),
        FeedForward("ffn", Linear("up", width, f, "1", True), Linear("down", f, width, "2", True), "relu"),
    )
    norms = tuple(Norm(f"{name}_norm", "layernorm", width) for name in names)
    layer = Layer("layer", subs, norms, called=names, first=model.pre_norm)
    return ran(layer, run, width, reached=asked)


def attends(name: str, of: type[Attention], h: int, heads: int, read: tuple[int, ...], *, causal: bool) -> Attention:
    """Multi-head attention whose queries, keys and values are made of vectors that are so wide."""
    maps = tuple(Linear(f"W_{letter}", width, h, letter, True) for letter, width in zip("QKV", read, strict=True))
    return of(name, heads, heads, h // heads, h // heads, maps, (), Linear("W_O", h, h, "O", True), causal=causal)


def ran(module: Module, run: Workload, width: int, *, reached: bool) -> Component:
    """What it counts, where the gradient of what it reads is asked for, or is not."""
    trace, queries, keys = Counting(), run.target, run.source
    shapes = [(each.batch, each.length, width) for each in (queries, keys)]
    x, memory = (trace.reached(shape) if reached else trace.given(shape, "float32", "input") for shape in shapes)
    module(x, Context(run, queries, memory=Encoded(memory, keys)))
    (record,) = trace.record.inside.values()
    return record.component()


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
