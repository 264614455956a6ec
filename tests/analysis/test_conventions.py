"""Every definition stands in the answer, and switching one changes what it is about and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

import pytest

from tfcalc import Conventions, Transformer, Workload, flops, load
from tfcalc.core.measure import LAYERS
from tfcalc.model import Model
from tfcalc.report import Report

DECODER = Transformer(kind="decoder", d_model=64, n_heads=4, n_layers=3, vocab_size=100)
CORE = Transformer(d_model=64, n_heads=4, n_layers=3)
STEP = Workload(batch_size=2, seq_len=24, phase="train")
FULL = Workload(batch_size=2, seq_len=24, phase="train", recompute="full", dropout=False)
PREFILL = Workload(batch_size=2, seq_len=24, phase="prefill")
TOTALS = ("forward_flops", "backward_flops", "recompute_flops", "elementwise_flops")

SWITCHES: dict[str, tuple[Model, Workload, dict[str, str | bool], set[str], set[str]]] = {
    # the model, the workload, what is switched, the totals that change, the names of the operations that change
    "attention causal": (
        DECODER,
        STEP,
        {"attention": "causal"},
        {"forward_flops", "backward_flops"},
        {"attend"},
    ),
    "attention causal-half": (
        DECODER,
        STEP,
        {"attention": "causal-half"},
        {"forward_flops", "backward_flops"},
        {"attend"},
    ),
    "attention of an encoder": (
        Transformer(kind="encoder"),
        STEP,
        {"attention": "causal"},
        set(),
        set(),
    ),
    "kernel flash": (DECODER, STEP, {"kernel": "flash"}, {"backward_flops"}, {"attend"}),
    "kernel flash, forward": (DECODER, PREFILL, {"kernel": "flash"}, set(), set()),
    "logits last": (DECODER, PREFILL, {"logits": "last"}, {"forward_flops", "elementwise_flops"}, {"output"}),
    "recompute full": (
        DECODER,
        STEP,
        {"recompute": "full"},
        {"recompute_flops", "elementwise_flops"},
        {"attend", "query", "key", "value", "output", "up", "down"},
    ),
    "recompute selective": (
        DECODER,
        STEP,
        {"recompute": "selective"},
        {"recompute_flops", "elementwise_flops"},
        {"attend"},
    ),
    "early stop": (
        DECODER.replaced(pre_norm=True),
        FULL,
        {"early_stop": True},
        {"recompute_flops", "elementwise_flops"},
        {"down"},
    ),
    "early stop, a norm behind": (DECODER, FULL, {"early_stop": True}, set(), set()),
    "dropout off": (DECODER, STEP, {"dropout": False}, {"elementwise_flops"}, set()),
    "input gradient": (CORE, STEP, {"input_gradient": True}, {"backward_flops"}, {"query", "key", "value"}),
    "input gradient behind an embedding": (DECODER, STEP, {"input_gradient": True}, set(), set()),
    "convolutions as counted": (
        load("mamba2-780m"),
        STEP,
        {"convolutions": "counter"},
        {"backward_flops"},
        {"conv1d"},
    ),
    "experts all": (
        load("llama-4-maverick-17b-128e-instruct"),
        STEP,
        {"experts": "all"},
        {"forward_flops", "backward_flops"},
        {"gate_up_proj", "down_proj"},
    ),
    "latent absorbed": (
        load("deepseek-v2-lite"),
        Workload(phase="decode", cached=24),
        {"latent": "absorbed"},
        {"forward_flops", "elementwise_flops"},
        {"attend", "kv_b_proj"},
    ),
}


def leaves(report: Report) -> Counter[str]:
    """Each operation's FLOPs, over all groups of layers."""
    found: Counter[str] = Counter()
    for entry in report.whole.walk():
        if not entry.parts:
            found[LAYERS.sub("", entry.path)] += entry.value
    return found


@pytest.mark.parametrize("case", SWITCHES.values(), ids=SWITCHES)
def test_a_switch_changes_what_it_is_about(
    case: tuple[Model, Workload, dict[str, Any], set[str], set[str]],
) -> None:
    model, run, switch, totals, names = case
    before, after = flops(model, run, depth=99), flops(model, run.replaced(**switch), depth=99)
    assert {key for key in TOTALS if before.totals[key] != after.totals[key]} <= totals | {"elementwise_flops"}
    assert totals - {"elementwise_flops"} <= {key for key in TOTALS if before.totals[key] != after.totals[key]}
    one, other = leaves(before), leaves(after)
    assert one.keys() == other.keys() or switch == {"dropout": False}
    shared = one.keys() & other.keys()
    assert {path.rpartition(".")[2] for path in shared if one[path] != other[path]} == names


@pytest.mark.parametrize("case", SWITCHES.values(), ids=SWITCHES)
def test_a_switch_stands_in_the_json_and_in_the_footer(
    case: tuple[Model, Workload, dict[str, Any], set[str], set[str]],
) -> None:
    model, run, switch, _, _ = case
    before, after = flops(model, run), flops(model, run.replaced(**switch))
    assert before.conventions != after.conventions
    if "kernel" not in switch or run.training:
        assert (before.notes, before.footer) != (after.notes, after.footer)


def test_counting_all_operations_leaves_the_products_alone() -> None:
    products, everything = flops(DECODER, STEP), flops(DECODER, STEP, Conventions(count="all"))
    assert products.totals["matmul_flops"] == everything.totals["matmul_flops"] == products.answer
    assert everything.answer - products.answer == everything.totals["elementwise_flops"]


def test_every_field_of_a_workload_stands_in_the_json() -> None:
    """Under its own name, or under the one that the JSON has for it."""
    called = {"kernel": "attention_kernel", "recompute": "recomputation", "latent": "latent_attention"}
    called |= {"convolutions": "grouped_convolutions", "recompute_modules": "recomputation"}
    run = Workload(phase="decode", cached=9)
    conventions = flops(DECODER, run).conventions
    assert {called.get(item.name, item.name) for item in fields(Workload)} <= set(conventions)
