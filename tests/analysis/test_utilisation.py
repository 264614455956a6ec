"""MFU and HFU against papers and public benchmark tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.analysis.test_comparison import gpt
from tests.conftest import Program, recorded
from tfcalc import Transformer, UsageError, Workload, load, params
from tfcalc.analysis.six_nd import six_nd
from tfcalc.answers.flops_by_convention import compare_conventions
from tfcalc.answers.utilisation import Machines, machines_of, utilisation
from tfcalc.hardware import accelerators

PUBLISHED = recorded("published.jsonl")
KORTHIKANTI = {row["model"]: row for row in PUBLISHED if row["table"] == "Korthikanti T5"}
SIZES = {"22B": (64, 6144, 48, 8, 4), "175B": (96, 12288, 96, 64, 64), "530B": (128, 20480, 105, 280, 280)}
SIZES |= {"1T": (160, 25600, 128, 512, 512)}
"""Its table 3: heads, width, layers, GPUs, sequences in a batch; each of 2,048 tokens."""


def around(seconds: float) -> tuple[float, float]:
    """The times that are printed as this one."""
    return seconds - 0.005, seconds + 0.005


@pytest.mark.parametrize("model", SIZES)
def test_korthikantis_table_5(model: str) -> None:
    """MFU by our exact count; HFU by the paper's eq. 8, and by what selective recomputation really runs again."""
    row, (heads, h, layers, gpus, batch) = KORTHIKANTI[model], SIZES[model]
    run = Workload(batch_size=batch, seq_len=2048, phase="train", recompute="selective")
    machines, tokens = Machines(312e12, gpus), batch * 2048
    shape = gpt(h, heads, layers)
    eq_8 = compare_conventions(shape, run).row("Megatron-LM").flops
    assert eq_8 is not None
    low, high = (
        (float(used.model_share) * 100, eq_8 / seconds / float(machines.together) * 100)
        for seconds in reversed(around(row["iter_present_s"]))
        for used in [utilisation(shape, tokens / seconds, machines, run)]
    )
    assert low[0] - 0.05 <= row["mfu"] <= high[0] + 0.05
    assert low[1] - 0.05 <= row["hfu"] <= high[1] + 0.05
    used = utilisation(shape, tokens / row["iter_present_s"], machines, run)
    again = 4 * batch * layers * 2048**2 * h  # Q Kᵀ and P V once more: a third of what eq. 8 adds
    assert used.hardware_share - used.model_share == pytest.approx(
        again / row["iter_present_s"] / float(machines.together), rel=1e-9
    )
    assert used.model_share < used.hardware_share < eq_8 / row["iter_present_s"] / float(machines.together)


MPT = [row for row in PUBLISHED if row["table"] == "llm-foundry MPT"]
WIDTHS = {"125m": (768, 12), "350m": (1024, 24), "760m": (1536, 24), "1b": (2048, 24), "3b": (2560, 32)}
WIDTHS |= {"7b": (4096, 32), "13b": (5120, 40), "30b": (7168, 48), "70b": (8192, 80)}
"""Width and layers of the MPT models; their parameters are in each row."""


