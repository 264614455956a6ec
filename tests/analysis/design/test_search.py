"""The best shape of a small space is that of all that can be built; constraints hold; the commands build the shapes."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction
from typing import Any

import pytest

from tests.analysis.design.brute_force import FAMILIES, differs, space
from tests.conftest import Program
from tfcalc import (
    Constraints,
    Conventions,
    Serving,
    Training,
    Transformer,
    UsageError,
    Workload,
    design,
    load,
    memory,
)
from tfcalc.analysis.design.family import ShapeFamily
from tfcalc.analysis.design.memory import MemoryAmount
from tfcalc.cli.main import main

DECODER = Transformer(kind="decoder", vocab_size=50257)


@pytest.mark.parametrize("number", range(len(FAMILIES)), ids=lambda number: FAMILIES[number])
def test_the_best_is_the_best_of_all_that_can_be_built(number: int) -> None:
    drawn = next(filter(None, (space(number, seed, most=2) for seed in range(15, 30))))
    assert differs(drawn) == ""


def test_gpt2_is_found_by_its_number() -> None:
    # 50257·768 + 1024·768 + 12·(12·768² + 13·768) + 2·768 = 124,439,808
    number = 50257 * 768 + 1024 * 768 + 12 * (12 * 768**2 + 13 * 768) + 2 * 768
    best = design(number, model=load("gpt2")).candidates[0]
    assert (best.amount, best.sizes["d_model"], best.depth) == (number, 768, 12)


def test_no_shape_is_nearer_than_the_nearest() -> None:
    # a decoder alone: n (12h² + 13h) + 2h; nothing is within so small a tolerance, so that distance ranks alone
    budget, tight = 10_000_000, Fraction(1, 10**9)
    by = Constraints(within=tight, aspect=(Fraction(1), Fraction(1000)))
    best = design(budget, model=Transformer(kind="decoder"), constraints=by).candidates[0]
    every = [
        (abs(n * (12 * h * h + 13 * h) + 2 * h - budget), h, n)
        for h in range(64, 4096, 64)
        for n in range(1, 513)
        if h <= 1000 * n and n <= h
    ]
    assert abs(best.amount - budget) == min(every)[0]


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        ("design --params 125M --vocab-size 50257 --kind decoder", True),
        ("design --params 30M --kind encoder-decoder --vocab-size 1k --norm rmsnorm --no-ffn-bias --pre-norm", True),
        ("design --params 7B --like llama-3-8b --head-dim 64,128", True),
        ("design --params 300M gpt2 --d-ff-ratio 8/3 --pad-vocab 128", True),
        ("design --params 1B --like mixtral-8x7b --groups 2,4 --layers 8..16", True),
        ("design --params 60M t5-small --multiple-of 128", True),
        ("design --params 200M opt-125m", True),
        ("design --params 16B deepseek-v2-lite", True),
        ("design --flops-per-token 2e9 gpt2 --train --seq 1024", False),
        ("design --memory 1GiB gpt2", False),
    ],
)
def test_every_command_builds_its_shape(line: str, exact: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["candidates"]
    for each in found["candidates"]:
        assert main([*shlex.split(each["run"])[1:], "-q"]) == 0
        assert int(capsys.readouterr().out) == each["total_params"]
        assert each["distance"] == each["amount"] - found["budget"]
        if exact:
            assert each["amount"] == each["total_params"]


def test_constraints_hold() -> None:
    by = Constraints(
        multiple_of=128,
        head_dim=(128,),
        groups=(4,),
        d_ff_ratio=(Fraction(8, 3),),
        aspect=(Fraction(40), Fraction(90)),
    )
    found = design(3 * 10**9, model=load("llama-3-8b"), constraints=by)
    assert len(found.candidates) > 5
    for each in found.candidates:
        sizes = each.sizes
        assert sizes["d_model"] % 128 == 0
        assert sizes["d_ff"] % 128 == 0
        assert abs(3 * sizes["d_ff"] - 8 * sizes["d_model"]) <= 3 * 64
        assert sizes["head_dim"] == 128
        assert sizes["n_heads"] * 128 == sizes["d_model"]
        assert sizes["n_heads"] == 4 * sizes["n_kv_heads"]
        assert 40 * sizes["n_layers"] <= sizes["d_model"] <= 90 * sizes["n_layers"]


def test_memory_is_at_most_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["design", "--memory", "1GiB", "gpt2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unit"] == "bytes"
    for each in found["candidates"]:
        assert each["amount"] <= 2**30
        assert main([*shlex.split(each["run"].replace(" params ", " memory "))[1:], "-q"]) == 0
        assert int(capsys.readouterr().out) == each["amount"]


def test_flops_of_a_candidate_are_those_of_flops(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["design", "--flops", "1e12", "gpt2", "--train", "--seq", "128", "--batch", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    best = found["candidates"][0]
    words = shlex.split(best["run"].replace(" params ", " flops "))[1:]
    assert main([*words, *["--train", "--seq", "128", "--batch", "2", "-q"]]) == 0
    assert int(capsys.readouterr().out) == best["amount"]


def test_none_is_a_negative_answer(tfcalc: Program) -> None:
    done = tfcalc("design", "--params", "1B", "--kind", "decoder", "--d-model", "513")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("NONE: no shape with these constraints has parameters 1B")


def test_a_budget_that_no_shape_is_near_is_a_negative_answer(tfcalc: Program) -> None:
    done = tfcalc("design", "--flops", "1e21")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("NONE: no shape comes near FLOPs 1e+21; the nearest:")
    assert "not of a whole training, which is --compute 1e+21" in done.stdout
    assert tfcalc("design", "--params", "10").returncode == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("design", "no budget given"),
        ("design --params 1M --flops 1e9", "--params and --flops are two budgets"),
        ("design --params 1M whisper-tiny", "n_heads cannot be varied in whisper-tiny"),
        ("design --params 1M longformer-large-4096", "n_layers cannot be varied in longformer-large-4096"),
        ("design --params 1M gpt2 --kv-heads 2", "n_kv_heads is not a size of a gpt2 config"),
        ("design --params 1M --seq 128", "--seq 128 has no effect on params"),
        ("design --params 1M --d-ff-ratio x", "--d-ff-ratio 'x' is not a number above 0"),
        ("design --params 1M --d-ff-ratio 1/0", "--d-ff-ratio '1/0' is not a number above 0"),
        ("design --params 1M --d-ff 64 --d-ff-ratio 4", "--d-ff and --d-ff-ratio decide the same"),
        ("design --params 1M --aspect 30", "--aspect '30' is not a range"),
        ("design --params 1M --aspect 90..30", "--aspect '90..30' has no values"),
        (
            "design --params 1M --pad-vocab 64 --kind encoder",
            "--pad-vocab 64 has no effect on a model without a vocabulary",
        ),
        ("design --memory 24 gpt2", "'24' has no unit"),
        ("design --compute 1e21 --layers 3", "--layers 3 has no effect with --compute"),
        ("design --params 1M --within 60", "--within 60 is too wide"),
        ("design --params 1M --multiple-of 1", "--multiple-of 1"),
        ("design --compute 5", "5 FLOPs are too few for a training"),
    ],
)
def test_what_cannot_be_designed_is_refused_in_a_line(line: str, told: str, tfcalc: Program) -> None:
    done = tfcalc(*line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_library_refuses_too() -> None:
    with pytest.raises(UsageError, match="budget 0 is not a whole number above 0"):
        design(0, model=DECODER)
    with pytest.raises(UsageError, match="quantity"):
        design(10, "tokens", DECODER)


STEP = Workload(phase="train", seq_len=64)


@pytest.mark.parametrize(
    ("name", "budget", "plans"),
    [
        ("gpt2", 3 * 2**29, {"training": Training(optimizer="sgd"), "workload": STEP}),
        ("smollm-135m", 5 * 2**28, {"training": Training(zero="2", gpus=2), "workload": STEP}),
        ("gemma-2-2b", 6 * 2**30, {"serving": Serving(context=1000, concurrency=4)}),
        ("opt-125m", 2**30, {"serving": Serving(context=512, concurrency=9, cache="dynamic")}),
        ("bert-base-uncased", 2**29, {}),
    ],
)
def test_a_bound_of_memory_leaves_nothing_out(name: str, budget: int, plans: dict[str, Any]) -> None:
    """What is not above the budget is what memory says, and all else is above it: each depth by itself."""
    base = load(name)
    width = ShapeFamily(base, Constraints()).own("d_model")
    constraints = Constraints(layers=tuple(range(2, 40, 3)), d_model=(width,), aspect=(Fraction(1), Fraction(2000)))
    family = ShapeFamily(base, constraints)
    asked = {"workload": None, "training": None, "serving": None, "weights": None} | plans
    amount = MemoryAmount(family, budget, conventions=Conventions(), **asked)
    (sizes, *_) = family.shapes(width)
    at = amount.by_depth(sizes)
    within = above = 0
    for depth in family.depths(width):
        exact = memory(base.replaced(**sizes, n_layers=depth), **plans).answer
        found = at(depth)
        if exact <= budget:
            within += 1
            assert found == exact, depth
        else:
            above += 1
            assert budget < found <= exact, depth
    assert within
    assert above
    best = design(budget, "memory", base, constraints, **plans).candidates[0]
    assert best.sizes["n_layers"] == family.depths(width)[within - 1]
