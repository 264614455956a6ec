"""Every number of an answer has a path that explain opens, and what it opens adds up to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any

import pytest
from hypothesis import given

import tfcalc
from tests.conftest import Program
from tests.examples import examples
from tests.laws.models import models_and_runs
from tfcalc import Conventions, Serving, Training, Transformer, UsageError, Workload, flops, load, memory, params
from tfcalc.report.declared import Answer
from tfcalc.report.derivation import Derivation
from tfcalc.report.explanation import Explanation
from tfcalc.report.number import Opened
from tfcalc.report.paths import reach

FOLDED = ("total_params", "active_params", "embedding_params", "trainable_params", "forward_flops", "backward_flops")


def paths(value: object, passed: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all numbers, those of components by their names, where these are told apart."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield passed
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from paths(inner, passed if key == "parts" else (*passed, str(key)))
    elif isinstance(value, list):
        names = [str(each.get("name", each.get("phase", ""))) if isinstance(each, Mapping) else "" for each in value]
        for place, inner in enumerate(value):
            unique = names[place] and names.count(names[place]) == 1
            yield from paths(inner, (*passed, names[place] if unique else str(place)))


def evaluated(text: str) -> float:
    """The numbers of a formula put together: only digits and signs are left to Python."""
    floor = re.fullmatch(r"⌊(.*) / (.*)⌋", text)
    if floor:
        return int(floor[1]) // int(floor[2])
    if share := re.fullmatch(r"⌊(.*)⌋", text):
        return int(evaluated(share[1]))
    written = text.replace("·", "*").replace(" mod ", " % ")
    assert re.fullmatch(r"[-+*/%(). \de]+", written), text
    return float(eval(written)) if "/" in written or "." in written else eval(written)


def check(answer: Answer) -> dict[str, str]:
    """Open every number of the answer; how each was opened."""
    ways, said, opened = {}, answer.to_dict(), Opened(answer)
    for keys in paths(said):
        value = reach(said, keys)
        assert isinstance(value, int | float)
        found = opened.open(keys)
        if isinstance(found, Explanation):
            assert found.answer == value == sum(line.value for line in found.lines), keys
            ways[".".join(keys)] = "items"
            continue
        assert isinstance(found, Derivation)
        assert found.value == value
        ways[".".join(keys)] = found.how
        if found.terms and found.how != "answer":
            assert isclose(evaluated(found.substituted), value, rel_tol=1e-12), (keys, found.substituted)
            for term in found.terms:
                if term.path:
                    assert reach(said, term.path.split(".")[1:]) == term.value, (keys, term)
        else:
            assert found.note, keys
    return ways


@given(models_and_runs)
@examples(12)
def test_every_number_of_a_random_model_is_opened(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    counted = check(params(model, depth=3))
    assert counted["total_params"] == "items"
    for by in (Conventions(), Conventions(count="all")):
        try:
            answer = flops(model, run, by, depth=3)
        except UsageError:
            continue
        opened = check(answer)
        assert opened["total_flops"] == "sum"
        assert opened["flops_per_token"] == "ratio"
    at_rest = check(memory(model))
    assert at_rest["total_bytes"] == "sum"


@pytest.mark.parametrize(
    "name", ["gpt2", "t5-small", "mixtral-8x7b", "deepseek-v2-lite", "gemma-3-270m", "gpt-oss-20b", "llama-3-8b"]
)
def test_every_number_of_a_preset_is_opened(name: str) -> None:
    model = load(name)
    ways = check(params(model, depth=3))
    folded = {key: ways[key] for key in FOLDED if key in ways and params(model).totals[key]}
    assert set(folded.values()) == {"items"}
    for run in (Workload(phase="train"), Workload(phase="decode", cached=64)):
        ways = check(flops(model, run, depth=3))
        assert ways["forward_flops"] == "items"
    check(memory(model, depth=3))


@pytest.mark.parametrize("plan", [Training(), Training(lora=8), Training(precision="bf16-master", zero="3", gpus=8)])
def test_every_number_of_a_training_step_is_opened(plan: Training) -> None:
    model, run = load("gpt2"), Workload(phase="train", batch_size=2, seq_len=64)
    ways = check(memory(model, run, training=plan))
    assert ways["peak_bytes"] == ways["total_bytes"] == "sum"
    assert ways["activations_bytes"] == ways["weights_bytes"] == "items"
    assert ways["timeline.forward.peak_bytes"] == "sum"


def test_every_number_of_serving_is_opened() -> None:
    model, plan = load("llama-3-8b"), Serving(context=1024, concurrency=4)
    ways = check(memory(model, serving=plan))
    assert ways["peak_bytes"] == "sum"
    assert ways["kv_cache_bytes"] == "items"


@pytest.mark.parametrize(
    ("words", "value", "how"),
    [
        ("flops_per_token gpt2 --train --seq 512", 797815296, "ratio"),
        ("tokens --of flops --batch 3 --seq 7", 21, "ratio"),
        ("pf_days gpt2 --train --seq 512 --tokens 86.4P", 797815296 * 86_400 * 10**12 / (10**15 * 86_400), "ratio"),
        ("largest_batch_size gpt2 --train --gpu rtx-4090", None, "found"),
        ("conventions.seq_len gpt2 --of flops --seq 77", 77, "given"),
        ("params.model.config.n_embd gpt2", 768, "given"),
        ("params.components.transformer.h.copies gpt2", 12, "given"),
        ("overview.facts.layers gpt2", 12, "found"),
        ("overview.kv_cache_bytes gpt2", 36864 * 1024, "ratio"),
    ],
)
def test_the_command_line_opens_numbers(tfcalc: Program, words: str, value: float | None, how: str) -> None:
    said = json.loads(tfcalc("explain", *words.split(), "--json").stdout)
    assert said["how"] == how
    assert value is None or said["value"] == value


def test_a_line_of_an_overview_names_the_command_that_has_the_number(tfcalc: Program) -> None:
    for key in ("weights_bytes.bf16", "forward_flops_per_token"):
        said = json.loads(tfcalc("explain", f"overview.{key}", "gpt2", "--json").stdout)
        (term,) = said["terms"]
        answer = json.loads(tfcalc(*term["what"].split()[1:], "--json").stdout)
        assert answer[term["path"].split(".")[-1]] == said["value"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("total_params gpt2 --train", "has no effect on params"),
        ("attention gpt2 --tokens 1B", "has no effect on a part"),
        ("attention gpt2 --gpu 8xh100", "has no effect on a part; name a number, such as total_flops"),
        ("weights gpt2 --of memory --train --fsdp --gpu 8xh100", "has no effect on a part; take --gpus 8, or name"),
        ("params.total_parms gpt2", "did you mean total_params"),
        ("params.command gpt2", "is no number"),
        ("overview.facts gpt2", "is no number but has parts"),
    ],
)
def test_what_cannot_be_opened_is_told_in_a_line(tfcalc: Program, words: str, message: str) -> None:
    done = tfcalc("explain", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_peak_is_opened_down_to_its_tensors() -> None:
    """Log-softmax saves all log-probabilities in fp32, the loss its labels in 64 bits with one more, and their number.

    Of a frozen table the weights alone are there, in bf16 (Llama 3 8B's config.json).
    """
    length, hidden, vocabulary = 4096, 4096, 128256
    step = memory("llama-3-8b", training=Training(lora=16), depth=9)
    saved = tfcalc.explain("components.activations.lm_head.loss.bytes", step)
    assert isinstance(saved, Explanation)
    assert [line.value for line in saved.lines] == [4 * length * vocabulary, 8 * (length + 1), 4]
    table = tfcalc.explain("components.weights.model.embed_tokens.bytes", step)
    assert isinstance(table, Explanation)
    assert [line.value for line in table.lines] == [2 * vocabulary * hidden]


@pytest.mark.parametrize(
    ("plan", "budget", "how", "terms"),
    [
        (Training(), "rtx-4090", "difference", [23.5 * 2**30, 512 * 2**20]),
        (Serving(), "rtx-4090", "floor", [23.5 * 2**30, 0.9]),
        (Training(), "24GiB", "given", []),
    ],
)
def test_a_budget_is_opened(plan: Training | Serving, budget: str, how: str, terms: list[float]) -> None:
    """A 4090's driver reports 23.5 GiB, of which its context takes 512 MiB; vLLM took 90 % of a card for years."""
    asked: dict[str, Any] = {"training" if isinstance(plan, Training) else "serving": plan}
    asked["budget" if budget.endswith("GiB") else "gpu"] = budget
    judged = tfcalc.fits("llama-3-8b", **asked)
    found = tfcalc.explain("budget_bytes", judged)
    assert isinstance(found, Derivation)
    assert (found.how, [term.value for term in found.terms]) == (how, terms)


def test_bytes_are_told_as_people_say_them_too(tfcalc: Program) -> None:
    """16,060,522,496 bytes of bf16 weights are 14.96 GiB, or 16.06 GB; nothing else is rounded."""
    words = ("explain", "memory.peak_bytes", "llama-3-8b", "--train")
    assert re.search(r"weights\.bytes +16,060,522,496 +15\.0 GiB$", tfcalc(*words).stdout, re.MULTILINE)
    assert "16,060,522,496" in tfcalc(*words, "--units", "si").stdout
    assert "16.1 GB" in tfcalc(*words, "--units", "si").stdout
    assert "rounded" not in tfcalc("explain", "flops.tokens", "llama-3-8b").stdout
