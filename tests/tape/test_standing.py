"""Peaks found by running the ends of a row of equal layers are those of running them all."""

from __future__ import annotations

from itertools import product

import pytest

from tfcalc import Workload, from_config, load
from tfcalc.backends.program import ModuleProgram, program
from tfcalc.core.component import Component
from tfcalc.tape.interpreter import Numerics

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
FAMILIES = {"llama": 11, "qwen2": 17, "gemma2": 18, "gemma3_text": 35}
"""With so many layers: one stands for six; for three and four in two rows; two that take turns, for five turns; six
that take turns, for three of them, with two more on top."""
HOW = [
    *product(FAMILIES, FORMATS, ("eager", "flash"), ("none", "full", "selective")),
    *product(FAMILIES, ["fp32"], ["eager"], ["every:2"]),  # of layers that are equal each second runs again
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("model_type", "numbers", "kernel", "recompute"), HOW)
@pytest.mark.parametrize("stay", [True, False], ids=["gradients stay", "buffers"])
def test_the_ends_of_a_row_of_layers_tell_the_peaks(
    model_type: str, numbers: str, kernel: str, recompute: str, stay: bool
) -> None:
    fields = SIZES | {"vocab_size": 60, "num_hidden_layers": FAMILIES[model_type]}
    model = from_config({"model_type": model_type, **fields})
    run = Workload(batch_size=2, seq_len=24, phase="train", kernel=kernel, recompute=recompute)
    tree = model.tree(run)

    every, ends = (program(model, run, FORMATS[numbers], "auto", ends_alone=alone) for alone in (False, True))
    assert phases(every, tree, stay=stay) == phases(ends, tree, stay=stay)


def phases(made: ModuleProgram, tree: Component, *, stay: bool = True) -> list[tuple[str, int, int, int]]:
    """Each phase's highest moment: bytes in all, saved for backward, of gradients."""
    made.tape.gradients_stay = stay
    tracker = made.tape.tracker
    tracker.begin("forward")
    loss = made(tree)
    made.autocast_ends()
    tracker.begin("backward")
    made.tape.backward(loss)
    tracker.begin("step")
    return [(name, most.total, most.saved, most.gradients) for name, most in tracker.phases.items()]


@pytest.mark.parametrize("recompute", ["none", "full", "every:2"])
@pytest.mark.parametrize("name", ["deepseek-v4-flash", "deberta-base"])
def test_layers_of_which_some_get_no_gradient_or_that_of_another_layer_stand_for_others(
    name: str, recompute: str
) -> None:
    """DeepSeek-V4's 43 layers are of four kinds, two of which take turns; its indexers are reached by no gradient.

    In DeBERTa's the gradient of a bias is what the layer above has made for the stream: it stays with this one.
    """
    model = load(name)
    run = Workload(seq_len=256, phase="train", recompute=recompute)
    tree = model.tree(run)
    every, ends = (program(model, run, FORMATS["fp32"], "auto", ends_alone=alone) for alone in (False, True))
    assert phases(every, tree) == phases(ends, tree)
    assert every.tape.tracker.saved == 0, "what a layer that ran again has kept for no gradient is let go of"
    assert ends.tape.tracker.saved == 0
