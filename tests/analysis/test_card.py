"""What a card shows of training: three figures with bands, and verdicts that leave room for fragments."""

from __future__ import annotations

import pytest

from tests.conftest import Program
from tfcalc import Training, Workload, fits, load, memory
from tfcalc.analysis.card import in_a_line, lines, read
from tfcalc.analysis.training_memory import Peaks
from tfcalc.analysis.verdict import Fit
from tfcalc.footprint.training.card import Figure, OnCard, allocatable, bands, on_card

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
    assert in_a_line(found, "iec") == "On the card: allocated 800-1000 B, reserved 1.00-3.00, nvidia-smi 3.00-5.00 GiB"
    assert lines(found, "iec")[1] == "reserved 2.00 GiB (1.00-3.00 GiB): the caching allocator, simulated"


def test_the_json_has_what_the_text_has() -> None:
    report = memory(load("gpt2"), Workload(phase="train"), training=Training())
    found = read(report.more, report.answer)
    assert found is not None
    told = report.to_dict()
    assert told["reserved_bytes"] == found.reserved.bytes
    assert (told["device_low_bytes"], told["device_high_bytes"]) == (found.device.low, found.device.high)
    assert told["allocated_high_bytes"] == int(report.answer * bands()["allocated"].high)


def fit(gpu: str = "", budget: str | None = None) -> Fit:
    """gpt2, whose peak is 2.18 GiB."""
    return fits(load("gpt2"), budget, Workload(phase="train"), gpu=gpu or None, training=Training())


def test_a_card_has_to_hold_fragments_too() -> None:
    """Of 3 GB 2.29 GiB are usable: more than the peak, but less than it with 15 % for fragments (2.51)."""
    found = fit("3GB")
    assert found.budget.bytes == 3 * 10**9 - 2**29
    assert allocatable(found.budget.bytes) < found.report.answer < found.budget.bytes
    assert (found.fits, found.tight) == (False, False)
    assert found.verdict.startswith("MAY NOT FIT: needs 2.18 GiB, a 3 GB card has 2.29 GiB usable (")


def test_a_budget_is_compared_with_what_is_allocated() -> None:
    found = fit(budget="2.2GiB")
    assert found.fits
    assert found.on_card is None
    assert "On the card" not in str(found)


def test_what_cannot_run_does_not_fit_though_it_is_little_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more would be reserved than there is, and giving back cached blocks does not help either."""
    assert fit("3.3GB").fits
    monkeypatch.setattr(Peaks, "runs_in", lambda *_: False)
    found = fit("3.3GB")
    assert not found.fits
    assert found.verdict.startswith("MAY NOT FIT")


def test_the_allocator_is_asked_in_what_there_is() -> None:
    model, run, plan = load("gpt2"), Workload(phase="train"), Training()
    peaks = Peaks(model)
    allocated = peaks.peak(run, plan)
    assert not peaks.runs_in(run, plan, allocated - 2**20)
    assert peaks.runs_in(run, plan, peaks.reserved(run, plan).reserved)


@pytest.mark.parametrize("more", [(), ("--json",), ("--timeline",)])
def test_each_door_opens(tfcalc: Program, more: tuple[str, ...]) -> None:
    assert tfcalc("memory", "gpt2", "--train", *more).returncode == 0
