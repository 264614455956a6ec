"""Serving on several GPUs: verdicts, layouts that are chosen, and how many GPUs a model takes."""

from __future__ import annotations

import pytest

from tests.conftest import Quick
from tfcalc import Serving, check, fits, formula, load, memory
from tfcalc.answers.verdict import memory_within
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.placed.served import AskedLayout
from tfcalc.search.gpus import of_card

GIB = 2**30


def test_a_layout_is_chosen_as_vllm_would_want_it() -> None:
    """Each layer over the GPUs of a server, as far as heads divide; stages for further servers."""
    model = load("llama-3.1-70b").module()
    chosen = {
        AskedLayout(gpus=4): (4, 1, 1),
        AskedLayout(gpus=8): (8, 1, 1),
        AskedLayout(gpus=16): (8, 2, 1),
        AskedLayout(gpus=6): (2, 3, 1),  # 64 heads divide by 2 alone of 6, 3, 2
        AskedLayout(gpus=8, tp=4): (4, 1, 2),
        AskedLayout(gpus=8, pp=2): (4, 2, 1),
        AskedLayout(tp=2, pp=2): (2, 2, 1),
        AskedLayout(dp=2): (1, 1, 2),
        AskedLayout(gpus=16, replicas=2): (8, 1, 2),
        AskedLayout(gpus=16, ep=16): (8, 1, 2),
    }
    for asked, wanted in chosen.items():
        at = asked.of(model)
        assert (at.tp, at.pp, at.dp) == wanted, asked
    with pytest.raises(InvalidModel, match="GPUs 4 not divisible by tp 8"):
        AskedLayout(gpus=4, tp=8).of(model)
    with pytest.raises(InvalidModel, match="8 GPUs, and tp 2 x pp 2 x dp 1 = 4"):
        AskedLayout(gpus=8, tp=2, pp=2, dp=1).of(model)


