"""Training runs against the figures of papers; 6ND, and the difference between it and the exact count."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Program, recorded
from tests.examples import examples
from tfcalc import Conventions, Transformer, UsageError, Workload, flops, load
from tfcalc.analysis.six_nd import ATTENTION, LOOKED_UP, TIED, UNLIKE, six_nd
from tfcalc.answers.flops_of_run import PF_DAY, flops_of_run
from tfcalc.units import short

ROWS = {row["model"]: row for row in recorded("published.jsonl") if row["table"] == "GPT-3 D.1"}
GPT_3 = {name.lower(): row for name, row in ROWS.items() if name.startswith("GPT-3")}


def of_three_figures(number: float) -> str:
    return f"{number:.2e}"


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_table_d1_by_its_own_definition(row: dict[str, Any]) -> None:
    """FLOPs per parameter and token × parameters × tokens: three times a forward pass of 2 per *active* parameter.

    The paper's parameters have three figures, so its product is off by their rounding: 0.31 % at most.
    """
    assert row["fwd_per_active"] == 2 * row["frac_active"]
    assert row["flops_per_param_token"] == 3 * row["fwd_per_active"]
    total = row["flops_per_param_token"] * row["params_M"] * 1e6 * row["tokens_B"] * 1e9
    assert total == pytest.approx(row["flops"], rel=0.0031)
    assert total / PF_DAY == pytest.approx(row["pf_days"], rel=0.0031)


@pytest.mark.parametrize("name", GPT_3)
def test_our_gpt_3_has_the_papers_parameters_and_compute(name: str) -> None:
    """The exact count beside the paper's, which "ignores attention, as it typically uses less than 10 %"."""
    row, tokens = GPT_3[name], 300 * 10**9
    run = flops_of_run(load(name), tokens, Workload(seq_len=2048, phase="train"))
    rule = run.rules[0]
    assert rule.params / 1e6 == pytest.approx(row["params_M"], rel=0.004)  # 1,315.7M is printed as 1,320
    assert rule.flops == 6 * rule.params * tokens == pytest.approx(row["flops"], rel=0.006)  # rounded twice
    # 6ND leaves out attention's products, 12·n·l·h a token, by hand from the config
    described: dict[str, Any] = load(name).described()
    config = described["config"]
    attention = 12 * config["n_layer"] * 2048 * config["n_embd"] * tokens
    assert {term.what: term.flops for term in rule.difference}[ATTENTION] == attention
    assert attention < 0.31 * rule.flops


def test_gpt_3_on_300_billion_tokens() -> None:
    """3.14e23 is 6ND; 3.23e23 has all pairs, 3.19e23 those of the mask; recomputation adds a third of the blocks."""
    model, tokens = load("gpt-3-175b"), 300 * 10**9

    def total(**how: Any) -> int:
        return flops_of_run(model, tokens, Workload(seq_len=2048, phase="train", **how)).answer

    assert of_three_figures(flops_of_run(model, tokens, Workload(phase="train")).rules[0].flops) == "3.14e+23"
    assert of_three_figures(total()) == "3.23e+23"
    assert of_three_figures(total(attention="causal")) == "3.19e+23"
    blocks = 96 * (24 * 12288**2 + 4 * 2048 * 12288) * tokens  # forward, by hand
    head = 2 * 12288 * 50257 * tokens
    assert total() == 3 * (blocks + head)
    assert of_three_figures(3 * blocks) == "3.22e+23"
    assert total(recompute="full") == 4 * blocks + 3 * head
    assert of_three_figures(4 * blocks) == "4.29e+23"


