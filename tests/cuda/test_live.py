"""Small models trained on a GPU, beside tfcalc: ``pytest -m cuda``, skipped where there is no GPU."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from tests.cuda.record import apart, chosen
from tests.cuda.settings import Setting
from tests.real_runs import CLOSE, compared, run_of

pytestmark = pytest.mark.cuda
SOME = chosen(["smollm-135m-fp32-eager", "smollm-135m-bf16-flash", "gpt2-bf16-efficient"])


@pytest.fixture(autouse=True)
def a_gpu() -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.mark.parametrize("setting", SOME, ids=lambda setting: setting.name)
def test_the_peak_is_close(setting: Setting) -> None:
    """And the saved bytes are equal, but for what the driver's own kernels save of a random state."""
    text, error = apart(setting)
    assert not error
    found = [compared(run_of(json.loads(row))) for row in text.splitlines()]
    errors = {one.run.quantity: one.error for one in found if one.error is not None}
    assert abs(errors["allocated"]) <= CLOSE
    assert abs(errors.get("saved", 0)) <= 0.001
