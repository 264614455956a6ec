"""What a step tells of one whose gradients are added to buffers elsewhere is what that one says by itself."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tfcalc import Training, Workload, load
from tfcalc.model import asked_run
from tfcalc.tape.memory_tracker import MemorySnapshot
from tfcalc.training.peaks import Peaks, step_of
from tfcalc.training.step import StepMemory

STEPS: dict[str, tuple[str, Workload, Training]] = {
    "a table of its own": ("pythia-160m", Workload(seq_len=64), Training()),
    "layers that run again": ("pythia-160m", Workload(seq_len=64, recompute="full"), Training()),
    "adapters": ("llama-3.2-1b", Workload(seq_len=64), Training(lora=8)),
    "autocast": ("pythia-160m", Workload(seq_len=64), Training(precision="bf16-mixed")),
    "experts": ("mixtral-8x7b", Workload(seq_len=64), Training()),
    "a gradient that is the next one's, too": ("vit-base-patch16-224", Workload(), Training()),
}


def stepped(name: str, run: Workload, plan: Training) -> tuple[StepMemory, Peaks, Workload, Training]:
    peaks = Peaks(load(name))
    run, plan = peaks.resolved(asked_run(peaks.model, run.replaced(phase="train")), plan)
    return step_of(peaks.tree(run, plan), peaks.model, run, plan), peaks, run, plan


def moments(phases: Mapping[str, MemorySnapshot] | None) -> dict[str, tuple[int, ...]]:
    assert phases is not None
    return {name: (most.total, most.saved, most.gradients, most.gathered) for name, most in phases.items()}


@pytest.mark.parametrize("case", STEPS)
def test_a_step_tells_of_gradients_that_are_elsewhere(case: str) -> None:
    ran, peaks, run, plan = stepped(*STEPS[case])
    added_up = step_of(peaks.tree(run, plan), peaks.model, run, plan.replaced(grad_accum=2))
    assert moments(ran.apart) == moments(added_up.phases)


@pytest.mark.parametrize(
    "step",
    [
        ("siglip-large-patch16-384", Workload(), Training()),  # the loss's gradient is the bias's, and stays anyway
        ("gpt2", Workload(seq_len=64), Training()),  # a tied table's two gradients are added in new memory
        ("deepseek-v4-flash", Workload(seq_len=64), Training()),  # so are those of a scale that is read three times
        ("t5-small", Workload(seq_len=32, source_len=48), Training()),
        ("gpt2", Workload(seq_len=64), Training(gpus=8, zero="3", layout="fsdp2")),  # are reduced as soon as they come
        ("gpt2", Workload(seq_len=64), Training(optimizer_in_backward=True)),  # are freed as soon as they are complete
    ],
)
def test_some_steps_cannot_tell(step: tuple[str, Workload, Training]) -> None:
    assert stepped(*step)[0].apart is None


def test_a_peak_is_the_same_whoever_tells_it() -> None:
    name, run, plan = STEPS["a table of its own"]
    ran, peaks, run, plan = stepped(name, run, plan)
    assert moments(ran.apart) != moments(ran.phases)
    added_up, apart = plan.replaced(grad_accum=2), Peaks(peaks.model)
    peaks.peak(run, plan)
    assert peaks.peak(run, added_up) == apart.peak(run, added_up)
