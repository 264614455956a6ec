"""Whether a model fits: the verdict against recorded peaks, what else would fit, and what would make it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import recorded
from tests.examples import examples
from tests.implementations.test_training_rows import RECOMPUTED, model, named, workload
from tests.questions.test_training_memory import plan as recorded_plan
from tfcalc import Transformer, UsageError, Workload, load
from tfcalc.catalog import from_config
from tfcalc.held.plans import Serving, Training
from tfcalc.questions.budget import Budget, of_card, stated
from tfcalc.questions.changes import of_serving, of_training
from tfcalc.questions.fits import Fit, fits
from tfcalc.questions.memory import memory
from tfcalc.questions.training_memory import training_peak

ROWS = [
    row
    for row in recorded("memory/training.public.jsonl")
    if row["optimizer"] == "adamw" and row["model"] in ("gpt2", "llama-3.2-1b", "tinyllama-1.1b", "opt-125m")
]
TRAINING = Workload(batch_size=8, seq_len=1024, phase="train", kernel="flash")
FOREACH = Training(precision="fp32", optimizer="adamw")
"""PyTorch's AdamW as its constructor makes it: it copies what it updates."""


def trained(budget: str | int | Budget, plan: Training, run: Workload = TRAINING, name: str = "gpt2") -> Fit:
    return fits(load(name), budget, workload=run, training=plan)


