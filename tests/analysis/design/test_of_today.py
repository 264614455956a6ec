"""A decoder of today by default, what its token costs, and the training of a designed model."""

from __future__ import annotations

import json
from math import gcd
from typing import Any

import pytest

from tests.conftest import Program
from tests.schemas.test_answers import wrong


def asked(tfcalc: Program, *words: str) -> dict[str, Any]:
    """The answer in JSON."""
    found = tfcalc("design", *words, "--json")
    assert (found.returncode, found.stderr) == (0, ""), words
    said: dict[str, Any] = json.loads(found.stdout)
    return said


def by_hand(shape: dict[str, Any]) -> tuple[int, int, int]:
    """Parameters of Llama 3's kind, FLOPs of 4,096 tokens in a forward pass for each, and cache in 16 bits of one."""
    h, n, d, f, v = (shape[key] for key in ("d_model", "layers", "head_dim", "d_ff", "vocab_size"))
    heads, kv = shape["heads"] * d, shape["kv_heads"] * d
    layer = 2 * h * heads + 2 * h * kv + 3 * h * f
    flops = 2 * (n * layer + v * h) + n * 4 * 4096 * heads
    return n * (layer + 2 * h) + 2 * v * h + h, flops, n * 2 * kv * 2


def test_a_decoder_of_today_is_the_default(tfcalc: Program) -> None:
    """Grouped queries, gated networks, and what a token costs, as by hand."""
    said = asked(tfcalc, "3B")
    assert said["model"]["name"] == "llama-3-8b"
    assert said == asked(tfcalc, "--params", "3B")
    assert not list(wrong(said))
    for shape in said["candidates"]:
        params, flops, cache = by_hand(shape)
        assert (shape["total_params"], shape["flops_per_token"]) == (params, flops)
        assert shape["kv_cache_bytes_per_token"] == cache
        assert shape["most_tensor_parallel"] == gcd(shape["heads"], shape["kv_heads"], shape["d_ff"])
        assert shape["kv_heads"] < shape["heads"]
    shown = tfcalc("design", "3B").stdout
    assert "KV cache 176 KiB a token; tensor parallel up to 8" in shown


def test_another_family_is_taken_where_one_is_named(tfcalc: Program) -> None:
    assert asked(tfcalc, "125M", "--like", "gpt2")["model"]["name"] == "gpt2"
    assert asked(tfcalc, "3B", "--vocab-size", "64000")["candidates"][0]["vocab_size"] == 64_000
    assert asked(tfcalc, "125M")["model"]["name"] == "tinyllama-1.1b"
    classic = asked(tfcalc, "--params", "125M", "--vocab-size", "50257", "--kind", "decoder")
    assert classic["model"]["kind"] == "decoder"
    encoder = asked(tfcalc, "100M", "--like", "bert-base-uncased")
    assert encoder["candidates"][0]["kv_cache_bytes_per_token"] is None


def test_tokens_give_flops_loss_and_days(tfcalc: Program) -> None:
    """6ND; equation 10 of arXiv 2203.15556, and Besiroglu et al.'s constants; FLOPs over 1,024 x 989.4e12 x 0.4."""
    said = asked(tfcalc, "3B", "--tokens", "3T", "--gpu", "1024xh100", "--mfu", "0.4")
    run, n, d = said["training"], said["candidates"][0]["total_params"], 3 * 10**12
    assert run["compute_flops"] == 6 * n * d
    assert run["tokens_per_param"] == pytest.approx(d / n)
    assert run["optimal_tokens"] == 20 * n
    assert run["days"] == pytest.approx(6 * n * d / (1024 * 989.4e12 * 0.4) / 86_400)
    losses = {one["name"]: one["loss_nats_per_token"] for one in run["losses"]}
    assert losses == pytest.approx(
        {
            "Chinchilla 3": 1.69 + 406.4 / n**0.34 + 410.7 / d**0.28,
            "Chinchilla 3, refitted": 1.8172 + 482.01 / n**0.3478 + 2085.43 / d**0.3658,
        },
        abs=6e-4,
    )
    assert not list(wrong(said))
    alone = asked(tfcalc, "3B", "--tokens", "3T")["training"]
    assert "days" not in alone
    assert asked(tfcalc, "3B", "--tokens", "3T", "--gpu", "h100", "--gpus", "1024", "--mfu", "40%")["training"] == run
    assert (
        "1,024 x H100-SXM at an MFU of 40 %"
        in tfcalc(*["design", "3B", "--tokens", "3T", "--gpu", "1024xh100", "--mfu", "0.4"]).stdout
    )


def test_days_on_gpus_are_gpu_hours(tfcalc: Program) -> None:
    """14 days of 1,024 GPUs at 40 % of 989.4 TFLOP/s are 4.9e23 FLOPs: 63.9B parameters by 20 tokens each."""
    said = asked(tfcalc, *["--gpus", "1024", "--gpu", "h100", "--days", "14", "--mfu", "0.4"])
    compute = 1024 * 14 * 86_400 * 989.4e12 * 0.4
    assert said["compute_flops"] == pytest.approx(compute, rel=1e-3)
    assert said["optimal_params"] == pytest.approx((compute / 120) ** 0.5, rel=1e-3)
    assert said == asked(tfcalc, *["--gpu", "1024xh100", "--days", "14", "--mfu", "0.4"])


REFUSED = {
    "3B --tokens 3T --gpu h100": "days need an MFU",
    "3B --tokens 3T --gpu h100 --mfu 2": "an MFU of 2 is not from 0 to 1",
    "3B --tokens 3T --mfu 0.4": "--mfu 0.4 has no effect without --gpu",
    "3B --gpu h100 --mfu 0.4": "has no effect without --tokens",
    "--days 3": "needs a GPU; add --gpu h100 --gpus 1024",
    "--days 3 --gpu 8xh100 --gpus 16": "two numbers of GPUs",
    "3B --tokens 1T --gpu 8xh100 --gpus 16 --mfu 0.4": "two numbers of GPUs",
    "--days 3 --gpu h100 --budget-gpu-hours 9": "--days and --budget-gpu-hours are two budgets",
    "--days 3 --gpu h100 --params 7B": "are two budgets",
    "--days 0 --gpu h100": "--days",
    "--memory 24GiB --tokens 1T": "--tokens 1000000000000 has no effect with --memory",
    "": "no budget given; write tfcalc design 3B",
    "3B --params 7B": "",
}


def test_what_makes_no_training_is_refused(tfcalc: Program) -> None:
    for line, fact in REFUSED.items():
        found = tfcalc("design", *line.split())
        assert (found.returncode in (2, 3), found.stdout, found.stderr.count("\n")) == (True, "", 1), line
        assert fact in found.stderr, line
