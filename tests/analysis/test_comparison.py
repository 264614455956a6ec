"""Conventions side by side, each held against its paper."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Program, recorded
from tests.formula_reader import evaluate
from tfcalc import Transformer, UsageError, Workload, flops, load, params
from tfcalc.analysis.papers import CHINCHILLA, chinchilla, chinchilla_layers
from tfcalc.analysis.shape import Shape
from tfcalc.answers.flops_by_convention import compare_conventions
from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial

PUBLISHED = recorded("published.jsonl")
MEGATRON = [row for row in PUBLISHED if row["table"] == "Megatron-2021 T1"]
CHINCHILLA_A4 = [row for row in PUBLISHED if row["table"] == "Chinchilla A4"]
V, S = 51_200, 2048
"""Of Megatron's models."""


def gpt(h: int, heads: int, layers: int, vocabulary: int = V, length: int = S) -> Transformer:
    """GPT: a decoder with learned positions and a tied head."""
    return Transformer(
        kind="decoder",
        d_model=h,
        n_heads=heads,
        n_layers=layers,
        vocab_size=vocabulary,
        positions="learned",
        max_len=length,
        output_head="tied",
        pre_norm=True,
        activation="gelu",
    )


@pytest.mark.parametrize("row", MEGATRON, ids=lambda row: f"{row['params_B']}B")
def test_megatrons_table_1(row: dict[str, Any]) -> None:
    """Its F = 96Bslh²(1 + s/6h + V/16lh) is three forward passes and one of the blocks again, to the last FLOP."""
    h, n, b = row["h"], row["L"], row["batch"]
    model = gpt(h, row["heads"], n)
    run = Workload(batch_size=b, seq_len=S, phase="train", recompute="full")
    by_hand = 96 * b * S * n * h * h + 16 * b * S * S * n * h + 6 * b * S * h * V
    assert by_hand == pytest.approx(96 * b * S * n * h * h * (1 + S / (6 * h) + V / (16 * n * h)), rel=1e-12)
    found = compare_conventions(model, run)
    assert found.row("Megatron-LM").flops == found.row("recomputed").flops == flops(model, run).answer == by_hand
    forward, blocks = (24 * b * S * n * h * h + 4 * b * S * S * n * h + head for head in (2 * b * S * h * V, 0))
    assert by_hand == 3 * forward + blocks
    assert found.exact_flops == 3 * forward
    # P = 12lh²(1 + 13/12h + (V + s)/12lh), to which we add the final norm
    assert params(model).answer == 12 * n * h * h + 13 * n * h + (V + S) * h + 2 * h
    assert params(model).answer / 1e9 == pytest.approx(row["params_B"], rel=0.029)
    # TFLOP/s per GPU and all together: printed without and with one decimal
    assert row["tflops_gpu"] * row["gpus"] / 1000 == pytest.approx(row["agg_pflops"], rel=0.006)


@pytest.mark.parametrize(("recompute", "factor"), [("none", 12), ("selective", 6)])
def test_korthikantis_equations(recompute: str, factor: int) -> None:
    """Eq. 7 has s/6h, eq. 8 (selective recomputation) s/3h: 72BLsh²(1 + s/… + V/12hL)."""
    h, n, b = 6144, 48, 4
    run = Workload(batch_size=b, seq_len=S, phase="train", recompute=recompute)
    found = compare_conventions(gpt(h, 64, n), run).row("Megatron-LM").flops
    assert found == 72 * b * n * S * h * h + 144 // factor * b * n * S * S * h + 6 * b * S * h * V


@pytest.mark.parametrize("row", CHINCHILLA_A4, ids=lambda row: row["name"])
def test_chinchillas_table_a4(row: dict[str, Any]) -> None:
    """The printed ratios to 6ND come out if neither the embedding nor the logits of appendix F are counted."""
    x = Shape(b=1, l=2048, N=0, n=row["L"], h=row["d"], a=row["heads"], d=row["kv"], f=row["ffw"], V=32_000)
    six_nd = 6 * row["params_M"] * 10**6 * 2048
    counted = 3 * chinchilla_layers(x)
    assert isinstance(counted, int)
    assert abs(counted / six_nd - row["ratio"]) < 0.01
    assert abs(counted / six_nd - row["ratio"]) < abs(CHINCHILLA.flops(x, True, "none") / six_nd - row["ratio"])


