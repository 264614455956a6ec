"""What trainers do with gradients, optimizer states and activations: steps in backward, the host's memory, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import InvalidModel, Training, UsageError, Workload, explain, from_config, load, memory
from tfcalc.report.explanation import Explanation
from tfcalc.training.peaks import Peaks

RUN = Workload(phase="train", seq_len=64, recompute="full")
BF16 = Training(precision="bf16")
HIDDEN, LAYERS, WORDS = 64, 6, 1000
LLAMA = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 160,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": WORDS,
}


def phases(run: Workload, plan: Training, name: str = "gpt2") -> dict[str, dict[str, Any]]:
    return {phase["phase"]: phase for phase in memory(load(name), run, training=plan).more["timeline"]}


def test_a_step_in_backward_leaves_no_step_behind_it_and_few_gradients() -> None:
    behind, within = (phases(RUN, BF16.replaced(optimizer_in_backward=inside)) for inside in (False, True))
    assert list(within) == ["forward", "loss", "backward"]
    assert within["forward"] == behind["forward"]
    assert within["backward"]["states_bytes"] == behind["backward"]["states_bytes"]


def test_of_few_tokens_the_peak_is_the_states_and_the_largest_gradient() -> None:
    """gpt2's tied table, V·h numbers of 2 bytes: the head's gradient, the table's, and their sum in new memory."""
    at = phases(RUN.replaced(seq_len=1), BF16.replaced(optimizer_in_backward=True))["backward"]
    table = 2 * 50257 * 768
    assert at["peak_bytes"] - at["states_bytes"] == pytest.approx(3 * table, rel=0.001)


def test_a_tied_tables_gradients_are_summed_up_before_they_are_added_to_earlier_ones() -> None:
    """Of 2·V·h bytes each: the head's, live until the table's is there, and their sum beside gradients that stay.

    tests/verify/test_gradients_added_up.py has the same of PyTorch.
    """
    plan = BF16.replaced(grad_accum=2)
    found = memory(load("gpt2"), RUN.replaced(seq_len=1), training=plan)
    (at,) = (phase for phase in found.more["timeline"] if phase["phase"] == "backward")
    beside = at["peak_bytes"] - at["states_bytes"] - 2 * 124_439_808
    assert beside == pytest.approx(3 * 2 * 50257 * 768, rel=0.001)


def test_a_for_loop_makes_two_roots_of_the_largest_matrix() -> None:
    """√v and √v + ε while its gradient is there: 3 times V·h numbers of 2 bytes, of a head that is not tied."""
    run, plan = RUN.replaced(seq_len=1), BF16.replaced(optimizer_in_backward=True, optimizer="adamw-forloop")
    found = memory(from_config(LLAMA), run, training=plan)
    (at,) = (phase for phase in found.more["timeline"] if phase["phase"] == "backward")
    assert at["peak_bytes"] - at["states_bytes"] == pytest.approx(3 * 2 * WORDS * HIDDEN, rel=0.02)
    assert found.totals["gradients_bytes"] == 2 * WORDS * HIDDEN


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"grad_accum": 2}, "--optimizer-in-backward cannot add up the gradients of 2 micro-batches"),
        ({"gpus": 8, "zero": "2"}, "--optimizer-in-backward on 8 GPUs is not supported"),
        ({"gpus": 8}, "--optimizer-in-backward on 8 GPUs is not supported"),
        ({"offload": "optimizer"}, "--optimizer-in-backward cannot be combined with --offload optimizer"),
        ({"precision": "bf16-master"}, "--optimizer-in-backward with the fp32 master weights of bf16-master"),
        ({"optimizer": "none"}, "--optimizer-in-backward without an optimizer"),
        ({"backend": "megatron"}, "--optimizer-in-backward has no effect with --backend megatron"),
    ],
)
def test_where_backward_cannot_step_it_says_so(more: dict[str, Any], said: str) -> None:
    plan = BF16.replaced(optimizer_in_backward=True, **more)
    for asked in (lambda: memory(load("gpt2"), RUN, training=plan), lambda: Peaks(load("gpt2")).peak(RUN, plan)):
        with pytest.raises(InvalidModel, match=said):
            asked()


def test_the_peak_of_steps_in_backward_is_no_less_than_its_lower_bound() -> None:
    plan = BF16.replaced(optimizer_in_backward=True)
    peaks = Peaks(load("gpt2"))
    assert 0 < peaks.least(RUN, plan) < peaks.peak(RUN, plan) == memory(load("gpt2"), RUN, training=plan).answer


def test_another_optimizer_in_backward_is_another_step() -> None:
    """Peaks remembers steps of plans whose optimizer runs behind backward without looking at it."""
    run, peaks = RUN.replaced(seq_len=1), Peaks(from_config(LLAMA))
    fused, loop = (
        BF16.replaced(optimizer_in_backward=True, optimizer=f"adamw-{kind}") for kind in ("fused", "forloop")
    )
    assert peaks.peak(run, fused) < peaks.peak(run, loop)


