"""A closed form holds at other sizes: batch, length, depth, widths, heads, vocabulary and whatever else has a letter.

A decision that was taken on a size and became a number in the formula shows here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.laws.other_sizes import OtherStructure, Squared, at, fixed, letters_of, models, that_run
from tfcalc import InvalidModel, Workload
from tfcalc.analysis.common import run_tree
from tfcalc.configs.config import model_types
from tfcalc.configs.published import HFModel
from tfcalc.core import measure
from tfcalc.core.component import Measure
from tfcalc.model import with_symbols

TYPES = model_types()
STEP = Workload(batch_size=2, seq_len=24, phase="train")
HELD: dict[str, Measure] = {
    "params": measure.params,
    "active_params": measure.active_params,
    "bf16_bytes": measure.held_bytes(16),
    "int4_bytes": measure.held_bytes(4),
}
RUN: dict[str, Measure] = {"matmul": measure.flops_of(False, False), "all": measure.flops_of(False, True)}
TRAINED: dict[str, Measure] = {"matmul": measure.flops_of(True, False), "all": measure.flops_of(True, True)}
ASKED: dict[str, tuple[Workload, dict[str, Measure]]] = {
    "forward": (STEP.replaced(phase="forward"), HELD | RUN),
    "causal pairs": (STEP.replaced(phase="forward", attention="causal"), RUN),
    "train": (STEP, TRAINED),
    "recompute": (STEP.replaced(recompute="full", kernel="flash"), TRAINED),
    "decode": (STEP.replaced(phase="decode", cached=24), RUN),
}


@pytest.mark.one_in(20)
@pytest.mark.parametrize("model_type", TYPES)
@pytest.mark.parametrize("question", ASKED)
def test_closed_forms_of_every_family_hold_at_other_sizes(question: str, model_type: str) -> None:
    run, asked = ASKED[question]
    drawn = list(that_run(models(model_type), run))
    compared = (wrong for model in drawn if (wrong := _compared(model, run, asked)) is not None)
    assert not drawn or next(compared) == []


def _compared(model: HFModel, run: Workload, asked: dict[str, Measure]) -> list[str] | None:
    """The forms that are wrong; None where squares are of another structure, or lists hold what should be squared."""
    try:
        return list(_wrong(model, run, asked))
    except (InvalidModel, OtherStructure):
        return None


def _wrong(model: HFModel, run: Workload, asked: dict[str, Measure]) -> Iterator[str]:
    twin = run_tree(with_symbols(model), with_symbols(run))
    for name, one in asked.items():
        closed = twin.each(one)
        squared = Squared(model, run, fixed(model, letters_of(closed)))
        if at(closed, squared.sizes) != run_tree(squared.model, squared.run).each(one):
            yield f"{name}: {closed}"
