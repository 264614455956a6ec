"""Whether a model fits: the verdict against recorded peaks, what else would fit, and what would make it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.test_training_memory import plan as recorded_plan
from tests.conftest import Program, recorded
from tests.examples import examples
from tests.training.test_training_rows import RECOMPUTED, model, named, workload
from tfcalc import Transformer, UsageError, Workload, load
from tfcalc.answers.memory_in_words import fits, memory
from tfcalc.answers.verdict import Fit
from tfcalc.catalog import from_config
from tfcalc.defaults import resolve_plan
from tfcalc.model import Model
from tfcalc.plans import Serving, Training
from tfcalc.report.sheet import Sheet, bare
from tfcalc.search.gpus import Capacity, of_card, stated
from tfcalc.search.remedies import Change, Options, StoredFormat, at_rest, of_serving, of_training
from tfcalc.training.peaks import Peaks, training_peak

ROWS = [
    row
    for row in recorded("memory/training.public.jsonl")
    if row["optimizer"] == "adamw" and row["model"] in ("gpt2", "llama-3.2-1b", "tinyllama-1.1b", "opt-125m")
]
TRAINING = Workload(batch_size=8, seq_len=1024, phase="train", kernel="flash")


def trained(budget: str | int | Capacity, plan: Training, run: Workload = TRAINING, name: str = "gpt2") -> Fit:
    return fits(load(name), budget, workload=run, training=plan)


def both(sheet: Sheet) -> tuple[Sheet, Sheet]:
    """The sheet, and the one with everything opened."""
    assert sheet.detailed is not None
    return sheet._replace(detailed=None), sheet.detailed()


def test_what_the_peak_is_made_of_is_found_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained("80GB", Training(), name="opt-125m")
    report = memory(load("opt-125m"), TRAINING, training=Training())
    assert report.to_dict().items() <= whole.report.to_dict().items()

    def not_asked(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("tfcalc.answers.training_memory.training_step", not_asked)
    alone = trained("80GB", Training(), name="opt-125m")
    assert both(alone.sheet()) == both(whole.sheet())
    assert alone.report.notes == report.notes
    assert alone.report.footer == report.footer
    assert alone.report.conventions == report.conventions
    with pytest.raises(AssertionError):
        alone.to_dict()


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
    run, plan = Workload(batch_size=b, seq_len=l, phase="train", kernel="eager"), Training(precision=recipe)
    peak = training_peak(small, run, plan)
    found = fits(small, max(peak + spare, 1), workload=run, training=plan)
    assert found.headroom == max(spare, 1 - peak)
    assert found.fits == (found.headroom >= 0)
    assert found.report.answer == peak
    for each in found.largest:
        assert each.exact is not None
        assert each.value is not None
        assert (each.exact >= each.of.asked) == found.fits
        assert each.value <= each.exact
        assert each.value == 0 or each.of.need(each.value) == each.total
        assert each.of.need(each.exact + 1) > found.budget.bytes
    if found.fits:
        assert not found.remedies
    for remedy, flags in zip(found.remedies, found.flags, strict=True):
        assert training_peak(small, remedy.change.applied(run), remedy.change.applied(plan)) == remedy.total
        assert flags
    held = [remedy.total <= found.budget.bytes for remedy in found.remedies]
    assert all(held) or held == [False]


def test_the_answer_for_programs() -> None:
    found: dict[str, Any] = trained("5GiB", Training()).to_dict()
    plain = memory(load("gpt2"), workload=TRAINING, training=Training()).to_dict()
    assert plain.items() <= found.items()
    assert found["budget_bytes"] == 5 * 2**30
    assert found["fits"] is found["tight"] is False
    assert found["margin_percent"] == 5
    assert found["headroom_bytes"] == 5 * 2**30 - found["total_bytes"] < 0
    assert found["verdict"].startswith("DOES NOT FIT: needs ")
    assert 0 < found["largest_batch_size"] < 8
    assert 0 < found["largest_seq_len"] <= found["largest_seq_len_exact"] < 1024
    assert 0 < len(found["changes"]) <= 6
    for change in found["changes"]:
        assert change["fits"] is True
        assert change["total_bytes"] + change["headroom_bytes"] == 5 * 2**30
        assert change["tight"] == (change["headroom_bytes"] < 5 * 2**30 // 20)
        assert change["flags"].startswith("--")


def test_the_verdict_stands_first_and_the_answer_is_the_bytes_that_it_takes() -> None:
    short, spare = trained("5GiB", Training()), trained("80GB", Training())
    assert short.sheet().title.startswith("DOES NOT FIT: needs ")
    assert "the budget is 5GiB (" in short.verdict, "an amount in the units of the answer stands once"
    assert short.verdict.endswith(" short)")
    assert spare.sheet().title.startswith("FITS: needs ")
    assert "the budget is 80GB = 74.5 GiB (" in spare.verdict
    assert spare.verdict.endswith(" to spare)")
    for found in (short, spare):
        assert (
            bare(found.sheet().quiet)
            == found.report.answer
            == memory(load("gpt2"), TRAINING, training=Training()).answer
        )
        assert found.report.summary is not None
        assert found.sheet().subtitle == found.report.summary.subtitle


def test_fewer_gpus_on_which_it_fits_tightly_are_told_beside_those_with_room_to_spare(tfcalc: Program) -> None:
    """Llama 3 8B in full needs 20.6 of 23.0 GiB on four 4090s, is too large for two, and has room on sixteen."""
    words = ("fit", "llama-3-8b", "--gpu", "rtx-4090", "--json")
    listed = {change["change"]: change["tight"] for change in json.loads(tfcalc(*words).stdout)["changes"]}
    assert (listed["4 GPUs, FSDP"], listed["16 GPUs, FSDP"]) == (True, False)
    states = {
        gpus: json.loads(tfcalc(*words, "--fsdp", "--gpus", gpus).stdout)["status"] for gpus in ("2", "4", "8", "16")
    }
    assert states == {"2": "no", "4": "tight", "8": "tight", "16": "fits"}


@pytest.mark.parametrize(("percent", "tight"), [(0, False), (2, False), (3, True), (99, True)])
def test_what_leaves_less_than_the_margin_is_tight(percent: int, tight: bool) -> None:
    """With 2.5 % of the budget to spare."""
    peak = trained("80GB", Training()).report.answer
    found = fits(load("gpt2"), peak * 1000 // 975, TRAINING, training=Training(), margin=percent)
    assert found.verdict.startswith("FITS, TIGHTLY: " if tight else "FITS: ")
    assert found.tight is found.to_dict()["tight"] is tight
    assert f"margin {percent} %{' (tight: less is free)' * tight}" in found.sheet().assumes


def test_a_length_is_a_multiple_of_128_and_at_most_what_the_model_was_made_for() -> None:
    """gpt2 has 1,024 positions; the exact boundary is in the JSON all the same."""
    length = trained("80GB", Training()).largest[1]
    assert length.value == 1024
    assert length.exact is not None
    assert length.exact > 1024
    assert length.of.need(length.exact) <= 80 * 10**9 < length.of.need(length.exact + 1)
    assert "1,024 (the model's limit)" in str(trained("80GB", Training()))
    shorter = trained("5GB", Training()).largest[1]
    assert shorter.value is not None
    assert shorter.exact is not None
    assert shorter.value == shorter.exact // 128 * 128 > 0


def test_a_length_beyond_what_the_model_was_made_for_is_marked() -> None:
    found = fits(load("gpt2"), "80GB", Workload(batch_size=1, seq_len=2048, phase="train"), training=Training())
    assert found.largest[1].value is not None
    assert found.largest[1].value > 2048
    assert "(made for 1,024)" in str(found)


def order(ways: Options) -> list[str]:
    return [group.degrees[-1].name for group in ways]


def test_changes_come_in_the_order_of_what_they_cost() -> None:
    run = TRAINING.replaced(kernel="math", recompute="none")
    assert order(of_training(load("gpt2"), run, Training(precision="bf16-master", optimizer="adamw", gpus=2))) == [
        "flash attention",
        "fused AdamW",
        "fused loss",
        "expandable segments",
        "FSDP",
        "gradient checkpointing",
        "batch 1 with gradient accumulation",
        "activations offloaded",
        "all states offloaded to the CPU",
        "paged 8-bit AdamW",
        "bf16 throughout",
        "LoRA r=16",
        "QLoRA r=16",
        "Adafactor",
        "SGD without momentum",
        "1024 GPUs, FSDP",
    ]
    by_megatron = Training(precision="bf16-master-fp32-grads", backend="megatron", gpus=1, zero="0")
    assert order(of_training(load("llama-3-8b"), TRAINING.replaced(recompute="none"), by_megatron)) == [
        "gradient checkpointing",
        "batch 1 with gradient accumulation",
        "all states offloaded to the CPU",
        "LoRA r=16",
        "SGD without momentum",
        "1024 GPUs, FSDP",
    ]
    assert order(of_serving(Workload(kernel="eager"), Serving(cache="dynamic", context=8192, concurrency=4))) == [
        "flash attention",
        "paged KV cache",
        "KV cache in fp8",
        "weights in int4",
        "64 GPUs",
        "context 1,024",
        "1 request",
    ]
    assert order(at_rest(StoredFormat())) == [
        f"weights in {name}" for name in ("bf16", "int8", "nf4", "q4_k_m", "q2_k")
    ]
    assert order(at_rest(StoredFormat(dtype="fp32"))) == [f"weights in {name}" for name in ("bf16", "int8", "int4")]


def test_what_is_done_already_is_no_change() -> None:
    plan = Training(
        precision="bf16",
        optimizer="sgd",
        lora=8,
        base_weights="nf4-dq",
        zero="3",
        layout="fsdp2",
        gpus=1024,
        offload="all",
        offload_activations=True,
        loss="fused",
        alloc_conf="expandable_segments",
    )
    assert order(of_training(load("gpt2"), TRAINING.replaced(batch_size=1, recompute="full"), plan)) == []
    assert order(of_serving(Workload(), Serving(weights="int4", kv="fp8", context=1024, gpus=64))) == []


def test_a_model_that_is_not_fine_tuned_gets_no_adapters() -> None:
    assert not any("LoRA" in name for name in order(of_training(Transformer(), TRAINING, Training(precision="fp32"))))


def test_gpus_that_are_there_are_used_before_more_are_asked_for() -> None:
    plan = Training(precision="bf16", gpus=8)
    several = [change.name for change in of_training(load("gpt2"), TRAINING, plan).known["sharing"].degrees]
    assert several == ["ZeRO-1", "ZeRO-2", "FSDP"]
    more = of_training(load("gpt2"), TRAINING, plan).known["gpus"].degrees
    assert [change.name for change in more] == [f"{gpus} GPUs, FSDP" for gpus in (16, 32, 64, 128, 256, 512, 1024)]
    assert more[0].flags(plan) == ("--fsdp", "--gpus 16")
    fsdp = plan.replaced(zero="3", layout="fsdp2")
    more = of_training(load("gpt2"), TRAINING, fsdp).known["gpus"].degrees
    assert [change.name for change in more] == [f"{gpus} GPUs, FSDP" for gpus in (16, 32, 64, 128, 256, 512, 1024)]
    assert more[0].flags(plan) == ("--gpus 16",)


@pytest.mark.parametrize("batch", [2, 6, 7, 12, 30, 64])
def test_micro_batches_add_up_to_the_batch(batch: int) -> None:
    run, plan = TRAINING.replaced(batch_size=batch), Training(precision="bf16", grad_accum=3)
    changes: list[Mapping[str, Any]] = [
        change.values for change in of_training(load("gpt2"), run, plan).known["batch"].degrees
    ]
    sizes = [change["batch_size"] for change in changes]
    assert all(change["batch_size"] * change["grad_accum"] == 3 * batch for change in changes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert sizes[0] < batch


def test_fp32_is_not_given_a_kernel_that_takes_none() -> None:
    """Flash attention takes 16-bit numbers alone; the efficient one no shared keys."""

    def kernel(name: str, recipe: str) -> list[dict[str, Any]]:
        ways = of_training(load(name), TRAINING.replaced(kernel="eager"), Training(precision=recipe))
        return [dict(change.values) for change in ways.known["kernel"].degrees] if "kernel" in ways.known else []

    assert kernel("gpt2", "fp32") == [{"kernel": "efficient"}]
    assert kernel("gpt2", "bf16-mixed") == [{"kernel": "flash"}]
    assert kernel("llama-3-8b", "fp32") == []


def test_flags_are_those_that_people_write() -> None:
    change = Change("all", {"lora": 8, "base_weights": "nf4-dq", "recompute": "full", "batch_size": 1})
    assert change.flags(Training(), Workload()) == ("--qlora 8", "--checkpointing full", "--batch 1")


def test_where_no_change_is_enough_they_come_with_what_they_need() -> None:
    """Llama-3-8B fully fine-tuned in bf16: 2 + 4 + 2 bytes of 8.03B parameters are 64 GB before any activation."""
    found = trained("24GB", Training(), Workload(seq_len=4096, phase="train", recompute="none"), "llama-3-8b")
    names = [remedy.change.name for remedy in found.remedies]
    assert any("QLoRA" in name and "checkpointing" in name for name in names), names
    assert all(remedy.fits and remedy.total <= 24 * 10**9 for remedy in found.remedies)
    assert found.sheet().notes[0].startswith("No single change is enough; ")
    assert "Largest batch / sequence within this budget: none" in found.sheet().notes


def test_where_nothing_is_enough_the_closest_is_given() -> None:
    found = trained("100MB", Training())
    told: dict[str, Any] = found.to_dict()
    [change] = told["changes"]
    assert change["fits"] is False
    assert change["headroom_bytes"] < 0
    assert change["total_bytes"] < found.report.answer
    assert found.sheet().columns[0].heading == "what comes closest"
    assert re.match(r"None of \d+ changes and combinations makes it fit. Tried up to: ", found.sheet().notes[0])


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_bytes_of_many_plans_are_those_of_each(recompute: str) -> None:
    """What is remembered of one plan's run is right for the next, and no peak is below what nothing has to run for."""
    peaks, run = Peaks(load("gpt2")), TRAINING.replaced(batch_size=1, recompute=recompute)
    plans = [
        Training(precision="bf16"),
        Training(precision="bf16", optimizer="adamw"),
        Training(precision="bf16", grad_accum=2),
        Training(precision="bf16", gpus=4),
        Training(precision="bf16", gpus=4, zero="1", offload="optimizer"),
        Training(precision="bf16", gpus=4, zero="2"),
        Training(precision="bf16", gpus=4, zero="3", layout="fsdp2"),
        Training(precision="bf16", lora=16),
        Training(precision="bf16", lora=16, base_weights="nf4-dq"),
        Training(precision="bf16-master-fp32-grads"),
    ]
    for plan in plans:
        assert peaks.least(run, plan) <= peaks.peak(run, plan) == memory(load("gpt2"), run, training=plan).answer