def test_what_layers_read_is_on_the_host() -> None:
    """2 bytes of l·h for each layer, and nothing else; the first reads what the embedding made."""
    model, plan = from_config(LLAMA), BF16.replaced(offload_activations=True)
    here, there = (memory(model, RUN, training=each) for each in (BF16, plan))
    moved = 2 * LAYERS * RUN.seq_len * HIDDEN
    assert there.totals["host_bytes"] == moved
    assert int(here.totals["activations_bytes"]) - int(there.totals["activations_bytes"]) == moved
    assert here.answer > there.answer
    assert "Host memory: 48.0 KiB of activations" in str(there)
    assert "offloaded" in str(there)


def test_what_is_offloaded_is_not_among_what_is_saved_on_the_device() -> None:
    plan = BF16.replaced(offload_activations=True)
    shown = str(explain("activations", from_config(LLAMA), "memory", RUN, training=plan))
    assert "saved by checkpoint" not in shown
    assert "saved by checkpoint" in str(explain("activations", from_config(LLAMA), "memory", RUN, training=BF16))


@pytest.mark.parametrize("recompute", ["none", "selective"])
def test_without_checkpointed_layers_nothing_is_offloaded(recompute: str) -> None:
    with pytest.raises(InvalidModel, match="--offload-activations offloads what checkpointed layers read"):
        memory(load("gpt2"), RUN.replaced(recompute=recompute), training=BF16.replaced(offload_activations=True))


@pytest.mark.parametrize(
    "plan",
    [BF16.replaced(offload="optimizer"), BF16.replaced(offload="optimizer", zero="3", gpus=4, layout="fsdp2")],
    ids=["alone", "FSDP"],
)
def test_gradients_are_on_the_device_until_the_hosts_optimizer_takes_them(plan: Training) -> None:
    """2 bytes a parameter, a GPU's share of them; at the peak of backward those of the first layer are yet to come."""
    model, run = from_config(LLAMA), RUN.replaced(seq_len=1)
    parameters = 2 * WORDS * HIDDEN + LAYERS * (4 * HIDDEN**2 + 3 * HIDDEN * 160 + 2 * HIDDEN) + HIDDEN
    opened = explain("gradients", model, workload=run, training=plan, of="memory")
    assert isinstance(opened, Explanation)
    whole = opened.total_bytes
    assert whole == 2 * parameters / (1 if plan.gpus is None else 4)
    terms = memory(model, run, training=plan, depth=2).whole.parts
    (at_peak,) = (entry for entry in terms if entry.name == "gradients")
    yet_to_come = {entry.name: entry.value for entry in at_peak.parts}.get("not yet computed", 0)
    assert 0 < at_peak.value == whole + yet_to_come
    assert yet_to_come <= 0


def test_gradients_that_leave_as_they_are_made_are_no_term_of_the_device() -> None:
    plan = BF16.replaced(offload="all", zero="3", gpus=4, layout="fsdp2")
    with pytest.raises(UsageError) as said:
        explain("gradients", from_config(LLAMA), workload=RUN, training=plan, of="memory")
    assert "tfcalc explain host_bytes" in str(said.value)
    known = str(said.value).partition("known: ")[2].partition(";")[0].split(", ")
    assert len(known) == len(set(known)) > 4


def test_megatron_offloads_nothing() -> None:
    plan = BF16.replaced(offload_activations=True, backend="megatron")
    with pytest.raises(InvalidModel, match="--offload-activations has no effect with --backend megatron"):
        memory(load("gpt2"), RUN, training=plan)


ROWS = [
    *(BF16.replaced(method=method, loss=loss) for method in ("dpo", "grpo") for loss in ("auto", "logits")),
    *(BF16.replaced(method=method, lora=8) for method in ("dpo", "grpo")),
    BF16.replaced(method="dpo", gpus=4),
    BF16.replaced(method="ppo"),
    *(BF16.replaced(offload=offload, zero="3", gpus=4, layout="fsdp2") for offload in ("optimizer", "all")),
    BF16.replaced(offload="optimizer", gpus=8),
    BF16.replaced(base_weights="nf4", lora=8, loop="tutorial"),
    BF16.replaced(optimizer_in_backward=True, offload_activations=True),
    Training(precision="bf16-master", gpus=4, zero="1", grad_accum=4),
]


@pytest.mark.parametrize("plan", ROWS, ids=str)
def test_explain_opens_each_row_of_memory_by_its_name(plan: Training) -> None:
    model = from_config(LLAMA)
    rows = [entry.name for entry in memory(model, RUN, training=plan).whole.parts if entry.value]
    assert len(rows) > 3
    for row in rows:
        opened = explain(row, model, workload=RUN, training=plan, of="memory")
        assert isinstance(opened, Explanation)
        assert opened.total_bytes == sum(line.value for line in opened.lines)
