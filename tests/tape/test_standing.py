"""Peaks found by running the ends of a row of equal layers are those of running them all."""

from __future__ import annotations

from itertools import product

import pytest

from tfcalc import Workload, from_config
from tfcalc.execution.modules import ModuleProgram
from tfcalc.execution.programs import program
from tfcalc.tape.numerics import Numerics

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 100,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "sliding_window": 16,
    "use_sliding_window": True,
    "max_window_layers": 8,
}
FORMATS = {"fp32": Numerics(), "autocast": Numerics("float32", "bfloat16")}
FAMILIES = {"llama": 11, "qwen2": 17, "gemma2": 18}
"""With so many layers: one stands for six; for three and four in two rows; two that take turns, for four turns."""
HOW = [*product(FAMILIES, FORMATS, ("eager", "flash"), ("none", "full", "selective"))]


@pytest.mark.parametrize(("model_type", "numbers", "kernel", "recompute"), HOW)
@pytest.mark.parametrize("stay", [True, False], ids=["gradients stay", "buffers"])
def test_the_ends_of_a_row_of_layers_tell_the_peaks(
    model_type: str, numbers: str, kernel: str, recompute: str, stay: bool
) -> None:
    fields = SIZES | {"vocab_size": 60, "num_hidden_layers": FAMILIES[model_type]}
    model = from_config({"model_type": model_type, **fields})
    run = Workload(batch_size=2, seq_len=24, phase="train", kernel=kernel, recompute=recompute)
    tree = model.tree(run)

    def phases(made: ModuleProgram) -> list[tuple[str, int, int, int]]:
        made.tape.gradients_stay = stay
        tracker = made.tape.tracker
        tracker.begin("forward")
        loss = made(tree)
        made.autocast_ends()
        tracker.begin("backward")
        made.tape.backward(loss)
        tracker.begin("step")
        return [(name, most.total, most.saved, most.gradients) for name, most in tracker.phases.items()]

    every, ends = (program(model, run, FORMATS[numbers], "auto", ends_alone=alone) for alone in (False, True))
    assert phases(every) == phases(ends)
