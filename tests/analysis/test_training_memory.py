"""The memory of a training step, as it is asked for, against recorded steps (tests/oracle/README.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import recorded
from tests.training.test_training_rows import ROWS, model, named, workload
from tfcalc import InvalidModel, Transformer, Workload, formula, load, memory
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import bytes_held, of_formulas, of_numbers
from tfcalc.core.traced import value_of
from tfcalc.model import values
from tfcalc.plans import Training
from tfcalc.training.peaks import training_peak, training_step

PRECISIONS = {"fp32": "fp32", "bf16 (pure)": "bf16", "fp32 weights, CUDA bf16 autocast": "bf16-mixed"}
OPTIMIZERS = {"adamw_fused": "adamw-fused", "adamw_forloop": "adamw-forloop", "sgd_mom": "momentum"}
TIE = 0.0005
"""Of two phases that were recorded closer together, either may be the highest (one row: backward 0.03 % over step)."""
PHASES = {"fwd_peak": "forward", "bwd_peak": "backward", "step_peak": "step"}


def plan(row: dict[str, Any]) -> Training:
    optimizer = OPTIMIZERS.get(row["optimizer"], row["optimizer"])
    return Training(precision=PRECISIONS[row["recipe"]], optimizer=optimizer, device="recorded")


@pytest.mark.one_in(8)
@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_training_step_is_answered_as_it_was_recorded(row: dict[str, Any]) -> None:
    totals = memory(model(row), workload(row), training=plan(row)).totals
    phases = row["phases"]
    assert totals["weights_bytes"] == phases["start"]["Parameter"]
    assert totals["gradients_bytes"] == phases["bwd_end"]["Gradient"]
    assert totals["optimizer_bytes"] == phases["start"].get("Optstate", 0)
    if "saved_bytes" in row:
        assert totals["activations_bytes"] == row["saved_bytes"]
    assert totals["peak_bytes"] == pytest.approx(row["peak_bytes"], rel=0.01)
    as_high = [PHASES[name] for name in PHASES if phases[name]["Total"] >= row["peak_bytes"] * (1 - TIE)]
    assert totals["peak_phase"] in as_high


@pytest.mark.one_in(2)
@pytest.mark.parametrize("row", recorded("memory/nn-transformer.public.jsonl"), ids=lambda row: str(row["saved_bytes"]))
def test_so_is_one_of_torch_nn_transformer(row: dict[str, Any]) -> None:
    classic = Transformer(pre_norm=row["norm_first"])
    run = Workload(
        phase="train",
        batch_size=row["batch"],
        seq_len=row["target_seq"],
        source_len=row["seq"],
        kernel=row["attention"],
        dropout=bool(row["dropout"]),
    )
    asked = Training(precision=PRECISIONS[row["recipe"]], optimizer="adamw", device="recorded")
    totals = memory(classic, run, training=asked).totals
    assert totals["weights_bytes"] == row["param_bytes"]
    assert totals["activations_bytes"] == row["saved_bytes"]
    assert totals["optimizer_bytes"] == row["phases"]["start"]["Optstate"]
    assert totals["peak_bytes"] == pytest.approx(row["peak_bytes"], rel=0.01)
    assert totals["peak_phase"] == PHASES[row["peak_phase"]]


PLANS = [
    Training(),
    Training(precision="fp32", optimizer="adamw", device="recorded"),
    Training(precision="bf16-master", optimizer="adamw", device="recorded"),
    Training(precision="bf16-master"),
    Training(precision="bf16-master-fp32-grads"),
    Training(precision="bf16-mixed", grad_accum=4),
    Training(precision="bf16", lora=8),
    Training(precision="bf16", lora=8, base_weights="nf4-dq"),
    Training(precision="bf16-master", zero="2", gpus=8),
    Training(precision="bf16-master", zero="3", gpus=8),
    Training(precision="bf16", freeze="*wte*,*wpe*"),
    Training(precision="bf16", backend="fused"),
]


@pytest.mark.parametrize("asked", PLANS, ids=repr)
@pytest.mark.parametrize("recompute", ["none", "selective", "full", "every:5"])
def test_the_terms_at_the_peak_add_up_to_it(asked: Training, recompute: str) -> None:
    run = Workload(phase="train", batch_size=2, seq_len=64, recompute=recompute)
    step = training_step(load("gpt2"), run, asked)
    assert value_of(step.alive.total(bytes_held)) == step.peak.total
    assert max(phase.total for phase in step.phases) == step.peak.total
    assert training_peak(load("gpt2"), run, asked) == step.peak.total


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b", "bert-base-uncased", "t5-small", "mixtral-8x7b"])
def test_formulas_have_the_values_that_stand_beside_them(name: str) -> None:
    whole = load(name)
    run = Workload(phase="train", batch_size=2, seq_len=96, kernel="flash")
    terms = training_step(whole, run, Training(precision="bf16")).terms
    sizes = values(whole, run)
    for numbers, formulas in zip(of_numbers(terms).walk(), of_formulas(terms).walk(), strict=True):
        formula: Any = formulas.total(bytes_held)
        if not isinstance(formula, int) and formula.free_symbols <= set(sizes):
            assert formula.at(sizes) == numbers.total(bytes_held), numbers.path


def test_states_of_a_step_are_not_added_to_what_is_not_there() -> None:
    run = Workload(phase="train", batch_size=8, seq_len=1024, kernel="flash")
    totals = memory(load("gpt2"), run, training=Training(precision="bf16")).totals
    terms = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "temporary_bytes")
    assert int(totals["peak_bytes"]) < sum(int(totals[term]) for term in terms)


def test_gradients_that_are_accumulated_are_there_from_the_start() -> None:
    run = Workload(phase="train", batch_size=8, seq_len=1024, kernel="flash")
    once, more = (
        training_step(load("gpt2"), run, Training(precision="bf16", grad_accum=count)).phases[0] for count in (1, 4)
    )
    assert more.total - once.total == 2 * 124_439_808


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Training(precision="bf17"), "bf17"),
        (Training(precision=6), "precision 6"),  # type: ignore[arg-type]
        (Training(device=10**5_000), "device a number of over 4300 digits"),  # type: ignore[arg-type]
        (Training(optimizer="adamx"), "adamx"),
        (Training(zero="3", gpus=0), "gpus 0"),
        (Training(lora=8, lora_targets="nothing"), "nothing"),
        (Training(tensor_parallel=8), "--tp 8"),
        (Training(backend="torch"), "torch"),
        (Training(offload="all"), "offload"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_what_was_given(asked: Training, said: str) -> None:
    with pytest.raises(InvalidModel, match=said):
        memory(load("gpt2"), Workload(phase="train"), training=asked)


def test_what_reads_images_makes_nothing_of_text_and_the_answer_says_so() -> None:
    whole = load("qwen2-vl-2b-instruct")
    assert isinstance(whole, HFModel)
    fields: dict[str, Any] = dict(whole.data)
    shallow = HFModel({**fields, "vision_config": {**fields["vision_config"], "depth": 1}})
    run = Workload(phase="train", seq_len=64)
    deep, flat = (memory(each, run, training=Training()) for each in (whole, shallow))
    assert deep.totals["weights_bytes"] != flat.totals["weights_bytes"]
    assert deep.totals["activations_bytes"] == flat.totals["activations_bytes"]
    assert "text only: the outputs of visual are not counted" in deep.notes


def test_a_closed_form_of_states_in_8_bits_says_which_tensors_are_not() -> None:
    """bitsandbytes 0.50, ``Optimizer8bit(min_8bit_size=4096)``: at other sizes other tensors may be that small."""
    said = formula("optimizer", "memory", load("gpt2"), training=Training(optimizer="adamw-8bit")).notes
    assert any("below 4,096 elements in fp32" in note for note in said)
    assert not any("4,096" in note for note in formula("optimizer", "memory", load("gpt2"), training=Training()).notes)