def test_chinchilla_is_appendix_f_by_hand() -> None:
    x = Shape(b=1, l=7, N=0, n=2, h=12, a=3, d=5, f=40, V=100)
    keys = 5 * 3
    attention = 2 * 3 * 7 * 12 * keys + 2 * 7 * 7 * keys + 3 * 3 * 7 * 7 + 2 * 7 * 7 * keys + 2 * 7 * keys * 12
    dense = 2 * 7 * (12 * 40 + 12 * 40)
    assert chinchilla(x) == 2 * 7 * 100 * 12 + 2 * (attention + dense) + 2 * 7 * 12 * 100


def test_palm_and_kaplan_of_gpt_2_by_hand() -> None:
    found = compare_conventions(load("gpt2"), Workload(batch_size=2, seq_len=1024, phase="train"))
    tokens = 2 * 1024
    assert found.row("PaLM").flops == tokens * (6 * 124_439_808 + 12 * 12 * 12 * 64 * 1024)
    assert found.row("Kaplan").flops == tokens * 3 * (2 * 12 * 12 * 768**2 + 2 * 12 * 1024 * 768)
    assert found.row("6ND").flops == tokens * 6 * 124_439_808
    assert found.row("6ND, no embeddings").flops == tokens * 6 * 85_056_000
    assert found.row("Megatron-LM").flops == found.exact_flops


def test_the_traps_of_llama_2_7b() -> None:
    """From public threads: 54.1T, 58.5T and 31.5T are the same forward pass of 4,096 tokens."""
    found = compare_conventions(load("llama-2-7b"), Workload(seq_len=4096))
    expected = {
        "exact": 62_921_270_886_400,
        "multiply-adds": 31_460_635_443_200,
        "causal": 58_524_298_117_120,
        "causal-half": 58_523_224_375_296,
        "2ND": 2 * 6_738_415_616 * 4096,
        "2ND, no embeddings": 2 * 6_607_343_616 * 4096,
    }
    assert {name: found.row(name).flops for name in expected} == expected
    weights = 54_125_177_864_192
    assert found.exact_flops - weights == 8_796_093_022_208  # attention's products
    assert found.row("PaLM").flops == 2 * 6_738_415_616 * 4096 + 8_796_093_022_208


UNDEFINED = {
    "llama-3-8b": ("grouped-query heads (8 for 32)", ["Kaplan", "Chinchilla", "Megatron-LM"]),
    "llama-2-7b": ("a gated feed-forward network", ["Kaplan", "Chinchilla", "Megatron-LM"]),
    "mixtral-8x7b": ("experts", ["PaLM", "Kaplan", "Chinchilla", "Megatron-LM"]),
    "t5-small": ("an encoder-decoder", ["PaLM", "Kaplan", "Chinchilla", "Megatron-LM"]),
    "albert-large-v2": ("layers that share their weights", ["PaLM", "Kaplan", "Chinchilla", "Megatron-LM"]),
    "mamba-1.4b": ("layers of more or less than attention and a feed-forward network", ["PaLM", "Kaplan"]),
    "bert-base-uncased": ("no output head", ["Chinchilla", "Megatron-LM"]),
    "deberta-large": ("attention of other products than Q Kᵀ and P V", ["PaLM"]),
    "dinov2-small": ("attention of other pairs than each token with each", ["PaLM"]),
    "gemma-4-31b-it-nvfp4": ("attention of other projections than of queries, keys, values and output", ["PaLM"]),
    "longformer-large-4096": ("attention of other products than Q Kᵀ and P V", ["PaLM"]),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_outside_of_a_paper_there_is_a_reason_and_no_number(name: str) -> None:
    reason, rows = UNDEFINED[name]
    found = compare_conventions(load(name))
    assert found.row("2ND").flops
    for row in rows:
        assert (found.row(row).flops, found.row(row).reason) == (None, reason)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"head_dim": 32}, "heads 256 wide together, not 512"),
        ({"d_ff": 1024}, "a feed-forward size of 1,024, not 4 x 512"),
        ({"output_head": "none"}, "no output head"),
        ({"value_dim": 32}, "attention of other products than Q Kᵀ and P V"),
        ({"n_kv_heads": 1}, "grouped-query heads (1 for 8)"),
    ],
)
def test_megatron_is_about_gpt_alone(more: dict[str, Any], reason: str) -> None:
    found = compare_conventions(replace(gpt(512, 8, 2), **more), Workload(seq_len=64))
    assert found.row("Megatron-LM").reason == reason