@pytest.mark.parametrize("row", ROWS[::9], ids=named)
def test_a_recorded_peak_is_the_line_between_fitting_and_not(row: dict[str, Any]) -> None:
    """Within the 1 % of the count: so much more fits, so much less does not, and the batch is then the largest."""
    run, plan = workload(row), recorded_plan(row)
    assert run.recompute == RECOMPUTED[row["recompute"]]
    more, less = (fits(model(row), row["peak_bytes"] * part // 100, workload=run, training=plan) for part in (101, 99))
    assert more.fits
    assert not less.fits
    assert more.headroom - less.headroom == row["peak_bytes"] * 101 // 100 - row["peak_bytes"] * 99 // 100
    (batch, *_), (fewer, *_) = more.largest, less.largest
    assert batch.value is not None
    assert batch.value >= row["batch"]
    assert fewer.value is not None
    assert fewer.value < row["batch"]


@examples(15)
@given(
    b=st.integers(1, 64),
    l=st.integers(1, 256),
    recipe=st.sampled_from(["fp32", "bf16", "bf16-mixed", "bf16-master"]),
    spare=st.integers(-(10**7), 10**7),
)
def test_the_verdict_is_exact_and_never_clipped(b: int, l: int, recipe: str, spare: int) -> None:
    small = from_config({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "vocab_size": 1000})
    run, plan = (
        Workload(batch_size=b, seq_len=l, phase="train", kernel="eager"),
        Training(precision=recipe, optimizer="adamw"),
    )
    peak = training_peak(small, run, plan)
    found = fits(small, max(peak + spare, 1), workload=run, training=plan)
    assert found.headroom == max(spare, 1 - peak)
    assert found.fits == (found.headroom >= 0)
    assert found.report.answer == peak
    for each in found.largest:
        assert each.value is not None
        assert (each.value >= each.of.asked) == found.fits
        assert each.value == 0 or each.of.need(each.value) == each.total
        assert each.of.need(each.value + 1) > found.budget.bytes
    if found.fits:
        assert not found.remedies
    for remedy, flags in zip(found.remedies, found.flags, strict=True):
        changed = training_peak(small, run.replaced(**remedy.change.run), plan.replaced(**remedy.change.plan))
        assert changed == remedy.total
        assert flags
    held = [remedy.total <= found.budget.bytes for remedy in found.remedies]
    assert all(held) or held == [False]


def test_the_answer_for_programs() -> None:
    found = trained("12GiB", FOREACH, TRAINING.replaced(kernel="efficient")).to_dict()
    plain = memory(load("gpt2"), TRAINING.replaced(kernel="efficient"), training=FOREACH).to_dict()
    assert plain.items() <= found.items()
    assert found["budget_bytes"] == 12 * 2**30
    assert found["fits"] is False
    assert found["headroom_bytes"] == 12 * 2**30 - found["total_bytes"] < 0
    assert 0 < found["largest_batch_size"] < 8
    assert 0 < found["largest_seq_len"] < 1024
    assert 0 < len(found["changes"]) <= 6
    for change in found["changes"]:
        assert change["fits"] is True
        assert change["total_bytes"] + change["headroom_bytes"] == 12 * 2**30
        assert change["flags"].startswith("--")


def test_the_verdict_stands_first() -> None:
    short = str(trained("12GiB", FOREACH, TRAINING.replaced(kernel="efficient")).sheet().title)
    assert short.startswith("does not fit: needs ")
    assert "12GiB: short by " in short
    spare = trained("80GB", Training())
    assert spare.sheet().title.startswith("fits: ")
    assert "80GB = 74.5 GiB" in spare.verdict
    assert spare.sheet().quiet == spare.report.answer


def test_a_length_beyond_the_positions_is_remarked_on() -> None:
    notes = trained("80GB", Training()).sheet().notes
    assert any("more than its 1,024 positions" in note for note in notes)


def test_changes_come_in_their_order() -> None:
    """What is learned stays the same; fewer bits; another optimizer; fewer weights trained; more devices."""
    groups = of_training(
        load("gpt2"), TRAINING.replaced(kernel="math"), Training(precision="bf16-master", optimizer="adamw")
    )
    order = [
        "attention kernel flash",
        "fused AdamW",
        "fused kernels",
        "full gradient checkpointing",
        "micro-batches of 1, 8 for a step",
        "optimizer states offloaded to the CPU",
        "precision bf16",
        "8-bit AdamW",
        "Adafactor in the place of adamw",
        "SGD in the place of adamw",
        "LoRA, rank 16",
        "QLoRA, rank 16, weights in 4 bits",
        "8 GPUs, ZeRO-3",
    ]
    assert [group[-1].name for group in groups] == order


def test_what_is_done_already_is_no_change() -> None:
    plan = Training(precision="bf16", optimizer="sgd", backend="fused", lora=8, base_weights="nf4-dq", zero="3", gpus=8)
    run = TRAINING.replaced(batch_size=1, recompute="full")
    assert of_training(load("gpt2"), run, plan) == []
    assert of_serving(Workload(kernel="flash"), Serving(weights="int4", kv="fp8", cache="paged")) == []


@pytest.mark.parametrize("batch", [2, 6, 7, 12, 30, 64])
def test_micro_batches_add_up_to_the_batch(batch: int) -> None:
    run, plan = TRAINING.replaced(batch_size=batch), Training(grad_accum=3)
    [group] = [group for group in of_training(load("gpt2"), run, plan) if group[0].name.startswith("micro-batches")]
    sizes = [change.run["batch_size"] for change in group]
    assert all(change.run["batch_size"] * change.plan["grad_accum"] == 3 * batch for change in group)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert sizes[0] < batch


def test_fp32_is_not_given_a_kernel_that_takes_none() -> None:
    """Flash attention takes 16-bit numbers alone; the efficient one no shared keys."""
    math = TRAINING.replaced(kernel="math")
    assert of_training(load("gpt2"), math, FOREACH)[0][0].run == {"kernel": "efficient"}
    assert of_training(load("gpt2"), math, Training(precision="bf16-mixed"))[0][0].run == {"kernel": "flash"}
    assert not of_training(load("llama-3-8b"), math, FOREACH)[0][0].run


def test_where_no_change_is_enough_sets_of_them_are_given() -> None:
    run = Workload(batch_size=8, seq_len=2048, phase="train", kernel="math")
    found = trained("80GB", Training(precision="bf16", optimizer="adamw"), run, "llama-3-8b")
    assert found.remedies
    assert all(len(remedy.changes) > 1 and remedy.total <= 80 * 10**9 for remedy in found.remedies)
    assert "no single change is enough" in found.sheet().notes
    assert found.flags[0] == "--checkpointing full --optimizer adamw-fused"


def test_where_nothing_is_enough_the_closest_is_given() -> None:
    found = trained("100MB", Training())
    [change] = found.to_dict()["changes"]
    assert change["fits"] is False
    assert change["headroom_bytes"] < 0
    assert change["total_bytes"] < found.report.answer
    assert any("comes closest" in note for note in found.sheet().notes)


def test_serving_has_a_largest_context_and_most_requests() -> None:
    model, run = load("llama-3-8b"), Workload(kernel="flash")
    found = fits(model, "24GB", workload=run, serving=Serving(context=32_768, concurrency=4)).to_dict()
    assert found["fits"] is False
    assert 0 < found["largest_context"] < 32_768
    assert found["largest_concurrency"] < 4
    assert found["changes"]
    spare = fits(model, "80GB", workload=run, serving=Serving(context=4096, cache="paged")).to_dict()
    assert spare["fits"] is True
    assert spare["changes"] == []
    assert spare["largest_context"] > 4096


def test_a_model_at_rest_fits_or_not() -> None:
    model = Transformer()
    size = memory(model).answer
    for budget in (size - 1, size, size + 1):
        found = fits(model, budget)
        assert found.fits == (budget >= size)
        assert found.headroom == budget - size
        assert found.to_dict()["changes"] == []


def test_a_budget_is_an_amount_above_nothing() -> None:
    for wrong in (0, -1, True):
        with pytest.raises(UsageError, match="budget"):
            stated(wrong)
    with pytest.raises(UsageError, match="say 80GiB"):
        fits(Transformer(), "80")


def test_a_card_is_a_budget_with_its_assumptions() -> None:
    found = of_card("h100")
    assert 78 * 2**30 < found.bytes < 80 * 10**9 + 2**33
    assert "H100-NVL (94 GB)" in " ".join(found.notes)
    assert any("context (assumed)" in note for note in found.notes)
    assert any(note in trained(found, Training()).sheet().notes for note in found.notes)
    with pytest.raises(UsageError, match="--budget"):
        of_card("toaster")
