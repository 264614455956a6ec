"""``tfcalc plan``: layouts of a training run."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Quick

ONE = "--gpus 64 --gpu h100 --tp 4 --pp 2 --vpp 1 --cp 1 --ep 1 --etp 1 --zero 1 --micro-batch 1"
RUN = "--global-batch-size 256 --seq 4096 --precision bf16 --checkpointing full --stack megatron"


def test_one_layout_has_all_keys(quick: Quick) -> None:
    """With all axes fixed it is the answer for that one layout."""
    found = json.loads(quick("plan", "llama-3-8b", *ONE.split(), *RUN.split(), "--json").stdout)
    assert found["searched"] == 1
    wanted = {"tp": 4, "pp": 2, "vpp": 1, "cp": 1, "ep": 1, "etp": 1, "dp": 8, "micro_batch": 1, "zero": 1}
    assert found["layout"] == {**wanted, "recompute": "full", "gpus": 64, "sequence_parallel": True}
    assert found["step_seconds_low"] < found["step_seconds"] < found["step_seconds_high"]
    assert found["floor_seconds"] < found["step_seconds"]
    rate = 256 * 4096 / found["step_seconds"]
    assert found["tokens_per_second_per_gpu"] == pytest.approx(rate / 64)
    assert sum(found["parts"].values()) == pytest.approx(found["step_seconds"])
    assert found["peak_bytes"] < found["usable_bytes"]
    assert found["fits"] is True
    assert 0.2 < found["mfu"] < 0.6


def test_days_and_money_follow_from_the_step(quick: Quick) -> None:
    """A trillion tokens at 2 dollars an hour, by hand."""
    words = ("plan", "llama-3-8b", *ONE.split(), *RUN.split(), "--tokens", "1T", "--price", "2", "--json")
    found = json.loads(quick(*words).stdout)
    days = 10**12 / (256 * 4096) * found["step_seconds"] / 86_400
    assert found["days"] == pytest.approx(days)
    assert found["gpu_hours"] == pytest.approx(days * 24 * 64)
    assert found["cost"] == pytest.approx(days * 24 * 64 * 2)
    assert found["price_source"] == "given by --price"


def test_a_measured_run_scales_all(quick: Quick) -> None:
    """The layout that was measured takes what was measured; others are scaled alike."""
    words = ("plan", "llama-3-8b", "--gpu", "64xh100", *RUN.split(), "--micro-batch", "1", "--zero", "1")
    layout = ("--tp", "4", "--pp", "2", "--vpp", "1", "--cp", "1")
    measured = ("--measured", "tp=4 pp=2 vpp=1 cp=1: 5000 tok/s")
    found = json.loads(quick(*words, *layout, *measured, "--json").stdout)
    assert found["tokens_per_second_per_gpu"] == pytest.approx(5000)
    assert found["band"]["class"] == "measured"
    plain, scaled = (json.loads(quick(*words, *more, "--json").stdout) for more in ((), measured))
    assert plain["layout"] == scaled["layout"]
    of_it = json.loads(quick(*words, *layout, "--json").stdout)
    assert scaled["step_seconds"] / plain["step_seconds"] == pytest.approx(
        256 * 4096 / (5000 * 64) / of_it["step_seconds"]
    )


def test_the_first_is_the_fastest_that_fits(quick: Quick) -> None:
    """All that are listed fit, in the order of their seconds."""
    found = json.loads(
        quick("plan", "llama-3-8b", "--gpu", "64xh100", "--global-batch-size", "256", "--top", "20", "--json").stdout
    )
    seconds = [one["step_seconds"] for one in found["layouts"]]
    assert seconds == sorted(seconds)
    assert all(one["peak_bytes"] <= found["usable_bytes"] for one in found["layouts"])
    assert found["fitting"] <= found["searched"]
    assert found["step_seconds"] == seconds[0]


def test_llama_3_on_its_own_clusters(quick: Quick) -> None:
    """Source: arXiv 2407.21783, table 4: 8,192 and 16,384 H100 (TP 8, PP 16) at 43 and 41 % MFU."""
    for gpus, copies, printed in ((8192, 64, 0.43), (16384, 128, 0.41)):
        words = f"--gpu h100 --gpus {gpus} --tp 8 --pp 16 --vpp 8 --cp 1 --micro-batch 1 --zero 1 --checkpointing none"
        batch = f"--seq 8192 --global-batch-size {copies * (32 if copies == 64 else 16)}"
        found = json.loads(quick("plan", "llama-3.1-405b", *words.split(), *batch.split(), "--json").stdout)
        low, high = (found["mfu"] * found["step_seconds"] / found[f"step_seconds_{end}"] for end in ("high", "low"))
        assert low < printed < high


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--gpu 64xh100", "add --global-batch-size"),
        ("--gpus 64 --global-batch-size 64", "add --gpu h100"),
        ("--gpu 64xh100 --global-batch-size 64 --tp 3", "64 GPUs are not divisible by --tp 3; nearest: 2"),
        ("--gpu 64xh100 --global-batch-size 63 --tp 2 --pp 1 --cp 1", "not divisible by 32 copies; nearest: 64"),
        ("--gpu 64xh100 --global-batch-size 64 --pp 64", "is more than the model's 32 layers"),
        ("--gpu 8xrtx-4090 --global-batch-size 64", "no training run on RTX-4090 is known"),
        ("--gpu 8xa100-80 --global-batch-size 64 --precision fp8", "no rate is known for fp8 on this GPU"),
        ("--gpu 8xh100 --gpus 16 --global-batch-size 64", "differ"),
        ("--gpu 8xh100 --global-batch-size 64 --measured fast", "write it as 'tp=4 pp=8 vpp=5: 1633 tok/s'"),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_line(quick: Quick, words: str, told: str) -> None:
    """Fact, value and remedy; exit 2."""
    found = quick("plan", "llama-3-8b", *words.split())
    assert found.returncode == 2
    assert told in found.stderr
    assert found.stderr.count("\n") == 1


def test_what_fits_nowhere(quick: Quick) -> None:
    """A 405B model does not train on 8 H100: exit 1, by how much."""
    found = quick("plan", "llama-3.1-405b", "--gpu", "8xh100", "--global-batch-size", "8")
    assert found.returncode == 1
    assert found.stdout.startswith("DOES NOT FIT: ")
    assert "beyond the 78.4 GiB usable" in found.stdout


def test_tokens_of_a_batch(quick: Quick) -> None:
    """16.8M tokens of 8,192 each are 2,048 sequences: people round, and batches are even."""
    words = ("plan", "llama-3-70b", "--gpu", "1024xh100", "--global-batch", "16.8M", "--seq", "8k", "--json")
    assert json.loads(quick(*words).stdout)["global_batch_size"] == 2048


def test_selective_checkpointing_runs_attention_again(quick: Quick) -> None:
    """It takes the forward pass of attention once more than none, and less than full."""
    words = ("plan", "llama-3-8b", *ONE.split(), *RUN.replace("--checkpointing full", "").split(), "--json")
    kinds = ("none", "selective", "full")
    found = {kind: json.loads(quick(*words, "--checkpointing", kind).stdout) for kind in kinds}
    assert [found[kind]["layout"]["recompute"] for kind in kinds] == list(kinds)
    again = [found[kind]["parts"]["recomputation_seconds"] for kind in kinds]
    assert 0 == again[0] < again[1] < found["none"]["parts"]["attention_seconds"] / 2 < again[2]