def test_palm_covers_grouped_queries_and_gates_as_its_model_has_both() -> None:
    model = load("gemma-7b")  # 16 heads of 256 on a width of 3,072, gated
    n = params(model).answer
    found = compare_conventions(model, Workload(seq_len=128, phase="train"))
    assert found.row("PaLM").flops == 128 * (6 * n + 12 * 28 * 16 * 256 * 128)


def test_recomputing_every_other_layer_is_in_no_paper() -> None:
    found = compare_conventions(gpt(64, 2, 4), Workload(seq_len=8, phase="train", recompute="every:2"))
    assert found.row("Megatron-LM").reason == "recomputation every:2"
    assert (
        found.row("recomputed").flops
        == found.exact_flops + flops(gpt(64, 2, 2, 1), Workload(seq_len=8)).answer - 2 * 8 * 64
    )
    assert found.row("PaLM").flops


def test_what_the_user_chose_is_a_row_and_changes_no_other() -> None:
    model = load("gpt2")
    by = {
        attention: compare_conventions(model, Workload(seq_len=64, attention=attention))
        for attention in ("full", "causal", "causal-half")
    }
    assert len({str(found.conventions_told) for found in by.values()}) == 1
    for attention in ("causal", "causal-half"):
        assert by["full"].row(attention).flops == flops(model, Workload(seq_len=64, attention=attention)).answer


@pytest.mark.parametrize("phase", ["forward", "train"])
def test_a_printed_formula_gives_its_number(phase: str) -> None:
    """Read by the independent reader, at the sizes of the model."""
    run = Workload(batch_size=3, seq_len=50, phase=phase)
    found = compare_conventions(gpt(96, 4, 5, 1000), run)
    sizes = {"b": 3, "l": 50, "n": 5, "h": 96, "a": 4, "d": 24, "f": 384, "V": 1000}
    quoted = [row for row in found.conventions_told if isinstance(row.formula, Polynomial)]
    assert len(quoted) == 6
    for row in quoted:
        n = found.counted.without_embeddings if "no embeddings" in row.name else found.counted.every
        assert evaluate(write(row.formula), {**sizes, "N": n}) == row.flops


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_other_phases_are_refused(phase: str) -> None:
    with pytest.raises(UsageError, match=f"not {phase}; "):
        compare_conventions(load("gpt2"), Workload(phase=phase))


def test_the_json_lists_the_conventions(tfcalc: Program) -> None:
    found = json.loads(tfcalc("flops", "llama-3-8b", "--compare-conventions", "--json").stdout)
    assert found["exact_flops"] == found["total_flops"] == found["compared"][0]["flops"]
    assert {row["convention"]: row["ratio"] for row in found["compared"]}["multiply-adds"] == 0.5
    assert next(row for row in found["compared"] if row["convention"] == "Kaplan") == {
        "convention": "Kaplan",
        "flops": None,
        "ratio": None,
        "formula": "2nlb(4h·a·d + 2hf + l·a·d)",
        "reference": "arXiv 2001.08361, table 1",
        "not_defined": "grouped-query heads (8 for 32)",
    }
    assert found["components"]


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex", "plain"])
def test_every_format_has_a_row_for_each(tfcalc: Program, form: str) -> None:
    shown = tfcalc("flops", "gpt2", "--train", "--compare-conventions", "--format", form).stdout
    for name in ("exact", "multiply-adds", "causal-half", "PaLM", "Kaplan", "Chinchilla", "Megatron-LM"):
        assert name in shown
    assert tfcalc("flops", "gpt2", "--compare-conventions", "-q").stdout == tfcalc("flops", "gpt2", "-q").stdout
