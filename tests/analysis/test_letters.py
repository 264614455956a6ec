"""No letter means two things in one formula: a config's sizes, what is run, and how it is trained or served."""

from __future__ import annotations

import itertools

import pytest

import tfcalc
from tfcalc import Serving, Training, Transformer, Workload
from tfcalc.configs.config import FIELDS


def _letters(described: type) -> set[str]:
    return {size.symbol for size in described().dimensions().values()}


RANK = {"r"}
"""Adapters have r_A for their rank where latent attention has r (tests/analysis/test_trainable.py)."""


@pytest.mark.parametrize("plan", [Training, Serving, Workload])
def test_sizes_of_a_config_have_other_letters_than_the_run(plan: type) -> None:
    """N was a state size and the number of GPUs; m merged patches and micro-batches."""
    of_configs = {field.letter for field in FIELDS.values()}
    assert not (of_configs & _letters(plan)) - RANK


def test_one_letter_one_size() -> None:
    for one, other in itertools.combinations((Transformer, Training, Workload), 2):
        assert not _letters(one) & _letters(other)
    assert not _letters(Transformer) & _letters(Serving)


def test_a_state_size_is_told_from_the_number_of_gpus() -> None:
    legend = tfcalc.memory(tfcalc.load("mamba2-1.3b"), Workload(phase="train"), training=Training()).legend
    assert legend["N_s"] == "state size (state_size)"
    assert "N" not in legend
