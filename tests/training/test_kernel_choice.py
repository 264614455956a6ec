"""Which attention kernel is counted, and that the answer says its name: by aten's sdp_utils.cpp and by hand."""

from __future__ import annotations

import pytest

from tfcalc import Training, Workload, load, memory
from tfcalc.defaults import resolve_training


@pytest.mark.parametrize(
    ("name", "length", "precision", "kernel"),
    [
        ("gpt2", 512, "fp32", "efficient"),  # each head has keys of its own
        ("qwen3-8b", 512, "fp32", "math"),  # heads share them, and no kernel but math takes fp32 with enable_gqa
        ("mistral-7b", 512, "fp32", "math"),  # a window of 4,096 hides nothing
        ("mistral-7b", 4096, "fp32", "efficient"),  # with a mask transformers repeats keys and values
        ("gemma-3-4b", 4096, "fp32", "efficient or math"),  # windows in five layers of six
        ("gemma-3-4b", 4096, "bf16", "flash"),
        ("qwen3-8b", 512, "bf16-mixed", "flash"),
    ],
)
def test_auto_is_the_kernel_that_runs(name: str, length: int, precision: str, kernel: str) -> None:
    run, _ = resolve_training(load(name), Workload(seq_len=length, phase="train"), Training(precision=precision))
    assert run.kernel == kernel


def test_fused_code_has_a_fused_kernel_of_its_own() -> None:
    plan = Training(precision="fp32", backend="fused")
    assert resolve_training(load("qwen3-8b"), Workload(phase="train"), plan)[0].kernel == "efficient"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_efficient_kernel_reads_keys_and_values_repeated_for_each_head(precision: str) -> None:
    model, layers, heads, shared, width = load("qwen3-8b"), 36, 32, 8, 128
    batch, length, number = 2, 512, 4 if precision == "fp32" else 2
    plan = Training(precision=precision)

    def kept(kernel: str) -> int:
        found = memory(model, Workload(batch, length, phase="train", kernel=kernel, recompute="none"), training=plan)
        assert found.conventions["attention_kernel"] == kernel
        return int(found.totals["activations_bytes"])

    tokens = batch * length
    repeated = 2 * tokens * (heads - shared) * width * number  # keys and values
    random_state = 8 * (2 - 3)  # the efficient kernel keeps two numbers, flash attention three
    assert kept("efficient") - kept("flash") == layers * (repeated + random_state)
