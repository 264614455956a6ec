"""DistributedDataParallel's buckets: as large as all gradients together, on top of the step of one GPU."""

from __future__ import annotations

import pytest

from tfcalc import Transformer, Workload, load
from tfcalc.answers.memory_in_words import memory
from tfcalc.errors import InvalidModel
from tfcalc.plans import Training

RUN = Workload(phase="train", seq_len=128)
GPT2 = 124_439_808
"""Parameters of gpt2, the tied head once (transformers)."""
ADAPTERS = 12 * 16 * ((768 + 2304) + (768 + 768) + (768 + 3072) + (3072 + 768))
"""LoRA of rank 16 beside a layer's four maps: r(in + out) each."""


def bytes_of(plan: Training, name: str = "gpt2") -> tuple[int, int]:
    """The peak, and the buckets."""
    found = memory(load(name), RUN, training=plan)
    return found.answer, int(found.totals["communication_bytes"])


@pytest.mark.parametrize(
    ("plan", "buckets"),
    [
        (Training(precision="fp32"), 4 * GPT2),
        (Training(precision="bf16-mixed"), 4 * GPT2),
        (Training(precision="bf16"), 2 * GPT2),
        (Training(precision="bf16-master"), 2 * GPT2),
        (Training(precision="bf16", lora=16), 2 * ADAPTERS),
        # gradients that are summed up in fp32 are reduced where they are
        (Training(precision="bf16-master-fp32-grads"), 0),
    ],
    ids=lambda value: value.precision if isinstance(value, Training) else "",
)
def test_data_parallelism_takes_a_copy_of_the_gradients(plan: Training, buckets: int) -> None:
    """Source: torch.nn.parallel.DistributedDataParallel, gradient_as_bucket_view: "total gradients memory size"."""
    (alone, none), (several, found) = bytes_of(plan), bytes_of(plan.replaced(gpus=8))
    assert none == 0
    assert found == buckets
    assert several - alone == buckets
    assert bytes_of(plan.replaced(gpus=2)) == (several, found), "every GPU has all of them"


def test_gradients_that_are_views_of_the_buckets_are_there_all_the_time() -> None:
    """Source: torch/csrc/distributed/c10d/reducer.cpp; tests/verify/test_ddp_buckets.py."""
    plan = Training(precision="bf16", gpus=8)
    views = plan.replaced(gradient_as_bucket_view=True)
    run = RUN.replaced(recompute="full")
    beside, within = (memory(load("gpt2"), run, training=each) for each in (plan, views))
    phases = [{phase["phase"]: phase for phase in each.more["timeline"]} for each in (beside, within)]
    assert within.totals["communication_bytes"] == 0
    assert phases[1]["forward"]["gradients_bytes"] == 2 * GPT2
    assert phases[1]["forward"]["peak_bytes"] == phases[0]["forward"]["peak_bytes"], "buckets or gradients"
    assert phases[1]["step"]["peak_bytes"] == phases[0]["step"]["peak_bytes"] - 2 * GPT2


@pytest.mark.parametrize(
    "plan",
    [
        Training(precision="bf16"),
        Training(precision="bf16", gpus=8, zero="2"),
        Training(precision="bf16-master-fp32-grads", gpus=8),
    ],
)
def test_without_buckets_there_are_no_views_of_them(plan: Training) -> None:
    with pytest.raises(InvalidModel, match="--gradient-as-bucket-view has no effect without DDP's buckets"):
        memory(load("gpt2"), RUN, training=plan.replaced(gradient_as_bucket_view=True))


def test_zero_and_megatron_have_no_such_buckets() -> None:
    for stage in ("1", "2", "3"):
        assert bytes_of(Training(precision="bf16", gpus=8, zero=stage))[1] == 0
    assert bytes_of(Training(precision="bf16", gpus=8, backend="megatron"))[1] == 0


def test_the_classic_model_has_them_too() -> None:
    """torch.nn.Transformer(): 44,140,544 parameters of 4 bytes."""
    one, eight = (memory(Transformer(), RUN, training=Training(gpus=gpus)).answer for gpus in (1, 8))
    assert eight - one == 4 * 44_140_544


def test_they_stand_in_the_table() -> None:
    shown = str(memory(load("gpt2"), RUN, training=Training(precision="bf16", gpus=8)))
    assert "DDP buckets" in shown
    assert "DDP buckets" not in str(memory(load("gpt2"), RUN, training=Training(precision="bf16")))