def test_stages_are_as_few_as_hold_the_model() -> None:
    """405B in 16 bits are more than 8 cards of 80 GB hold, and 8B less: these are replicas, which share no experts."""
    stages = {"llama-3.1-405b": 2, "llama-3.1-8b": 1, "mixtral-8x7b": 1}
    for name, count in stages.items():
        found, one = (memory_within(load(name), of_card(gpu), serving=Serving()) for gpu in ("16xh100", "8xh100"))
        told = found.definitions
        assert (told["tensor_parallel"], told["pipeline_parallel"], told["data_parallel"]) == (8, count, 2 // count)
        assert found.weights_bytes == pytest.approx(one.weights_bytes / count, rel=0.01), name
    module = load("mixtral-8x7b").module()
    assert AskedLayout(gpus=16, replicas=2).of(module).of_an_expert == 8
    assert AskedLayout(gpus=16, tp=8).of(module).of_an_expert == 8
    assert AskedLayout(gpus=16, tp=8, dp=2).of(module).of_an_expert == 16  # attention apart, experts shared


def test_blocks_of_a_format_are_not_shared(quick: Quick) -> None:
    """MiniMax-M2.7: experts of 1,536 rows are 12 blocks of 128, which divide by 4 GPUs and not by 8."""
    assert memory_within(load("minimax-m2.7"), of_card("8xh100"), serving=Serving()).definitions["tensor_parallel"] == 4
    assert "no whole number of blocks" in quick("serve", "minimax-m2.7", "--gpu", "8xh100", "--tp", "8").stderr


def test_the_memory_of_a_gpu_is_a_share_and_its_copies() -> None:
    """70B by hand: 2 bytes of (W − norms)/4 + norms; 80 layers of 8/4 heads of 128 keys and values."""
    whole, norms = 70_553_706_496, (2 * 80 + 1) * 8192
    found = memory(load("llama-3.1-70b"), serving=Serving(gpus=4, context=8192, concurrency=3))
    assert found.weights_bytes == 2 * ((whole - norms) // 4 + norms)
    assert found.kv_cache_bytes == 3 * 8192 * 80 * 2 * 128 * 2 * 2
    of_groups = memory(load("deepseek-v3"), serving=Serving(data_parallel=8, expert_parallel=8, concurrency=20))
    assert of_groups.kv_cache_bytes == 3 * 8192 * 61 * 576 * 2  # of 20 requests a group has 3 at most
    assert of_groups.to_dict()["conventions"].items() >= {"gpus": 8, "tensor_parallel": 1, "data_parallel": 8}.items()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "plan",
    [
        Serving(tensor_parallel=2),
        Serving(tensor_parallel=4, expert_parallel=4),
        Serving(data_parallel=2, expert_parallel=2),
    ],
    ids=str,
)
def test_each_letter_of_a_layout_has_its_meaning_and_its_size(plan: Serving) -> None:
    """Of a mixture whose experts are shared: letters that nobody typed a size for, too."""
    model = load("qwen3-30b-a3b")
    own = formula("weights", "memory", model, serving=plan)
    assert own.closed.free_symbols <= own.legend.keys()
    assert {"t", "d_p", "e_p"} <= own.legend.keys()
    assert check("weights", own.text(), "memory", model, serving=plan).correct
    table = memory(model, serving=plan)
    assert {"t", "d_p", "e_p"} <= table.legend.keys()
    (stored,) = (entry.value for entry in table.whole.parts if entry.name == "weights")
    assert check("weights", str(stored), "memory", model, serving=plan).correct


def test_verdicts_on_several_gpus() -> None:
    """671B in 8 bits take 627 GiB: 8 cards of 71 GiB do not hold them, 16 do, and 8 of 126 GiB."""
    model = load("deepseek-v3")
    assert not fits(model, of_card("8xh100"), serving=Serving()).fits
    assert fits(model, of_card("16xh100"), serving=Serving()).fits
    assert fits(model, of_card("8xh200"), serving=Serving()).fits
    alone = fits(load("llama-3.1-70b"), of_card("h100"), serving=Serving(weights="bf16"))
    found = {flags: remedy.tight for remedy, flags in zip(alone.remedies, alone.flags, strict=True)}
    assert found[("--gpus 2",)]  # 68.1 of 71.2 GiB leave less than the margin
    assert not found[("--gpus 4",)]
    with pytest.raises(UsageError, match="--gpus 2 contradicts 4xh100"):
        fits(load("llama-3-8b"), of_card("4xh100"), serving=Serving(gpus=2))


def test_how_many_gpus_a_model_takes(quick: Quick) -> None:
    """The fewest of a kind on which it fits, each of which is tried; a model that one holds names that one."""
    assert "16 H100-SXM or 8 H200-SXM" in quick("deepseek-v3").stdout
    assert "16xH100-SXM" in quick("deepseek-v3", "--json").stdout
    assert "H100-SXM" not in next(line for line in quick("llama-3.1-70b").stdout.splitlines() if "serving" in line)
    for gpus, held in ((8, False), (16, True)):
        assert (quick("memory", "deepseek-v3", "--serve", "--gpu", f"{gpus}xh100").returncode == 0) is held


def test_the_command_line_takes_layouts_of_serving(quick: Quick) -> None:
    assert "4 GPUs = TP 2 x PP 2" in quick("memory", "llama-3-8b", "--serve", "--tp", "2", "--pp", "2").stdout
    assert "8 GPUs = DP 8, EP 8" in quick("memory", "deepseek-v3", "--dp", "8", "--ep", "8").stdout
    refused = {
        ("llama-3-8b", "--tp", "2"): "--tp 2 has no effect on a model at rest; add --serve or --train",
        ("llama-3-8b", "--train", "--ep", "2"): "expert parallelism has no effect on a model without experts",
        ("llama-3-8b", "--serve", "--tp", "2", "--cache", "dynamic"): "a dynamic cache on several GPUs",
        ("llama-3-8b", "--serve", "--tp", "3"): "heads 32 not divisible by tensor 3; nearest: 2, 4",
        (
            "llama-3-8b",
            "--serve",
            "--tp",
            "2",
            "--ep",
            "2",
        ): "expert parallelism has no effect on a model without experts",
    }
    for words, fact in refused.items():
        found = quick("memory", *words)
        assert found.returncode in (2, 3)
        assert fact in found.stderr


def test_a_sweep_over_layouts_runs_each(quick: Quick) -> None:
    lines = quick("sweep", "llama-3.1-70b", "--of", "cache", "--serve", "--tp", "4,8,16", "--format", "csv").stdout
    sizes = [int(line.split(",")[-1]) for line in lines.splitlines()[1:]]
    assert sizes == [8192 * 80 * 2 * heads * 128 * 2 for heads in (2, 1, 1)]


@pytest.mark.long
def test_a_million_tokens_on_two_gpus_are_answered(quick: Quick) -> None:
    """What a GPU runs is the same for each number of tokens and of GPUs that is tried, and is run once."""
    said = quick("memory", "deepseek-v4-flash", "--serve", "--context", "1M", "--gpu", "2xh20")
    assert said.returncode == 1
    assert said.stdout.startswith("DOES NOT FIT")
    assert "--gpu 4xh20" in said.stdout


def test_windows_that_are_full_are_told(quick: Quick) -> None:
    """Gemma 3 27B: 10 of 62 layers keep all tokens, 2 x 16 heads of 128 numbers in 2 bytes; of Mistral 7B v0.1 none."""
    some = quick("memory", "gemma-3-27b-it", "--serve", "--context", "128k").stdout
    told = "From 1,024 tokens on 52 layers cache nothing more of a request; a further token adds"
    assert f"{told} {10 * 2 * 16 * 128 * 2 / 1024:.1f} KiB in the others" in some
    assert f"{told} {10 * 2 * 8 * 128 * 2 / 1024:.1f} KiB" in quick("serve", "gemma-3-27b-it", "--gpu", "2xh100").stdout
    every = quick("memory", "mistral-7b-v0.1", "--serve", "--context", "32k", "--gpu", "rtx-4090").stdout
    assert "From 4,096 tokens on the cache of a request does not grow" in every
    assert "tokens on" not in quick("memory", "mistral-7b-v0.1", "--serve", "--context", "4k").stdout


def test_a_window_beside_summaries_is_no_full_window(quick: Quick) -> None:
    """DeepSeek-V4-Flash: all of 43 layers have a window, 2 have it alone; 21 keep a key of 512 and one of 128 numbers
    for 4 tokens, 20 one of 512 for 128, in 2 bytes (compress_ratios of its config).
    """
    kib = 2 * (21 * (512 + 128) / 4 + 20 * 512 / 128) / 1024
    told = f"From 128 tokens on 2 layers cache nothing more of a request; a further token adds {kib:.2f} KiB"
    assert told in quick("memory", "deepseek-v4-flash", "--serve", "--context", "1M").stdout
