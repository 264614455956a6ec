"""MobileBERT's width within a layer, as transformers 5.23 builds it on the meta device."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import params
from tfcalc.configs.published import HFModel

BUILT: tuple[tuple[dict[str, int], int], ...] = (
    ({}, 36_596_538),
    ({"true_hidden_size": 256}, 55_919_418),
    ({"true_hidden_size": 256, "intra_bottleneck_size": 256}, 59_083_578),
    ({"use_bottleneck": False}, 92_150_586),
    ({"use_bottleneck": False, "true_hidden_size": 64}, 23_832_378),
)


@pytest.mark.parametrize(("fields", "built"), BUILT, ids=lambda value: str(value))
def test_a_width_that_the_config_states_wins_over_that_of_the_bottleneck(fields: dict[str, Any], built: int) -> None:
    """MobileBertConfig sets true_hidden_size by itself, and then what it is given."""
    model = HFModel({"model_type": "mobilebert", "architectures": ["MobileBertForMaskedLM"], **fields})
    assert params(model).answer == built
