"""What is run where little is asked for: the same in every command, said in its header; the mode by what is typed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Quick

MODELS = ("llama-3-8b", "gpt2", "qwen3-0.6b", "t5-small", "bert-base-uncased", "mamba-1.4b", "mixtral-8x7b")


def said(quick: Quick, *words: str) -> dict[str, Any]:
    done = quick(*words, "--json")
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_overview_memory_compare_and_flops_run_the_same(model: str, quick: Quick) -> None:
    overview = said(quick, model)
    trained = said(quick, "memory", model, "--train")
    assert trained["peak_bytes"] == overview["finetune_full_bytes"]
    run = trained["conventions"]
    assert (run["seq_len"], run["recomputation"]) == (
        overview["conventions"]["seq_len"],
        overview["conventions"]["checkpointing"],
    )
    assert said(quick, "flops", model)["flops_per_token"] == overview["forward_flops_per_token"]
    assert (
        said(quick, "compare", model, model)["models"][0]["forward_flops_per_token"]
        == (overview["forward_flops_per_token"])
    )
    if overview["serving_bytes"] is not None:
        served = said(quick, "memory", model, "--serve")
        assert served["total_bytes"] == overview["serving_bytes"]
        assert served["conventions"]["context"] == overview["conventions"]["kv_cache_context"]


@pytest.mark.parametrize(
    ("words", "length", "checkpointing", "context"),
    [
        ("llama-3.1-8b", 4096, "full", 8192),
        ("gpt2", 1024, "full", 1024),
        ("mamba-1.4b", 4096, "full", 4096),  # nothing says how long its input is
    ],
)
def test_a_checkpoint_is_run_as_people_run_it(
    words: str, length: int, checkpointing: str, context: int, quick: Quick
) -> None:
    run = said(quick, "memory", words, "--train")["conventions"]
    assert (run["seq_len"], run["recomputation"]) == (length, checkpointing)
    assert said(quick, "memory", words, "--serve")["conventions"]["context"] == context
    assert said(quick, "flops", words)["conventions"]["seq_len"] == length


def test_the_model_without_a_name_keeps_its_512_tokens(quick: Quick) -> None:
    run = said(quick, "memory", "--train")["conventions"]
    assert (run["seq_len"], run["recomputation"], run["precision"]) == (512, "none", "fp32")
    assert said(quick, "flops")["conventions"]["seq_len"] == 512


def test_the_header_says_what_is_run(quick: Quick) -> None:
    shown = quick("memory", "llama-3.1-8b", "--train", "--gpu", "h100").stdout
    assert "bf16, AdamW, batch 1 x 4,096 tokens" in shown
    assert "gradient checkpointing full" in shown


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--lora 16", "--train"),
        ("--qlora", "--train"),
        ("--optimizer adamw-8bit", "--train"),
        ("--checkpointing none --timeline", "--train"),
        ("--gpu 8xh100 --timeline", "--train"),
        ("--chart", "--train"),
        ("--precision bf16-mixed --gpu h100", "--train"),
        ("--lora 8 --gpu 24GB", "--train"),
        ("--context 2k", "--serve"),
        ("--concurrency 4 --gpu h100", "--serve"),
        ("--kv fp8 --gpu h100 --gpu-memory-utilization 0.8", "--serve"),
    ],
)
def test_the_mode_is_that_of_the_options(words: str, meant: str, quick: Quick) -> None:
    short = quick("memory", "gpt2", *words.split())
    whole = quick("memory", "gpt2", meant, *words.split())
    assert short.returncode == whole.returncode
    assert (short.stdout, short.stderr) == (whole.stdout, whole.stderr)
    assert short.returncode in (0, 1)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("--lora 8 --context 4k", "add --train or --serve"),
        ("--batch 4", "add --train or --serve"),
        ("--gpus 8", "add --serve or --train"),
    ],
)
def test_what_may_be_of_both_is_asked_in_a_line(words: str, remedy: str, quick: Quick) -> None:
    done = quick("memory", "gpt2", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert remedy in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_does_not_decide_on_the_mode(quick: Quick, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCALC_OPTIMIZER", "sgd")
    assert (
        said(quick, "memory", "gpt2")["total_bytes"]
        == said(quick, "memory", "gpt2", "--weights", "fp32")["total_bytes"]
    )


def test_a_quantity_of_a_part_is_never_a_product(quick: Quick) -> None:
    """findings: FLOPs times attention was 40.3E at a length of 1, and NEVER was the answer."""
    called = quick("solve", "flops(attention) = 1e13", "--for", "seq", "llama-3-8b")
    pathed = quick("solve", "flops.attention = 1e13", "--for", "seq", "llama-3-8b")
    assert called.stdout.splitlines()[0] == pathed.stdout.splitlines()[0]
    assert called.stdout.startswith("seq 2,502 is nearest")
