"""A step that ran holds at other sizes, where the same is decided: the peak there is that of a step of its own."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tfcalc
from tfcalc import Training, Workload
from tfcalc.core.traced import Guards, guarded
from tfcalc.ops import loops
from tfcalc.training.peaks import PeakForm, Peaks, peak_form, training_peak

SMALL = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 300}
LLAMA = SMALL | {"model_type": "llama", "intermediate_size": 160, "num_key_value_heads": 2}
KIMI = SMALL | {"model_type": "kimi_linear", "num_local_experts": 4, "intermediate_size": 96}
CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        "a tied table, eager attention",
        {"model_type": "gpt2", "n_layer": 9, "n_embd": 64, "n_head": 4},
        {"kernel": "eager"},
        {},
    ),
    ("windows", SMALL | {"model_type": "gemma2", "sliding_window": 128, "num_hidden_layers": 16}, {}, {}),
    ("layers that run again", LLAMA | {"num_hidden_layers": 12}, {"recompute": "full"}, {"precision": "bf16-mixed"}),
    ("some operations do", LLAMA, {"recompute": "selective-op"}, {"precision": "bf16-autocast"}),
    ("steps in backward", LLAMA, {}, {"optimizer_in_backward": True, "optimizer": "adamw-forloop"}),
    ("FSDP", LLAMA, {}, {"zero": "3", "gpus": 4, "layout": "fsdp2", "precision": "bf16-mixed"}),
    ("chunks, and a loop that keeps more and more", KIMI, {}, {}),
    ("a state for each head", SMALL | {"model_type": "mamba2", "num_heads": 8, "head_dim": 16}, {}, {}),
    ("an encoder", {"model_type": "t5", "d_model": 64, "num_layers": 3, "num_heads": 4}, {}, {}),
    ("experts, adapters", LLAMA | {"model_type": "mixtral", "num_local_experts": 4}, {}, {"lora": 4}),
    ("a loop that holds logits", LLAMA, {}, {"loop": "tutorial", "lora": 4}),
    ("logits in pieces", LLAMA, {}, {"backend": "fused", "precision": "bf16-mixed"}),
]
BATCHES, LENGTHS = (1, 2, 7), (1, 3, 64, 65, 127, 128, 200, 250, 256, 500, 1000, 1024)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("config", "run", "plan"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_peaks_at_other_sizes_are_those_of_steps_of_their_own(
    config: dict[str, Any], run: dict[str, Any], plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, asked, how = tfcalc.from_config(config), Workload(phase="train", **run), Training(**plan)
    peaks, alone, ran = Peaks(model), Peaks(model), list[PeakForm]()

    def counted(*given: Any, **all_or_ends: Any) -> PeakForm:
        ran.append(peak_form(*given, **all_or_ends))
        return ran[-1]

    monkeypatch.setattr("tfcalc.training.peaks.peak_form", counted)
    points = [asked.replaced(batch_size=batch, seq_len=length) for batch, length in product(BATCHES, LENGTHS)]
    for point in points[::2] + points[1::2]:
        assert peaks.peak_of_size(point, how, 1 << 60) == alone.peak(point, how), (point.batch_size, point.seq_len)
    assert len(ran) <= len(points) // 2, "most points need no step"
    for point in points[::6]:
        assert peaks.reserved(point, how) == alone.reserved(point, how), (point.batch_size, point.seq_len)
    assert not peaks.noted, "allocations need no step of their own either"


def test_what_is_beyond_the_budget_anyway_needs_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights alone are: 4 bytes a parameter."""
    monkeypatch.setattr("tfcalc.training.peaks.peak_form", None)
    model = tfcalc.load("gpt2")
    assert Peaks(model).peak_of_size(Workload(phase="train"), Training(precision="fp32"), 1000) >= 4 * 124_439_808


@pytest.mark.one_in(6)
@pytest.mark.parametrize("length", [1, 64, 200, 1000])
@pytest.mark.parametrize("run", [{}, {"batch_size": 3}])
@pytest.mark.parametrize("plan", [{}, {"precision": "bf16-autocast"}, {"lora": 4}, {"grad_accum": 2}])
def test_turns_that_do_not_run_change_no_peak(
    length: int, run: dict[str, Any], plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tfcalc.from_config(KIMI)
    asked, how = Workload(phase="train", seq_len=length, **run), Training(**plan)
    short = training_peak(model, asked, how)
    steps = Peaks(model)
    steps.peak(asked, how)
    monkeypatch.setattr(loops, "FIRST", 64)  # all of them, for there are 63
    whole = Peaks(model)
    assert whole.peak(asked, how) == short
    (one,), (other,) = steps.steps.values(), whole.steps.values()
    assert one.saved == other.saved
    for phase, moment in other.phases.items():
        found = one.phases[phase]
        assert (found.total, found.saved, found.gradients) == (moment.total, moment.saved, moment.gradients)


def test_a_number_is_there_once_and_what_was_decided_stays() -> None:
    guards = Guards()
    l, b = guarded("l", 200, guards), guarded("b", 3, guards)
    assert l * b is b * l is guarded("l", 200, guards) * b
    assert l + 1 - 1 is l
    assert ((l * 2).value, (l // 64).value) == (400, 3)
    for _ in range(2):
        assert l % 8 == 0
        assert l > b
    assert [guards.hold({"l": length, "b": 3}) for length in (200, 8, 201, 7)] == [True, True, False, False]
    assert len(guards.decided) == 2
