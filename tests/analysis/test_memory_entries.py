"""The numbers of memory that are found one by one are those of the whole answer, and nothing else is found for them."""

from __future__ import annotations

from typing import Any

import pytest

import tfcalc
from tfcalc import Serving, Training, Transformer, Workload
from tfcalc.answers.memory import memory_of
from tfcalc.answers.verdict import memory_within
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.model import Model
from tfcalc.search.gpus import of_card, stated

STEPS: dict[str, tuple[str, Workload, Training]] = {
    "plain": ("gpt2", Workload(seq_len=64), Training()),
    "checkpoints and adapters": ("llama-3.2-1b", Workload(batch_size=2, recompute="full"), Training(lora=16)),
    "4-bit weights": ("llama-3.2-1b", Workload(), Training(lora=8, base_weights="nf4-dq")),
    "experts": ("mixtral-8x7b", Workload(seq_len=128), Training(optimizer="adamw-8bit")),
    "windows in turn": ("gemma-2-2b", Workload(seq_len=128, recompute="full"), Training()),
    "encoder and decoder": ("t5-small", Workload(seq_len=32, source_len=48), Training(precision="fp32")),
    "shared out": ("gpt2", Workload(seq_len=64), Training(gpus=8, zero="3")),
    "by units": ("gpt2", Workload(seq_len=64), Training(gpus=8, zero="3", layout="fsdp2")),
    "pieces of layers": ("llama-3.2-1b", Workload(), Training(gpus=16, zero="3", layout="fsdp2", tensor_parallel=2)),
    "buckets": ("gpt2", Workload(seq_len=64), Training(gpus=2)),
    "step in backward": ("gpt2", Workload(seq_len=64), Training(optimizer_in_backward=True)),
    "added up": ("gpt2", Workload(seq_len=64), Training(grad_accum=4, precision="bf16-mixed")),
    "states in the host's memory": ("gpt2", Workload(seq_len=64), Training(offload="optimizer", gpus=2, zero="2")),
    "activations in the host's memory": (
        "llama-3.2-1b",
        Workload(recompute="full"),
        Training(offload_activations=True),
    ),
    "logits that stay": ("gpt2", Workload(seq_len=64), Training(loop="tutorial")),
    "Megatron-LM": ("gpt-3", Workload(), Training(backend="megatron", tensor_parallel=8, precision="bf16-master")),
}
SERVED = {
    "paged": ("llama-3.2-1b", Serving(context=4096, concurrency=4)),
    "growing": ("gpt2", Serving(context=512, cache="dynamic")),
    "quantized": ("llama-3.2-1b", Serving(context=1024, weights="int4", kv="fp8")),
}


def same(model: Model, **asked: Any) -> None:
    assert dict(memory_of(model, **asked).entries()) == tfcalc.memory(model, **asked).to_dict()


@pytest.mark.parametrize("case", STEPS)
def test_the_entries_of_a_step_are_those_of_the_answer(case: str) -> None:
    name, run, plan = STEPS[case]
    same(tfcalc.load(name), workload=run, training=plan)


@pytest.mark.parametrize("case", SERVED)
def test_the_entries_of_serving_are_those_of_the_answer(case: str) -> None:
    name, plan = SERVED[case]
    same(tfcalc.load(name), serving=plan)


def test_the_entries_of_the_classic_model_are_those_of_the_answer() -> None:
    same(Transformer())
    same(Transformer(), workload=Workload(phase="train"))
    same(Transformer(n_layers=2), serving=Serving(context=64))


def test_the_entries_of_a_verdict_are_those_of_the_answer() -> None:
    for asked in (
        {"training": Training(gpus=2), "workload": Workload(seq_len=64), "budget": of_card("2xt4")},
        {"serving": Serving(context=512), "budget": of_card("t4"), "utilization": 0.5},
        {"weights": "nf4", "budget": stated("80MB")},
    ):
        question: dict[str, Any] = {"margin": 5, **asked}
        expected = tfcalc.fits(tfcalc.load("gpt2"), **question).to_dict()
        assert dict(memory_within(tfcalc.load("gpt2"), **question).entries()) == expected


def test_what_would_fit_is_not_searched_for_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    question: dict[str, Any] = {"training": Training(), "workload": Workload(seq_len=64), "budget": stated("1GB")}
    expected = tfcalc.fits(tfcalc.load("gpt2"), **question).to_dict()
    assert expected["changes"] != []
    monkeypatch.setattr("tfcalc.answers.verdict.remedies", refused("changes"))
    found = memory_within(tfcalc.load("gpt2"), margin=5, **question).entries()
    assert found["largest_batch_size"] == expected["largest_batch_size"]
    monkeypatch.setattr("tfcalc.answers.verdict.largest_of", refused("the largest"))
    found = memory_within(tfcalc.load("gpt2"), margin=5, **question).entries()
    for name in ("headroom_bytes", "peak_bytes", "reserved_high_bytes", "budget_bytes", "margin_percent"):
        assert found[name] == expected[name]


def refused(name: str) -> Any:
    """What is called in the place of something that nobody needs."""

    def called(*_: object, **__: object) -> None:
        pytest.fail(f"{name} was looked for")

    return called


def test_what_is_not_read_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tfcalc.load("gpt2")
    step: dict[str, Any] = {"workload": Workload(seq_len=64), "training": Training()}
    found = tfcalc.memory(model, **step).totals
    monkeypatch.setattr("tfcalc.answers.training_memory.training_step", refused("formulas"))
    monkeypatch.setattr("tfcalc.training.peaks.kept", refused("what is saved"))
    assert memory_of(model, **step).entries()["peak_bytes"] == found["peak_bytes"]
    monkeypatch.setattr("tfcalc.training.peaks.step", refused("a step"))
    assert memory_of(model, **step).entries()["optimizer_bytes"] == found["optimizer_bytes"]
    monkeypatch.setattr("tfcalc.serving.memory.forward", refused("a forward pass"))
    served = memory_of(model, serving=Serving(context=512, concurrency=4)).entries()
    # 12 layers of keys and values: 2 * 768 numbers of 2 bytes for each of 4 * 512 tokens
    assert served["kv_cache_bytes"] == 12 * 2 * 768 * 2 * 4 * 512


def test_what_cannot_be_asked_is_refused_in_the_words_of_the_answer() -> None:
    model = tfcalc.load("gpt2")
    for asked in (
        {"training": Training(), "serving": Serving()},
        {"training": Training(), "weights": "nf4"},
        {"workload": Workload(cached=5), "training": Training()},
        {"training": Training(tensor_parallel=2)},
        {"serving": Serving(context=1024), "workload": Workload(recompute="full")},
    ):
        with pytest.raises((InvalidModel, UsageError)) as expected:
            tfcalc.memory(model, **asked)
        with pytest.raises(expected.type) as refused:
            memory_of(model, **asked).entries()
        assert str(refused.value) == str(expected.value)
