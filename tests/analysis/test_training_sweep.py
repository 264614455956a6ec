"""The memory of training swept over batch sizes and lengths: at each point it is that of a single answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfcalc
from tfcalc import Training, Workload
from tfcalc.training.peaks import Peaks


def sweep(*asked: Any, **sizes: Any) -> Any:
    """The answers alone."""
    return tfcalc.sweep(*asked, **sizes).values


STEP = Workload(phase="train")
SMALL = {"num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 300}
LLAMA = SMALL | {"model_type": "llama", "intermediate_size": 160, "num_key_value_heads": 2}
BATCHES, LENGTHS = np.arange(1, 26)[:, None], np.array([1, 2, 3, 8, 33, 64, 129, 512, 1000, *range(1021, 1052)])


def singly(model: Any, run: Workload, plan: Training) -> list[list[int]]:
    """Each point by itself."""
    peaks = Peaks(model)
    return [
        [peaks.peak(run.replaced(batch_size=int(batch), seq_len=int(length)), plan) for length in LENGTHS]
        for batch in BATCHES.ravel()
    ]


@pytest.mark.long
def test_a_thousand_points_are_what_a_thousand_answers_are() -> None:
    model = tfcalc.from_config(LLAMA)
    swept = sweep(model, "memory", STEP, batch_size=BATCHES, seq_len=LENGTHS)
    assert swept.shape == (25, 40)
    assert swept.tolist() == singly(model, STEP, Training())


STEPPED = {"optimizer_in_backward": True, "optimizer": "adamw-forloop"}
CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("a window that some lengths fill", SMALL | {"model_type": "gemma2", "sliding_window": 128}, {}, {}),
    ("eager attention, checkpointing", LLAMA, {"kernel": "eager", "recompute": "full"}, {"precision": "fp32"}),
    ("kernels that cut the loss into powers of two", LLAMA, {}, {"backend": "fused", "precision": "bf16-mixed"}),
    ("sharded, an optimizer of 8 bits", LLAMA, {}, {"zero": "3", "gpus": 4, "optimizer": "adamw-8bit"}),
    ("experts", LLAMA | {"model_type": "mixtral", "num_local_experts": 4}, {}, {"lora": 4}),
    ("logits that the loop does not free", LLAMA, {"kernel": "eager"}, {"loop": "tutorial", "precision": "bf16"}),
    ("gradients added up", {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4}, {}, {"grad_accum": 2}),
    ("steps in backward, offloaded", LLAMA, {"recompute": "full"}, STEPPED | {"offload_activations": True}),
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("config", "run", "plan"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_sweep_finds_where_something_else_is_decided(
    config: dict[str, Any], run: dict[str, Any], plan: dict[str, Any]
) -> None:
    model, asked, how = tfcalc.from_config(config), STEP.replaced(**run), Training(**plan)
    batches, lengths = np.array([1, 2, 5])[:, None], np.array([1, 2, 7, 64, 127, 128, 129, 500])
    swept = sweep(model, "memory", asked, training=how, b=batches, l=lengths)
    for row, batch in zip(swept.tolist(), (1, 2, 5), strict=True):
        for found, length in zip(row, lengths.tolist(), strict=True):
            point = asked.replaced(batch_size=batch, seq_len=length)
            assert found == tfcalc.memory(model, point, training=how).answer, (batch, length)


def test_the_peak_moves_from_one_phase_to_another() -> None:
    """Short sequences leave the optimizer's step highest, which no length changes; long ones backward."""
    model, how = tfcalc.load("gpt2"), Training(optimizer="adamw")  # whose step copies what it updates
    lengths = np.arange(1, 2001)
    swept = sweep(model, "memory", STEP, training=how, seq_len=lengths)
    rises = np.diff(swept)
    assert rises[0] < 100 < 10_000 < rises[-1]
    for length in (1, int(lengths[np.argmax(rises > 10_000)]), 2000):
        report = tfcalc.memory(model, STEP.replaced(seq_len=length), training=how)
        assert swept[length - 1] == report.answer


def test_numbers_that_64_bits_do_not_hold_are_exact() -> None:
    model = tfcalc.from_config(LLAMA)
    run = STEP.replaced(batch_size=10**6, kernel="eager")
    (swept,) = sweep(model, "memory", run, seq_len=[10**6]).tolist()
    assert swept == tfcalc.memory(model, run.replaced(seq_len=10**6)).answer
    assert swept > 2**63


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"seq_len": [1.5]}, "values of seq_len are not whole numbers"),
        ({"seq_len": [64, 0]}, "seq_len 0 is too small"),
        ({"source_len": [64]}, "source"),
        ({"cached": [64]}, "cached"),
        ({"length": [64]}, "'length' is not known"),
    ],
)
def test_other_sizes_are_refused(sizes: dict[str, Any], said: str) -> None:
    with pytest.raises(tfcalc.TfcalcError, match=said):
        tfcalc.sweep(tfcalc.from_config(LLAMA), "memory", STEP, **sizes)


def test_a_plan_of_training_without_effect_is_refused() -> None:
    with pytest.raises(tfcalc.UsageError, match="a plan of training changes nothing in a sweep of cache"):
        tfcalc.sweep(tfcalc.from_config(LLAMA), "cache", training=Training(), seq_len=[64])