def test_each_plan_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was asked for, and each that a remedy would make of it."""
    seen: list[Training] = []

    def noted(model: Model, plan: Training) -> Training:
        seen.append(plan)
        return resolve_plan(model, plan)

    monkeypatch.setattr("tfcalc.training.peaks.resolve_plan", noted)
    monkeypatch.setattr("tfcalc.defaults.resolve_plan", None)
    str(fits(load("gpt2"), "1GB", training=Training()))
    assert len(seen) == len(set(seen)) > 1


def test_explain_asks_its_question_once(monkeypatch: pytest.MonkeyPatch, tfcalc: Program) -> None:
    """A number is opened in the answer that has it: no second answer is made, and no second step runs."""
    made: list[type] = []

    def noted(self: Peaks, *given: Any, _make: Any = Peaks.__init__, **named: Any) -> None:
        made.append(Peaks)
        _make(self, *given, **named)

    monkeypatch.setattr(Peaks, "__init__", noted)
    assert tfcalc("explain", "peak_bytes", "gpt2", "--train", "--seq", "64").returncode == 0
    assert made == [Peaks]


def test_serving_has_a_largest_context_and_most_requests() -> None:
    model = load("llama-3-8b")
    found: dict[str, Any] = fits(model, "24GB", serving=Serving(context=32_768, concurrency=4)).to_dict()
    assert found["fits"] is False
    assert 0 < found["largest_context"] < 32_768
    assert found["largest_concurrency"] < 4
    assert found["changes"]
    spare: dict[str, Any] = fits(model, "80GB", serving=Serving(context=4096)).to_dict()
    assert spare["fits"] is True
    assert spare["changes"] == []
    assert spare["largest_context"] == 8192, "what the model was made for"
    assert spare["largest_context_exact"] > 8192


def test_a_paged_cache_has_the_tokens_and_the_concurrency_of_vllms_log() -> None:
    """vllm#12330: Llama-3-8B, 5,691 blocks are 11.12 requests of 8,192 tokens.

    A block: 16 tokens · 32 layers · 2 · 8 heads · 128 · 2 bytes = 2 MiB.
    """
    model, plan = load("llama-3-8b"), Serving(context=8192)
    asked = memory(model, serving=plan)
    beside = asked.answer - int(asked.totals["kv_cache_bytes"])
    found = fits(model, beside + 5691 * 2**21, serving=plan)
    assert found.paged == (8192, 2**21, *(5691, 5691 * 16, 11.12) * 2)
    assert "maximum concurrency for 8,192 tokens per request 11.12x" in found.sheet().assumptions[-1]
    assert fits(model, beside - 1, serving=plan).paged is None


LOGGED = {
    "vLLM 0.19": ("llama-3.1-8b", "rtx-4090", 8192, 2048, 2588),
    "vllm#10517": ("llama-3.1-8b", "rtx-3090", 20000, 20000, 1952),
    "vllm#10517, longer": ("llama-3.1-8b", "rtx-3090", 29000, 29000, 1478),
    "vllm PR #10511: 53.29 GiB": ("llama-3-8b", "h100", 8192, 8192, int(53.29 * 2**30) >> 21),
}
"""Blocks of 2 MiB in logs of servers (tests/oracle/README.md): model, card, context, and tokens of a step."""


def test_a_paged_cache_on_a_card_is_a_range_that_holds_what_engines_log() -> None:
    for where, (name, card, context, batched, blocks) in LOGGED.items():
        paged = fits(load(name), gpu=card, serving=Serving(context=context, batched=batched)).paged
        assert paged is not None
        assert paged.blocks_low <= blocks <= paged.blocks, where
        assert paged.blocks_low > paged.blocks / 3, where
        assert f"{paged.tokens_low:,} to {paged.tokens:,} tokens" in paged.in_words


@pytest.mark.parametrize(("name", "cache"), [("llama-3-8b", "dynamic"), ("deepseek-v4-flash", "paged")])
def test_what_vllm_does_not_page_has_no_such_numbers(name: str, cache: str) -> None:
    found = fits(load(name), "2000GB", serving=Serving(context=1024, cache=cache))
    assert "paged_cache" not in found.to_dict()


def test_weights_at_rest_are_offered_in_fewer_bits() -> None:
    model = load("llama-3-8b")
    size = memory(model).answer
    for budget in (size - 1, size, size + 1):
        found = fits(model, budget)
        assert found.fits == (budget >= size)
        assert found.headroom == budget - size
    smaller = fits(model, "12GB")
    names = [remedy.change.name for remedy in smaller.remedies]
    assert names == ["weights in int8", "weights in nf4", "weights in q4_k_m", "weights in q2_k"]
    assert smaller.subtitle == "llama-3-8b, weights in bf16, at rest"


def test_a_budget_is_an_amount_above_nothing() -> None:
    for wrong in (0, -1, True):
        with pytest.raises(UsageError, match="budget"):
            stated(wrong)
    with pytest.raises(UsageError, match="say 80GiB"):
        fits(Transformer(), "80")


def test_a_card_is_a_budget_with_its_assumptions() -> None:
    found = of_card("h100")
    assert 78 * 2**30 < found.bytes < 80 * 10**9 + 2**33
    assert "H100-NVL (94 GB)" in found.others
    assert not of_card("a100-40").others
    assert of_card("a100-40").bytes < of_card("4xa100-80").bytes
    assert any("less 751 MiB for the driver's context (measured)" in note for note in found.notes)
    assert any("context (assumed)" in note for note in of_card("a100-40").notes)
    sheet = trained(found, Training()).sheet()
    assert set(found.notes) <= set(sheet.assumptions), "they stand below --assumptions alone"
    assert not set(found.notes) & set(sheet.notes)
    assert "H100 SXM has 78.4 GiB usable" in sheet.title
    assert "CUDA context" not in sheet.not_counted, "it is deducted from the card"
    with pytest.raises(UsageError, match="--budget"):
        of_card("toaster")


def test_a_card_may_be_known_by_its_memory_alone() -> None:
    """24·10⁹ bytes, less 0.5 GiB for the context."""
    found = of_card("24GB")
    assert found.bytes == 24 * 10**9 - 2**29
    assert found.has("iec") == "a 24 GB card has 21.9 GiB usable"


def test_several_cards_train_together() -> None:
    run = Workload(seq_len=128, phase="train")
    found = fits(load("gpt2"), of_card("8xh100"), run)
    assert found.report.answer == memory(load("gpt2"), run, training=Training(gpus=8, capability="9.0")).answer
    assert " per GPU, " in found.verdict
    with pytest.raises(UsageError, match="8xh100"):
        fits(load("gpt2"), of_card("8xh100"), run, training=Training(gpus=4))
    with pytest.raises(UsageError, match="hold no model at rest together"):
        fits(load("gpt2"), of_card("8xh100"))


def test_an_engine_takes_nine_tenths_of_a_card() -> None:
    """vLLM's gpu_memory_utilization, of what the driver reports: the rest has room for the context."""
    card = of_card("rtx-4090")
    found = [fits(load("gpt2"), card, serving=Serving(), utilization=share).budget.bytes for share in (None, 0.5, 1.0)]
    assert found == [int(card.memory * 0.9), card.memory // 2, card.memory - 2**29]
    transformers = fits(load("gpt2"), card, serving=Serving(cache="dynamic"))
    assert transformers.budget.bytes == card.memory - 2**29
    assert fits(load("gpt2"), "24GB", serving=Serving()).budget.bytes == 24 * 10**9, "a budget is all there is"
    with pytest.raises(UsageError, match="0 to 1"):
        card.utilized(1.5)


@pytest.mark.parametrize("name", ["gpt2", "pythia-1.4b", "gemma-3-270m", "gpt-oss-20b"])
@pytest.mark.parametrize("plan", [{}, {"optimizer": "sgd", "zero": "3", "gpus": 8}, {"lora": 16, "precision": "fp32"}])
def test_no_peak_is_below_states_and_logits(name: str, plan: Mapping[str, Any]) -> None:
    """12 bytes for each of 511 tokens and each word; none where a loss is computed in tiles."""
    model = load(name)
    peaks, run, asked = Peaks(model), Workload(phase="train", seq_len=512, batch_size=2), Training(**plan)
    words = {"gpt2": 50257, "pythia-1.4b": 50304, "gemma-3-270m": 262144, "gpt-oss-20b": 201088}[name]
    assert 12 * 2 * 511 * words < peaks.least_with_logits(run, asked) <= peaks.peak(run, asked)
    assert peaks.least_with_logits(run, asked.replaced(loss="checkpointed")) == 0


def test_a_search_over_layers_that_differ_goes_on_until_most_is_tried() -> None:
    """Of Gemma 3's layers five in six have windows, so that a step runs all of them."""
    found = fits(load("gemma-3-12b"), "a100-40", training=Training())
    assert found.searched
    assert found.remedies[0].status == "fits"
