"""``design --budget-usd`` and ``--budget-gpu-hours``: the best size of a training for money, with a band."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tfcalc
from tests.conftest import Quick
from tfcalc.analysis.design.spending import shape_of

SHAPE = "--kind decoder --norm rmsnorm --positions rotary --no-attention-bias --no-ffn-bias --output-head tied"


def designed(quick: Quick, *words: str) -> dict[str, Any]:
    found = quick("design", *words, "--json")
    assert found.returncode == 0, found.stderr
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def test_dollars_at_an_mfu_by_hand(quick: Quick) -> None:
    """100 dollars at 0.40 are 250 hours; 40 % of a dense peak of 165.2 TFLOP/s; 20 tokens each: N = (C / 120)^(1/2)."""
    found = designed(quick, "--budget-usd", "100", "--gpu", "rtx-4090", "--mfu", "40%", "--price", "0.40")
    compute = 250 * 3600 * 0.4 * 165.2e12
    assert found["compute_flops"] == pytest.approx(compute)
    assert found["optimal_params"] == pytest.approx((compute / 120) ** 0.5, rel=1e-3)
    assert found["spending"]["gpu_hours"] == pytest.approx(250)
    assert "band" not in found["spending"]
    hours = designed(quick, "--budget-gpu-hours", "250", "--gpu", "rtx-4090", "--mfu", "0.4")
    assert hours["compute_flops"] == pytest.approx(compute)
    assert hours["fits"] == found["fits"] == designed(quick, "--compute", str(compute))["fits"]


def test_a_plan_of_that_size_takes_these_hours(quick: Quick) -> None:
    """The best size, trained on its tokens by ``plan``, takes the GPU hours that were to spend, with the same band."""
    found = designed(quick, "--budget-usd", "10000", "--gpu", "8xh100")
    paid = found["spending"]
    sizes = f"--d-model {paid['d_model']} --layers {paid['layers']} --heads {paid['d_model'] // 128}"
    at = "--tp 1 --pp 1 --vpp 1 --cp 1 --ep 1 --zero 3 --checkpointing none"
    at += f" --micro-batch {paid['tokens_at_once'] // 4096}"
    tokens = found["fits"][0]["optimal_tokens"]
    batch = f"--global-batch-size {8 * 4 * paid['tokens_at_once'] // 4096} --seq 4096 --tokens {tokens:.0f}"
    words = f"{SHAPE} {sizes} --vocab-size 50304 --gpu 8xh100 --stack fsdp {at} {batch} --json"
    planned = json.loads(quick("plan", *words.split()).stdout)
    assert planned["gpu_hours"] == pytest.approx(paid["gpu_hours"], rel=0.03)
    assert planned["band"] == paid["band"]
    low, high = (planned[f"step_seconds_{end}"] / planned["step_seconds"] for end in ("low", "high"))
    assert paid["compute_flops_low"] == pytest.approx(found["compute_flops"] / high)
    assert paid["compute_flops_high"] == pytest.approx(found["compute_flops"] / low)
    for end in ("low", "high"):
        rule = (paid[f"compute_flops_{end}"] / 120) ** 0.5
        assert paid[f"optimal_params_{end}"] == pytest.approx(rule)
        assert paid[f"optimal_tokens_{end}"] == pytest.approx(20 * rule)


@pytest.mark.parametrize("params", [1e6, 1.24e8, 1.3e9, 6.7e9, 7e10, 1e12])
def test_the_shape_has_about_these_parameters(params: float) -> None:
    """A decoder of 12 n h² + V h parameters, nearly."""
    shape = shape_of(params)
    assert tfcalc.params(shape.model).answer == pytest.approx(params, rel=0.1 if params > 1e8 else 6)


def test_the_library_answers_the_same() -> None:
    """Dollars or hours on a GPU; one of them."""
    by_hours = tfcalc.compute_optimal(spend=tfcalc.spending("h100", gpu_hours=1000, mfu=0.4))
    assert by_hours.compute == pytest.approx(1000 * 3600 * 0.4 * 989.4e12, rel=1e-3)
    by_usd = tfcalc.compute_optimal(spend=tfcalc.spending("h100", usd=2000, price=2.0, mfu=0.4))
    assert by_usd.compute == by_hours.compute
    wrongs: list[dict[str, Any]] = [{"gpu_hours": 1, "usd": 1}, {}]
    for wrong in wrongs:
        with pytest.raises(tfcalc.UsageError, match="a budget is dollars or GPU hours"):
            tfcalc.spending("h100", **wrong)
    with pytest.raises(tfcalc.UsageError, match="FLOPs or a budget"):
        tfcalc.compute_optimal()


def test_the_price_of_a_settings_file(quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named as its source."""
    (tmp_path / "tfcalc.toml").write_text("[prices]\nh100 = 2.5\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = designed(quick, "--budget-usd", "2500", "--gpu", "h100", "--mfu", "40%")["spending"]
    assert found["gpu_hours"] == pytest.approx(1000)
    assert found["price_source"] == "[prices] of tfcalc.toml"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--budget-usd 100", "needs a GPU; add --gpu h100"),
        ("--budget-usd 100 --gpu rtx-4090", "no price of RTX-4090 is known"),
        ("--budget-gpu-hours 100 --gpu rtx-4090", "no training run on RTX-4090 is known"),
        ("--budget-gpu-hours 100 --gpu h1000", "h1000"),
        ("--budget-gpu-hours 100 --gpu h100 --mfu 140%", "write 40% or 0.4"),
        ("--budget-gpu-hours 1e15 --gpu h100", "are no training's"),
        ("--budget-gpu-hours 1e9 --gpu 1xh100 --budget-usd 5", "are two budgets"),
        ("--budget-usd 100 --gpu h100 --seq 4096", "--seq 4096 has no effect with --budget-usd"),
        ("--compute 1e21 --gpu h100", "--gpu h100 has no effect with --compute"),
        ("--params 1B --vocab-size 50257 --mfu 40%", "--mfu 40% has no effect without"),
        ("--budget-gpu-hours 1e8 --gpu 2xh100", "does not fit on 2 x H100-SXM"),
    ],
)
def test_what_pays_for_nothing_is_said_in_a_line(quick: Quick, words: str, told: str) -> None:
    """Fact, value and remedy; exit 2."""
    found = quick("design", *words.split())
    assert (found.returncode, found.stderr.count("\n"), found.stdout) == (2, 1, "")
    assert told in found.stderr
