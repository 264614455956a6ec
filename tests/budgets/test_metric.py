"""A metric is a path into an answer."""

from __future__ import annotations

import pytest

from tfcalc.answers.metrics import WITHOUT_COMMAND, numbers, owner
from tfcalc.budgets.metric import Metric, look_up, read
from tfcalc.cli.app import settings_of
from tfcalc.cli.commands import command
from tfcalc.errors import UsageError

QUESTIONS = (
    "params gpt2 --lora 8",
    "params gpt2 --approx",
    "flops gpt2 --train --tokens 300B",
    "flops gpt2 --train --gpu h100 --mfu --tokens-per-second 20000",
    "flops gpt2 --compare-conventions",
    "memory gpt2",
    "memory gpt2 --train --gpu h100",
    "memory gpt2 --serve --context 1k --gpu h100",
)


def answered(question: str) -> dict[str, object]:
    name, *words = question.split()
    asked = command(name)
    return asked.answer(settings_of(words, asked.options)).to_dict()


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_number_of_an_answer_is_known_without_its_command(question: str) -> None:
    numbers = {
        key
        for key, value in answered(question).items()
        if isinstance(value, int | float) and not isinstance(value, bool) and key != "schema_version"
    }
    assert numbers
    assert {owner(key) for key in numbers} == {question.split()[0]}


def test_no_number_has_two_commands() -> None:
    keys = [key for command in WITHOUT_COMMAND for key in numbers(command)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("total_params", "params"),
        ("params.components.transformer.params", "params"),
        ("params.components.transformer.flops", "flops"),
        ("flops_per_token", "flops"),
        ("overview.weights_bytes.bf16", "bytes"),
        ("overview.kv_cache_bytes_per_token", "bytes"),
        ("trainable_percent", ""),
        ("params.trainable_percent", ""),
        ("tokens", ""),
        ("largest_batch_size", ""),
    ],
)
def test_the_unit_is_in_the_key(metric: str, unit: str) -> None:
    assert read(metric).unit == unit


def test_a_component_is_found_by_the_names_above_it() -> None:
    # GPT-2: 50257 tokens and 1024 positions of 768; an MLP has 2 · 768 · 3072 weights and 3072 + 768 biases
    answer = answered("params gpt2 --depth 9")
    embedding = read("params.components.transformer.wte.params")
    assert embedding == Metric("params", ("components", "transformer", "wte", "params"))
    assert look_up(answer, embedding.keys) == 50257 * 768
    assert look_up(answer, ("components", "transformer", "parts", "wpe", "params")) == 1024 * 768
    assert look_up(answer, ("components", "0", "wte", "params")) == 50257 * 768
    mlp = look_up(answer, ("components", "transformer", "h", "mlp", "params"))
    assert mlp == 12 * (2 * 768 * 3072 + 3072 + 768)
    assert look_up(answer, ("model", "config", "n_layer")) == 12
    assert look_up(answer, ("model", "name")) == "gpt2"


def test_a_name_with_a_point_is_found() -> None:
    answer = {"weights": {"q4.k": 1, "q4": {"k": 2}}}
    assert look_up(answer, ("weights", "q4", "k")) == 1


TREE = {
    "total_params": 3,
    "peak_phase": None,
    "components": [{"name": "a", "params": 1, "parts": []}, {"name": "b", "params": 1}, {"name": "b", "params": 1}],
}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("total_parms", "'total_parms' is not in the answer; did you mean total_params?"),
        ("components.c.params", "'c' is not in components; known: a"),
        ("components.b.params", "'b' is not in components; known: a"),  # there are two: only 1 and 2 tell them apart
        ("components.a.parms", "'parms' is not in components.a; did you mean params?"),
        ("components.a", "components.a is no number but has parts; known: name, params, parts"),
        ("total_params.x", "'x' is not in total_params, which has no parts; leave it out"),
        ("peak_phase", "peak_phase has no value here; name a key with a number"),
    ],
)
def test_where_a_path_ends_too_soon_the_nearest_keys_are_told(keys: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        look_up(TREE, keys.split("."))
    assert str(caught.value) == told


def test_parts_of_one_name_are_told_apart_by_their_place() -> None:
    assert look_up(TREE, ("components", "2", "params")) == 1


@pytest.mark.parametrize(
    ("metric", "meant"),
    [("memory.peak_byte", "memory.peak_bytes"), ("params.total_param", "params.total_params")],
)
def test_a_misspelled_metric_of_a_command_is_answered_with_the_nearest(metric: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"metric '{metric}' is not known; did you mean {meant}\?"):
        read(metric)
