"""What torch.nn.Transformer keeps for backward, and the most that is live, held against recorded steps.

See tests/oracle/README.md. The rows' loss is one number: the sum of the outputs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.conftest import recorded
from tests.training.test_training_rows import NUMERICS
from tfcalc import Transformer, Workload
from tfcalc.backends.program import ModuleProgram, program
from tfcalc.core.number import total
from tfcalc.errors import InvalidModel
from tfcalc.tape.tensor import Tensor

ROWS = recorded("memory/nn-transformer.public.jsonl")


def named(row: dict[str, Any]) -> str:
    keys = ("batch", "seq", "target_seq", "recipe", "attention", "dropout", "norm_first")
    return "-".join(str(row[key]) for key in keys)


def ran(row: dict[str, Any], *, every_layer: bool = True) -> tuple[ModuleProgram, Tensor]:
    """The recorded step's forward pass, and its loss."""
    run = Workload(
        phase="train",
        batch_size=row["batch"],
        seq_len=row["target_seq"],
        source_len=row["seq"],
        kernel=row["attention"],
        dropout=bool(row["dropout"]),
    )
    model = Transformer(pre_norm=row["norm_first"])
    m = program(model, run, NUMERICS[row["recipe"]], "torch", every_layer=every_layer)
    return m, m(model.tree(run))


def as_recorded(path: str) -> str:
    """``core.encoder.layer.3.ffn.up``: ``encoder3``."""
    _, stack, *inside = path.split(".")
    return f"{stack}{inside[1]}" if inside else f"t.{stack.replace('_', '.')}"


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_what_each_module_keeps_is_equal_to_the_byte(row: dict[str, Any]) -> None:
    m, _ = ran(row)
    found: Counter[str] = Counter()
    for kept in m.tape.kept.values():
        size = kept.storage.size
        assert isinstance(size, int)
        found[as_recorded(kept.path)] += size
    assert found == row["saved_by_module"]
    assert m.tape.tracker.saved == row["saved_bytes"]


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_one_layer_for_all_that_are_alike_keeps_the_same(row: dict[str, Any]) -> None:
    m, _ = ran(row, every_layer=False)
    assert total(kept.copies * kept.storage.size for kept in m.tape.kept.values()) == row["saved_bytes"]


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_the_peaks_are_within_one_percent_and_the_highest_is_the_recorded_one(row: dict[str, Any]) -> None:
    m, loss = ran(row)
    m.autocast_ends()
    forward = m.tape.tracker.new_phase()
    m.tape.backward(loss)
    backward = m.tape.tracker.new_phase()
    phases = row["phases"]
    base = phases["start"]["Total"]
    # foreach AdamW's step: the gradients, the loss, and a copy of the parameters (tests/oracle/README.md)
    step = m.tape.tracker.gradients + loss.storage.size + row["param_bytes"]
    peaks = {"fwd_peak": base + forward.total, "bwd_peak": base + backward.total, "step_peak": base + step}
    for phase, peak in peaks.items():
        assert peak == pytest.approx(phases[phase]["Total"], rel=0.01), phase
    assert m.tape.tracker.gradients == phases["bwd_end"]["Gradient"]
    assert max(peaks, key=lambda phase: peaks[phase]) == row["peak_phase"]


@pytest.mark.parametrize(
    ("sizes", "refused"),
    [
        ({"n_kv_heads": 2}, "n_kv_heads 2"),
        ({"value_dim": 32}, "value_dim 32"),
        ({"head_dim": 32, "value_dim": 32}, "head_dim 32"),
        ({"positions": "rotary"}, "'rotary'"),
        ({"pattern": "local:4"}, "'local:4'"),
    ],
)
def test_what_torch_nn_transformer_cannot_be_is_refused(sizes: dict[str, Any], refused: str) -> None:
    with pytest.raises(InvalidModel, match=refused):
        program(Transformer(**sizes), Workload(phase="train"), NUMERICS["fp32"], "torch")