MODELS = ["gpt2", "mixtral-8x7b", "t5-small", "albert-large-v2", "mamba-1.4b", "bert-base-uncased", "whisper-tiny"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tokens", [1, 1_400_000_000_001])
@pytest.mark.parametrize("how", [{}, {"attention": "causal"}, {"recompute": "full"}, {"kernel": "flash"}])
def test_the_difference_is_explained_to_the_last_flop(name: str, tokens: int, how: dict[str, Any]) -> None:
    run = flops_of_run(load(name), tokens, Workload(batch_size=3, seq_len=77, phase="train", **how))
    for rule in run.rules:
        assert rule.flops == six_nd(rule.params, tokens) == 6 * rule.params * tokens
        assert rule.flops + sum(term.flops for term in rule.difference) == run.answer
        assert all(term.flops for term in rule.difference) or tokens == 1


def test_elementwise_work_is_a_term_of_its_own() -> None:
    run = flops_of_run(load("gpt2"), 10**6, Workload(phase="train"), Conventions(count="all"))
    assert run.rules[0].difference[-1].what == "elementwise work"
    assert run.rules[0].flops + sum(term.flops for term in run.rules[0].difference) == run.answer


def test_the_terms_of_gpt_2_by_hand() -> None:
    """Of 1,024 tokens: V·h = 38,597,376 and T·h = 786,432 are looked up; the first is multiplied in the tied head."""
    run = flops_of_run(load("gpt2"), 1024, Workload(seq_len=1024, phase="train"))
    every, without = run.rules
    terms = {term.what: term.flops for term in every.difference}
    assert terms == {
        ATTENTION: 12 * 12 * 1024 * 768 * 1024,
        TIED: 6 * 38_597_376 * 1024,
        LOOKED_UP: -6 * (38_597_376 + 786_432) * 1024,
        "biases and norms": -6 * (12 * 13 * 768 + 2 * 768) * 1024,
    }
    assert (every.params, without.params) == (124_439_808, 124_439_808 - 38_597_376 - 786_432)
    assert {term.what: term.flops for term in without.difference} == {
        what: flops for what, flops in terms.items() if what != LOOKED_UP
    }


def test_shared_layers_are_multiplied_more_often_than_stored() -> None:
    """ALBERT: 24 passes through one layer of 12h² weights, so 23 are not in N."""
    run = flops_of_run(load("albert-large-v2"), 512, Workload(seq_len=512, phase="train"))
    terms = {term.what: term.flops for term in run.rules[0].difference}
    assert terms[UNLIKE] == 6 * 23 * 12 * 1024**2 * 512


def test_tokens_that_do_not_fill_a_step_are_counted_in_proportion() -> None:
    model, run = Transformer(), Workload(batch_size=4, seq_len=100, phase="train")
    step = flops(model, run).answer
    whole, part = flops_of_run(model, 1200, run), flops_of_run(model, 1399, run)
    assert (whole.answer, whole.training_steps, whole.training_rest_tokens) == (3 * step, 3, 0)
    assert (part.answer, part.training_steps, part.training_rest_tokens) == (step * 1399 // 400, 3, 199)
    assert "3 steps of 400 tokens, and 199 tokens of a partial step" in part.sheet().notes[0]


@given(tokens=st.integers(1, 10**18), length=st.integers(1, 99), batch=st.integers(1, 9))
@examples(50)
def test_the_total_is_exact_at_any_size(tokens: int, length: int, batch: int) -> None:
    model, run = Transformer(n_layers=1), Workload(batch_size=batch, seq_len=length, phase="train")
    found = flops_of_run(model, tokens, run)
    assert found.answer == flops(model, run).answer * tokens // (batch * length)
    assert found.training_steps * batch * length + found.training_rest_tokens == tokens


def test_experts_count_those_that_are_active() -> None:
    run = flops_of_run(load("mixtral-8x7b"), 10**9)
    assert run.rules[0].params == 12_879_925_248  # the model's own config, by hand in the params tests
    assert run.rules[1].params == 12_879_925_248 - 32_000 * 4096


@pytest.mark.parametrize("wrong", [0, -3, 2.5, True, 10**19, float("nan")])
def test_tokens_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="tokens"):
        flops_of_run(Transformer(), wrong)


def test_a_run_is_made_of_training_steps() -> None:
    with pytest.raises(UsageError, match="1,000 tokens is made of training steps, not of decode; add --train"):
        flops_of_run(Transformer(), 1000, Workload(phase="decode"))


def test_the_json_has_the_keys_of_a_step_and_those_of_the_run(tfcalc: Program) -> None:
    arguments = ("flops", "gpt2", "--train", "--seq", "64")
    step = json.loads(tfcalc(*arguments, "--json").stdout)
    run = json.loads(tfcalc(*arguments, "--tokens", "3.2k", "--json").stdout)
    assert {key: run[key] for key in step if key != "conventions"} == {
        key: value for key, value in step.items() if key != "conventions"
    }
    as_run = step["conventions"] | {"grouped_convolutions": "run"}
    assert run["conventions"].items() >= as_run.items()
    assert run["training_flops"] == 50 * step["total_flops"]
    assert run["training_forward_flops"] + run["training_backward_flops"] == run["training_flops"]
    assert (run["training_tokens"], run["training_steps"], run["training_rest_tokens"]) == (3200, 50, 0)
    assert run["pf_days"] == run["training_flops"] / 8.64e19
    assert run["six_nd_flops"] == 6 * 124_439_808 * 3200
    assert sum(term["flops"] for term in run["six_nd_difference"]) == run["training_flops"] - run["six_nd_flops"]
    assert tfcalc(*arguments, "--tokens", "3.2k", "-q").stdout == f"{run['training_flops']}\n"


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex", "plain"])
def test_every_format_has_the_same_numbers(tfcalc: Program, form: str) -> None:
    shown = tfcalc("flops", "gpt2", "--train", "--tokens", "1B", "--seq", "64", "--format", form).stdout
    total = flops_of_run(load("gpt2"), 10**9, Workload(seq_len=64, phase="train")).answer
    written = str(total) if form == "csv" else short(total)
    assert written in shown.replace(",", "")
    assert "6ND" in shown