@pytest.mark.parametrize("model", WIDTHS)
def test_llm_foundrys_tables_are_palms_convention(model: str) -> None:
    """MFU = (6N + 12·L·h·T)·rate / peak, and HFU 4/3 of it where activations are computed again.

    The rate is printed as a whole number of tokens per second and GPU, the TFLOP/s without decimals, cut off.
    """
    h, layers = WIDTHS[model]
    rows = [row for row in MPT if row["model"] == model]
    assert rows
    for length in sorted({row["T"] for row in rows}):
        shape = gpt(h, h // 64, layers, 50_368, length)
        run = Workload(seq_len=length, phase="train")
        palm = compare_conventions(shape, run).row("PaLM").flops
        assert palm is not None
        for row in (row for row in rows if row["T"] == length):
            assert params(shape).answer == row["n_params"]
            teraflops = palm / length * row["tok_s_gpu"] / 1e12
            rounding = 0.5 / row["tok_s_gpu"]
            assert row["model_tflop"] - 1 <= teraflops * (1 + rounding)
            assert teraflops * (1 - rounding) <= row["model_tflop"] + 1
            peak = teraflops / row["mfu"] * 100
            known = {one.peaks.get("bf16", 0) / 1e12 for one in accelerators()} | {1978.9}
            assert min(abs(peak - one) for one in known) <= (rounding + 0.005 / row["mfu"] + 0.001) * peak
            assert row["hfu"] == pytest.approx(row["mfu"] * (4 / 3 if row["ckpt"] else 1), rel=0.001)
            used = utilisation(shape, row["tok_s_gpu"], Machines(peak * 1e12), run)
            # ours is exact: without the looked-up positions, biases and norms that N holds
            spare = 6 * (length * h + 13 * h * layers + 2 * h)
            assert float(used.model_share) == pytest.approx(row["mfu"] / 100 * (1 - spare * length / palm), rel=1e-4)


def test_recomputing_all_is_less_than_a_third_more() -> None:
    """The 4/3 of HFU by rule of thumb counts the head again, which no checkpoint holds."""
    used = utilisation(gpt(4096, 32, 32), 1, Machines(1e15), Workload(seq_len=2048, phase="train", recompute="full"))
    assert 1.32 < used.hardware_share / used.model_share < 4 / 3


LLAMA = [row for row in PUBLISHED if row["table"] == "Llama GPU hours" and row["model"].startswith("Llama-2")]


@pytest.mark.parametrize(("name", "hours", "mfu"), [("llama-2-7b", 184_320, 0.391), ("llama-2-13b", 368_640, 0.377)])
def test_the_gpu_hours_of_llama_2(name: str, hours: int, mfu: float) -> None:
    """2·10¹² tokens of 4,096 on A100s, by 6ND; the exact count has attention's products, 14 % of the step for 7B."""
    assert hours in {row["gpu_hours"] for row in LLAMA}
    model, tokens = load(name), 2 * 10**12
    seconds = hours * 3600
    assert six_nd(params(model).answer, tokens) / seconds / 312e12 == pytest.approx(mfu, abs=0.001)
    used = utilisation(model, tokens / seconds, machines_of("a100"), Workload(seq_len=4096, phase="train"))
    assert 1.08 < float(used.model_share) / mfu < 1.15


def test_mfu_leaves_out_what_a_fused_kernel_computes_again() -> None:
    model = gpt(512, 8, 4)
    runs = {kernel: Workload(seq_len=256, phase="train", kernel=kernel) for kernel in ("math", "flash")}
    used = {kernel: utilisation(model, 1000, Machines(1e14), run) for kernel, run in runs.items()}
    assert used["flash"].model_share == used["math"].model_share == used["math"].hardware_share
    scores = 2 * 4 * 256 * 512  # Q Kᵀ of a token
    assert used["flash"].hardware_flops_of_token - used["math"].hardware_flops_of_token == scores


def test_a_rate_is_of_all_gpus_or_of_each() -> None:
    model, eight = Transformer(), Machines(312e12, 8)
    assert utilisation(model, 8000, eight).model_share == utilisation(model, 1000, eight, per_gpu=True).model_share
    assert utilisation(model, 1000, Machines(312e12)).model_share == utilisation(model, 8000, eight).model_share


def warned(rate: float, machines: Machines, **more: Any) -> str:
    return " ".join(utilisation(load("gpt2"), rate, machines, Workload(seq_len=1024, phase="train"), **more).warnings)


def test_a_published_sparse_peak_is_told() -> None:
    assert "1,979 TFLOP/s looks like H100-SXM's peak with sparsity: dense bf16 is 989.4" in warned(
        1e5, Machines(1979e12)
    )
    assert "A100" in warned(1e5, Machines(624e12))
    assert warned(1e5, Machines(989e12)) == warned(1e5, Machines(312e12)) == ""
    assert warned(1e5, Machines(1979e12, precision="fp8")) == ""


def test_over_100_per_cent_is_answered_with_what_is_probably_wrong() -> None:
    assert "MFU over 100 % is impossible: is the rate of several GPUs? It takes at least 3: add --gpus" in warned(
        9e5, Machines(312e12)
    )
    together = warned(9e5, Machines(312e12, 8), per_gpu=True)
    assert "all 8 GPUs together? Without --per-gpu it is 30.8 %" in together
    assert "check the rate (tokens, not samples" in warned(1e8, Machines(312e12, 8))
    assert warned(1e5, Machines(312e12)) == ""
    run = Workload(seq_len=1024, phase="train", recompute="full")
    found = utilisation(load("gpt2"), 3.4e5, Machines(312e12), run)
    assert found.model_share < 1 < found.hardware_share
    assert "HFU over 100 % is impossible: does this run recompute that much?" in found.warnings[0]


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf")])
def test_rates_peaks_and_gpus_are_above_0(bad: float) -> None:
    for rate, machines in (
        (bad, Machines(1e14)),
        (1.0, Machines(bad)),
        (1.0, Machines(1e14, bad)),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError, match="is not above 0"):
            utilisation(Transformer(), rate, machines)


def test_a_peak_in_teraflops_is_refused_with_what_was_meant() -> None:
    with pytest.raises(UsageError, match="989 FLOP/s is too low for an accelerator; 989 TFLOP/s are 989T"):
        utilisation(Transformer(), 1, Machines(989))


def test_mfu_is_that_of_training() -> None:
    with pytest.raises(UsageError, match="not for phase prefill"):
        utilisation(Transformer(), 1, Machines(1e14), Workload(phase="prefill"))


def test_the_answer_says_what_was_taken(tfcalc: Program) -> None:
    arguments = ("flops", "gpt2", "--mfu", "--tokens-per-second", "100k", "--gpu", "H100", "--gpus", "2")
    found = json.loads(tfcalc(*arguments, "--json").stdout)
    assert (found["gpu"], found["gpus"], found["precision"]) == ("H100-SXM", 2, "bf16")
    assert found["peak_flops_per_second"] == 989.4e12
    assert (found["tokens_per_second"], found["tokens_per_second_per_gpu"]) == (100_000, 50_000)
    assert found["mfu"] == found["hfu"] == pytest.approx(found["flops_per_token"] * 1e5 / (2 * 989.4e12))
    assert found["conventions"]["tokens_per_second"] == "of all GPUs together"
    assert found["conventions"]["phase"] == "train"
    assert found["components"]
    table = tfcalc(*arguments).stdout
    assert "of all GPUs together" in table
    assert "assuming H100-SXM; others of this name: H100-PCIe (756.5), H100-NVL (835.5)" in table
    assert tfcalc(*arguments, "-q").stdout == f"{found['mfu']:.4g}\n"
    unverified = tfcalc("flops", "gpt2", "--mfu", "--tokens-per-second", "1", "--gpu", "h100-nvl").stdout
    assert "the peak of H100-NVL is unverified" in unverified


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex", "plain"])
def test_every_format_answers(tfcalc: Program, form: str) -> None:
    shown = tfcalc("flops", "gpt2", "--mfu", "--tokens-per-second", "1e5", "--peak", "312T", "--format", form).stdout
    assert "MFU" in shown
    assert "HFU" in shown


def test_a_bar_ends_at_100_per_cent() -> None:
    from tfcalc.render.table import BAR, render
    from tfcalc.report.style import Style

    found = utilisation(Transformer(), 1e12, Machines(1e12), per_gpu=True)
    assert found.model_share > 1000
    assert max(line.count("█") for line in render(found.sheet(), Style(width=200)).splitlines()) == BAR


def test_the_mfu_of_adapters_is_that_of_a_step_that_trains_them(tfcalc: Program) -> None:
    """Frozen weights have no gradients: about 4 FLOPs per weight and token in place of 6. Recomputation is HFU's."""
    asked = ("flops", "llama-3-8b", "--train", "--lora", "16")
    step = json.loads(tfcalc(*asked, "--json").stdout)
    rate = ("--mfu", "--tokens-per-second", "10k", "--gpu", "h100", "--json")
    found = json.loads(tfcalc(*asked, *rate).stdout)
    assert found["mfu"] == pytest.approx(step["total_flops"] / step["tokens"] * 10_000 / 989.4e12)
    assert found["mfu"] == found["hfu"]
    whole = json.loads(tfcalc("flops", "llama-3-8b", "--train", *rate).stdout)
    assert 2 / 3 < found["mfu"] / whole["mfu"] < 3 / 4
    again = json.loads(tfcalc(*asked, *rate, "--checkpointing", "full").stdout)
    assert again["mfu"] == found["mfu"] < again["hfu"]
