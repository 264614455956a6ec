"""Every family against transformers on the meta device: each tensor by name, at its defaults and at random configs.

The random configs are small and seeded by the model type's name, so that every run sees the same.
"""

from __future__ import annotations

import pytest

from tests.verify.compare import configs, differences
from tests.verify.random_configs import load
from tfcalc.configs.config import model_types
from tfcalc.errors import Unavailable

pytestmark = pytest.mark.torch

FAMILIES = [name for name in model_types() if name in load()]

DRAWN = 8
"""Random configs of each type; ``python -m tests.verify.compare TYPE`` draws 20."""

NO_DEFAULT = {
    "aya_vision",
    "dbrx",
    "dots1",
    "dots3_note",
    "esm",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "lfm2_moe",
    "ministral",
    "nemotron",
    "reformer",
}
"""Types whose default config transformers 5.23 itself cannot build (recorded with the oracle)."""


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_family_is_equal_to_transformers_tensor_by_tensor(model_type: str) -> None:
    pytest.importorskip("transformers")
    default, *drawn = configs(model_type, DRAWN)
    try:
        assert differences(default) == {}
    except Unavailable:
        if model_type not in NO_DEFAULT:
            raise
    for config in drawn:
        assert differences(config) == {}, config
