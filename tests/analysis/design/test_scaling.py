"""Compute-optimal sizes against what the papers print."""

from __future__ import annotations

import json
from math import isclose

import pytest

from tfcalc import compute_optimal
from tfcalc.analysis.design.scaling import FITS
from tfcalc.cli.main import main

BY_NAME = {fit.name: fit for fit in FITS}

APPROACH_1 = [
    # parameters, FLOPs, tokens: Hoffmann et al. 2022, table 3
    (400e6, 1.92e19, 8.0e9),
    (1e9, 1.21e20, 20.2e9),
    (10e9, 1.23e22, 205.1e9),
    (67e9, 5.76e23, 1.5e12),
    (175e9, 3.85e24, 3.7e12),
    (280e9, 9.90e24, 5.9e12),
    (520e9, 3.43e25, 11.0e12),
    (1e12, 1.27e26, 21.2e12),
]


@pytest.mark.parametrize(("params", "compute", "tokens"), APPROACH_1)
def test_approach_1_is_near_its_table(params: float, compute: float, tokens: float) -> None:
    split = BY_NAME["Chinchilla 1"].split(compute)
    assert isclose(split.params, params, rel_tol=0.04)  # the exponent has two digits
    assert isclose(split.tokens, tokens, rel_tol=0.08)  # 1.5T of the table are rounded: 6·67e9·1.5e12 = 6.03e23


@pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit.name)
def test_all_flops_are_spent(fit: object) -> None:
    for compute in (1e15, 1e21, 1e26):
        split = fit.split(compute)  # type: ignore[attr-defined]
        assert isclose(6 * split.params * split.tokens, compute, rel_tol=1e-9)


@pytest.mark.parametrize("name", ["Chinchilla 3", "Chinchilla 3, refitted"])
def test_the_loss_is_smallest_there(name: str) -> None:
    fit = BY_NAME[name]
    constants = fit.constants

    def loss(params: float, tokens: float) -> float:
        a, b = constants["A"] / params ** constants["alpha"], constants["B"] / tokens ** constants["beta"]
        return float(constants["E"] + a + b)

    for compute in (1e19, 1e22, 5.76e23):
        best = fit.split(compute)
        assert best.loss is not None
        assert isclose(best.loss, loss(best.params, best.tokens))
        for factor in (0.9, 0.99, 1.01, 1.1):
            assert loss(best.params * factor, best.tokens / factor) > best.loss


def test_gophers_compute() -> None:
    # Hoffmann et al. 2022, section 1: 5.76e23 FLOPs are best spent on about 67B parameters and 1.4T tokens or so
    split = BY_NAME["Chinchilla 3, refitted"].split(5.76e23)
    assert 60e9 < split.params < 80e9
    assert split.tokens / split.params == pytest.approx(18.4, abs=0.5)  # (C/6)/N² with N = G·(C/6)^(β/(α+β))
    assert compute_optimal(5.76e23).answer == pytest.approx((5.76e23 / 120) ** 0.5, rel=1e-3)


def test_the_papers_own_examples() -> None:
    # DeepSeek LLM: D = 5.8316 C^0.4757; Llama 3: 16.55T tokens at 3.8e25 FLOPs; Kaplan: 1.3e9 parameters at a PF-day
    assert BY_NAME["DeepSeek LLM"].split(1e20).tokens == pytest.approx(5.8316 * 10 ** (20 * 0.4757))
    llama = BY_NAME["Llama 3"].split(3.8e25)
    assert llama.tokens == pytest.approx(16.55e12)
    assert llama.params == pytest.approx(402e9, rel=0.06)
    assert BY_NAME["Kaplan et al."].split(1e15 * 24 * 3600).params == pytest.approx(1.3e9)
    assert BY_NAME["Kaplan et al."].split(1e18 * 24 * 3600).params == pytest.approx(1.3e9 * 1000**0.73)


def test_estimates_are_marked_and_have_four_digits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["design", "--compute", "1e21", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["estimate"] is True
    # C = 6·N·20N: N = √(1e21 / 120) = 2.887e9
    assert found["optimal_params"] == 2.887e9
    assert all(each["source"] and each["constants"] for each in found["fits"])
    assert found["optimal_params_min"] < found["optimal_params"] < found["optimal_params_max"]
    assert main(["design", "--compute", "1e21"]) == 0
    assert "(an estimate)" in capsys.readouterr().out
