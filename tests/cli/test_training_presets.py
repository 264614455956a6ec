"""Trainers' presets: what they set, what is given beside them, and what an answer says of them."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import pytest

import tfcalc
from tests.conftest import Quick
from tfcalc import Training, UsageError, Workload
from tfcalc.dimensions import check_sizes
from tfcalc.plans import training_preset, training_presets

MODEL = "llama-3.2-1b"


@pytest.mark.parametrize("name", training_presets())
def test_each_sets_fields_that_there_are_and_says_where_it_stands(name: str) -> None:
    found = training_preset(name)
    known = {item.name for kind in (Workload, Training) for item in fields(kind)}
    assert set(found.options) <= known
    check_sizes(found.training)
    assert re.search(r"of \w+/\w+", found.source)
    assert re.fullmatch(r"[0-9a-f]{40}|v\d+\.\d+\.\d+", found.revision)
    assert found.not_modelled


@pytest.mark.parametrize("name", training_presets())
def test_each_is_answered_and_is_the_options_that_it_stands_for(name: str, quick: Quick) -> None:
    length = "--max-completion-length" if "--method" in training_preset(name).flags else "--seq"
    short = quick("memory", MODEL, "--preset", name, length, "128", "-q")
    flags = re.sub(rf"{length} \d+", "", training_preset(name).flags).split()
    whole = quick("memory", MODEL, "--train", *flags, length, "128", "-q")
    assert short.returncode == whole.returncode == 0
    assert short.stdout == whole.stdout


def test_grpo_of_2025_took_what_was_measured(quick: Quick) -> None:
    """nvidia-smi showed 49,273 MiB (huggingface/trl#3456), with the context and what the allocator holds on to."""
    sizes = ("--batch", "4", "--max-prompt-length", "2048", "--max-completion-length", "1024")
    found = quick("memory", "qwen3-0.6b", "--preset", "trl/grpo-0.17", *sizes, "-q")
    assert 0.85 * 49_273 < int(found.stdout) / 2**20 < 49_273
    asked = ["why", "does", "GRPO", "of", "qwen3-0.6b", "take", "49", "GB"]
    assert "the peak as by --preset trl/grpo-0.17" in " ".join(quick(*asked, *sizes).stdout.split())


def test_one_of_another_method_is_refused(quick: Quick) -> None:
    found = quick("memory", MODEL, "--preset", "transformers/run-clm", "--method", "dpo")
    assert "--preset transformers/run-clm with --method dpo is not supported" in found.stderr


def test_the_library_answers_alike(quick: Quick) -> None:
    found = tfcalc.training_preset("torchtune/lora-single-device")
    model = tfcalc.load(MODEL)
    answer = tfcalc.memory(model, found.workload.replaced(seq_len=128), training=found.training).answer
    assert (
        json.loads(quick("memory", MODEL, "--preset", found.name, "--seq", "128", "--json").stdout)["peak_bytes"]
        == answer
    )


def test_options_given_beside_it_win(quick: Quick) -> None:
    """By themselves, and as a short form of others."""
    given = ("memory", MODEL, "--preset", "torchtune/lora-single-device", "--qlora", "4", "--batch", "1", "--json")
    found = json.loads(quick(*given).stdout)["conventions"]
    assert (found["lora"], found["base_weights"], found["batch_size"], found["backend"]) == (
        4,
        "nf4-dq",
        1,
        "torchtune",
    )


def test_a_preset_that_is_typed_counts_for_more_than_a_variable(quick: Quick) -> None:
    asked = ("memory", MODEL, "--preset", "torchtune/lora-single-device", "--json")
    assert json.loads(quick(*asked, env={"TFCALC_LORA": "4"}).stdout)["conventions"]["lora"] == 8


def test_what_it_stands_for_is_printed(quick: Quick) -> None:
    asked = ("memory", MODEL, "--preset", "trl/sft", "--seq", "64")
    assert "Assumes: preset trl/sft," in " ".join(quick(*asked).stdout.split())
    told = " ".join(quick(*asked, "--assumptions").stdout.split())
    assert "--loss checkpointed, where nothing else was given" in told
    assert training_preset("trl/sft").revision in told


def test_one_that_is_not_known_is_answered_with_those_that_are(quick: Quick) -> None:
    result = quick("memory", MODEL, "--preset", "torchtune/full")
    assert result.returncode == 2
    assert all(name in result.stderr for name in training_presets())
    with pytest.raises(UsageError, match="torchtune/full-single-device"):
        training_preset("axolotl")


def test_serving_takes_none(quick: Quick) -> None:
    assert quick("memory", MODEL, "--serve", "--preset", "trl/sft").returncode == 2
