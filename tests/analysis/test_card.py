"""What a card shows of training: three figures with bands, and verdicts that leave room for fragments."""

from __future__ import annotations

import pytest

from tests.conftest import Program
from tests.real_runs import KEYS, Run, answered, runs
from tfcalc import Training, Workload, fits, load, memory
from tfcalc.answers.memory_base import card_line, card_lines
from tfcalc.answers.training_memory import TrainingMemory
from tfcalc.answers.verdict import Fit
from tfcalc.hardware import CONTEXT
from tfcalc.search.gpus import common
from tfcalc.training.allocator import Reserved
from tfcalc.training.measured import Figure, OnCard, allocatable, bands, most_reserved, on_card
from tfcalc.training.peaks import Peaks

GIB = 2**30


def test_reserved_is_no_less_than_allocated_and_nvidia_smi_shows_more() -> None:
    found = on_card(10 * GIB, 11 * GIB, GIB // 2)
    assert found.allocated.low < found.allocated.bytes < found.allocated.high
    assert found.allocated.bytes <= found.reserved.low <= found.reserved.bytes < found.reserved.high
    assert found.device.low == found.reserved.low + 256 * 2**20  # the smallest context that was measured
    assert found.device.high == found.reserved.high + 1343 * 2**20  # transformers' docs, before CUDA 11.7
    assert found.device.bytes == 11 * GIB + GIB // 2


def test_text() -> None:
    found = OnCard(Figure(900, 800, 1000), Figure(2 * GIB, GIB, 3 * GIB), Figure(4 * GIB, 3 * GIB, 5 * GIB))
    assert card_line(found, "iec") == "On the card: allocated 800-1000 B, reserved 1.00-3.00, nvidia-smi 3.00-5.00 GiB"
    assert card_lines(found, "iec")[1] == "reserved 2.00 GiB (1.00-3.00 GiB): the caching allocator, simulated"


def test_a_band_with_two_units_has_both() -> None:
    """CLIP with adapters on a 4060: "nvidia-smi 949 MiB-2.18 GiB MiB-2.18"."""
    mib = 2**20
    small, mixed, large = Figure(2, 652 * mib, 718 * mib), Figure(2, 949 * mib, 3 * GIB), Figure(2, 2 * GIB, 3 * GIB)
    found = {
        (small, small, mixed): "allocated 652-718 MiB, reserved 652-718 MiB, nvidia-smi 949 MiB-3.00 GiB",
        (small, mixed, large): "allocated 652-718 MiB, reserved 949 MiB-3.00 GiB, nvidia-smi 2.00-3.00 GiB",
        (mixed, large, large): "allocated 949 MiB-3.00 GiB, reserved 2.00-3.00, nvidia-smi 2.00-3.00 GiB",
    }
    for figures, text in found.items():
        assert card_line(OnCard(*figures), "iec") == f"On the card: {text}"


def test_the_json_has_what_the_text_has() -> None:
    report = memory(load("gpt2"), Workload(seq_len=512, phase="train"), training=Training())
    assert isinstance(report, TrainingMemory)
    found = report.on_card
    assert found is not None
    told = report.to_dict()
    assert told["reserved_bytes"] == found.reserved.bytes
    assert (told["device_low_bytes"], told["device_high_bytes"]) == (found.device.low, found.device.high)
    assert told["allocated_high_bytes"] == int(report.answer * bands()["allocated"].high)


def test_the_allocator_is_not_simulated_for_ten_thousand_layers() -> None:
    """It would take a minute. That is said, and no figure is told; a verdict rests on what is allocated."""
    model, run = load("gpt2").replaced(n_layers=10_000, d_model=8, n_heads=1, d_ff=8), Workload(phase="train")
    report = memory(model, run, training=Training())
    assert isinstance(report, TrainingMemory)
    assert report.on_card is None
    assert "reserved_bytes" not in report.to_dict()
    (told,) = [note for note in report.notes if note.startswith("Reserved: not simulated, as a step allocates and ")]
    found = fits(model, None, run, gpu="8TB", training=Training())
    assert (found.fits, found.on_card, found.runs) == (True, None, True)
    assert told in str(found)


def fit(gpu: str = "", budget: str | None = None) -> Fit:
    """gpt2, whose peak is 2.20 GiB."""
    return fits(
        load("gpt2"),
        budget,
        Workload(seq_len=512, phase="train", recompute="none"),
        gpu=gpu or None,
        training=Training(),
    )


def test_a_card_has_to_hold_fragments_too() -> None:
    """Of 3 GB 2.29 GiB are usable: more than the peak, but less than 25 % more (2.7)."""
    found = fit("3GB")
    assert found.budget.bytes == 3 * 10**9 - 2**29
    assert allocatable(found.budget.bytes) < found.report.answer < found.budget.bytes
    assert (found.fits, found.tight) == (False, False)
    assert found.verdict.startswith("MAY NOT FIT: needs 2.20 GiB, a 3 GB card has 2.29 GiB usable (")


def test_a_budget_is_compared_with_what_is_allocated() -> None:
    found = fit(budget="2.2GiB")
    assert found.fits
    assert found.on_card is None
    assert "On the card" not in str(found)


def test_what_cannot_run_does_not_fit_though_it_is_little_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more would be reserved than there is, and giving back cached blocks does not help either."""
    assert fit("3.6GB").fits
    monkeypatch.setattr(Peaks, "reserved", lambda *_: Reserved(4 * GIB, 2 * GIB))
    monkeypatch.setattr(Peaks, "reserved_within", lambda *_: None)
    found = fit("3.6GB")
    assert not found.fits
    assert found.verdict.startswith("MAY NOT FIT")


def test_the_allocator_is_asked_in_what_there_is() -> None:
    model, run, plan = load("gpt2"), Workload(phase="train"), Training()
    peaks = Peaks(model)
    allocated = peaks.peak(run, plan)
    assert peaks.reserved_within(run, plan, allocated - 2**20) is None
    assert peaks.reserved_within(run, plan, peaks.reserved(run, plan).reserved) is not None


def measured() -> list[Run]:
    """Runs whose segments, or whole card, were measured, and that can be asked about."""
    return [run for run in runs() if run.quantity in ("reserved", "nvidia-smi") and run.arguments]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("run", measured(), ids=lambda run: f"{run.group}: {run.run}")
def test_no_common_card_is_said_to_hold_a_run_that_it_does_not(run: Run) -> None:
    """Of the whole card's figure the context is assumed as it is for a card. It may fit tightly: the cache shrinks."""
    needed = run.bytes - (CONTEXT if run.quantity == "nvidia-smi" else 0)
    said, _ = answered(run.arguments)
    for gpu in common():
        usable = gpu.usable().bytes
        assert usable >= needed or most_reserved(said["reserved_bytes"]) > usable, gpu.name


def test_most_measured_runs_are_within_their_bands() -> None:
    """All of Qwen's; of BERT's but the two whose gradients PyTorch 1.x kept between steps."""
    within = {}
    for run in measured():
        said, _ = answered(run.arguments)
        key = KEYS[run.quantity].removesuffix("_bytes")
        within[run.group, run.run] = said[f"{key}_low_bytes"] <= run.bytes <= said[f"{key}_high_bytes"]
    assert len(within) >= 25
    assert sum(within.values()) >= 0.9 * len(within)


@pytest.mark.parametrize("more", [(), ("--json",), ("--timeline",)])
def test_each_door_opens(tfcalc: Program, more: tuple[str, ...]) -> None:
    assert tfcalc("memory", "gpt2", "--train", *more).returncode == 0
