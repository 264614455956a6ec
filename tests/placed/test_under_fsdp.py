"""Tensor parallelism without Megatron-LM: transformers' kernels on a device's piece, whose states FSDP shares."""

from __future__ import annotations

import pytest

from tfcalc import Workload, load, memory
from tfcalc.errors import InvalidModel
from tfcalc.plans import Training

RUN = Workload(phase="train", batch_size=2, seq_len=1024, recompute="full", kernel="flash")
PLAN = Training(precision="bf16-fsdp", zero="3", layout="fsdp2", gpus=32, tensor_parallel=8, sequence_parallel=True)


def test_each_device_has_its_share_of_each_matrix_and_all_norms() -> None:
    """llama-3-8b: rows of a matrix over 8 devices, then those of each over 4; fp32."""
    h, f, kv, layers, vocabulary = 4096, 14336, 1024, 32, 128256
    matrices = layers * (2 * h * h + 2 * h * kv + 3 * h * f) + 2 * vocabulary * h
    norms = (2 * layers + 1) * h
    found = memory(load("llama-3-8b"), RUN, training=PLAN)
    assert found.totals["weights_bytes"] == 4 * (matrices // 8 + norms) // 4


def test_a_checkpointed_layer_keeps_its_own_tokens_alone() -> None:
    """With the sequence shared 2·b·l·h/t bytes of each layer, and of the loss the logits of V/t words in fp32."""
    tokens, h, layers, vocabulary = 2 * 1024, 4096, 32, 128256
    found, whole = (
        int(memory(load("llama-3-8b"), RUN, training=plan).totals["activations_bytes"])
        for plan in (PLAN, PLAN.replaced(tensor_parallel=1, sequence_parallel=False))
    )
    inputs, logits = 2 * tokens * h * layers, 4 * tokens * vocabulary
    assert found > (inputs + logits) // 8
    head = 2 * tokens * h  # reads all tokens, and keeps them
    assert found == pytest.approx(whole / 8 + head * 7 / 8, rel=0.001)


def test_without_fsdp_or_in_stages_it_is_megatrons() -> None:
    for plan in (PLAN.replaced(zero="0", layout="flat", precision="bf16"), PLAN.replaced(pipeline_parallel=2)):
        with pytest.raises(InvalidModel, match="needs --backend megatron"):
            memory(load("llama-3-8b"), RUN, training=plan)


def test_devices_share_evenly_or_not_at_all() -> None:
    with pytest.raises(InvalidModel, match="heads 32 not divisible by tensor 3"):
        memory(load("llama-3-8b"), RUN, training=PLAN.replaced(tensor_parallel=3, gpus=12))
