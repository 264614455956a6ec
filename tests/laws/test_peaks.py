"""The peak of a small model of each architecture in training, as it was.

What is live is known by reference counts: a ``forward`` that keeps a tensor in one more local variable has another
peak, and nothing else tells. ``peaks.txt`` has a line for each model type: the peaks in bytes of its first drawn config
under its usual head, without checkpointing and with it. Tests that need PyTorch hold such peaks against real runs; this
one holds them in every run of the tests. ``pytest tests/laws/test_peaks.py --overwrite`` records them anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laws.test_modules import configs
from tfcalc import Training, Workload, from_config
from tfcalc.configs.config import model_types
from tfcalc.errors import TfcalcError
from tfcalc.training.peaks import training_peak

RECORDED = Path(__file__).with_name("peaks.txt")
STEP = Workload(batch_size=2, seq_len=16, phase="train")
CHECKPOINTING = ("none", "full")
REFUSED = "refused"


def peak(config: dict[str, object], checkpointing: str) -> str:
    """The peak of a step in bytes, or that it is refused."""
    try:
        return f"{training_peak(from_config(config), STEP.replaced(recompute=checkpointing), Training())}"
    except TfcalcError:
        return REFUSED


def line(model_type: str) -> str:
    """The line of a model type, as the file has it."""
    first, *drawn = configs(model_type)
    small = {key: value for key, value in (drawn or [first])[0].items() if key != "architectures"}
    return " ".join((model_type, *(peak(small, each) for each in CHECKPOINTING)))


@pytest.fixture(scope="module")
def recorded() -> dict[str, str]:
    """The line of each model type."""
    return {line.split()[0]: line for line in RECORDED.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize("model_type", model_types())
def test_each_architecture_peaks_where_it_did(
    model_type: str, recorded: dict[str, str], request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--overwrite"):
        pytest.skip("they are recorded anew")
    assert model_type in recorded, f"{model_type} is new: make records"
    assert line(model_type) == recorded[model_type]


def test_the_file_has_all_model_types(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--overwrite"):
        RECORDED.write_text("".join(f"{line(model_type)}\n" for model_type in model_types()), encoding="utf-8")
    kept = [line.split() for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    assert [name for name, *_ in kept] == model_types()
    assert sum(peaks != [REFUSED, REFUSED] for _, *peaks in kept) > 270
