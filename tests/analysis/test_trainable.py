"""LoRA's parameters and FLOPs as they are asked for: beside published numbers, and what has no effect is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfcalc import Training, UsageError, Workload, explain, flops, formula, load, memory, params
from tfcalc.answers.flops_of_run import flops_of_run
from tfcalc.cli.main import main
from tfcalc.cli.options import TUNING
from tfcalc.cli.options import training as training_options
from tfcalc.errors import InvalidModel

TRAIN = Workload(phase="train", seq_len=128)


@pytest.mark.parametrize(
    ("model", "rank", "targets", "trained"),
    [
        # LoRA (arXiv 2106.09685), tables 2 and 4: RoBERTa 0.3M and 0.8M, DeBERTa XXL 4.7M, GPT-3 4.7M and 37.7M
        ("roberta-base", 8, "query,value", 12 * 2 * 8 * (768 + 768)),
        ("roberta-large", 8, "query,value", 24 * 2 * 8 * (1024 + 1024)),
        ("deberta-v2-xxlarge", 16, "query_proj,value_proj", 4_718_592),
        ("opt-175b", 1, "q_proj,v_proj", 4_718_592),  # of GPT-3's sizes: 96 layers of width 12,288
        ("opt-175b", 8, "q_proj,v_proj", 37_748_736),
        # QLoRA's repository: rank 64 beside all linear maps of LLaMA-7B
        ("llama-7b", 64, "all-linear", 159_907_840),
    ],
)
def test_adapters_have_as_many_parameters_as_papers_say(model: str, rank: int, targets: str, trained: int) -> None:
    assert params(load(model), training=Training(lora=rank, lora_targets=targets)).answer == trained


@pytest.mark.parametrize(
    ("model", "rank", "targets", "said"),
    [
        # what peft's README and quick tour print
        ("qwen2.5-3b", 16, "q_proj,v_proj", (3_686_400, 3_089_625_088, "0.1193")),
        ("llama-3.2-1b", 8, "q_proj", (524_288, 1_236_338_688, "0.0424")),
    ],
)
def test_the_line_that_peft_prints(model: str, rank: int, targets: str, said: tuple[int, int, str]) -> None:
    found = params(load(model), training=Training(lora=rank, lora_targets=targets))
    assert (found.totals["trainable_params"], found.totals["total_params"]) == said[:2]
    line = f"trainable params: {said[0]:,} || all params: {said[1]:,} || trainable%: {said[2]}"
    assert found.notes[0].startswith(line)
    assert f"{found.totals['trainable_percent']:.4f}" == said[2]


def test_adapters_have_a_closed_form() -> None:
    plan = Training(lora=16, lora_targets="up_proj")
    assert str(formula("mlp", "trainable", load("llama-3-8b"), training=plan)) == "hr + fr"
    whole = formula("complete", "trainable", load("llama-3-8b"), training=plan)
    assert whole.at(n=32, h=4096, f=14336, r=16) == 32 * 16 * (4096 + 14336)
    assert whole.legend["r"] == "rank of the adapters (LoRA)"
    more: Any = formula("complete", "params", load("gpt2"), training=Training(lora=8)).closed
    less: Any = formula("complete", "params", load("gpt2")).closed
    adapters: Any = formula("complete", "trainable", load("gpt2"), training=Training(lora=8)).closed
    assert more - less == adapters


def test_the_rank_has_another_letter_where_r_is_a_rank_of_the_model() -> None:
    """DeepSeek's keys and values are of rank r."""
    found = explain("kv_b_proj.lora_A", load("deepseek-v3"), "trainable", training=Training(lora=16))
    assert str(found.formula) == "r*r_A"
    assert found.answer == 512 * 16
    assert {"r", "r_A"} <= found.legend.keys()


def test_a_step_spares_the_gradients_of_frozen_weights() -> None:
    """Of each frozen matrix one of three products, of each adapter none; scores and values as before."""
    model, plan = load("llama-2-7b"), Training(lora=8)
    full, tuned = flops(model, TRAIN), flops(model, TRAIN, training=plan)
    matrices, adapters, tokens = 6_607_077_376, 19_988_480, 128  # without the table of tokens; peft's count
    assert matrices == 6_738_415_616 - 32_000 * 4096 - 65 * 4096
    assert tuned.answer - full.answer == 2 * tokens * (3 * adapters - matrices)


def test_the_rule_of_thumb_of_frozen_weights_adds_up() -> None:
    found = flops_of_run(load("llama-2-7b"), 10**9, TRAIN, plan=Training(lora=8))
    every, without = found.rules
    assert every.size.params == 6_738_415_616 + 19_988_480
    assert every.size.params - every.size.frozen == 19_988_480
    assert every.flops == (4 * 6_738_415_616 + 6 * 19_988_480) * 10**9
    for rule in (every, without):
        assert rule.flops + sum(term.flops for term in rule.difference) == found.answer


@pytest.mark.parametrize("frozen", ["transformer.wte", "lm_head", "*wte,lm_head"])
def test_a_table_is_frozen_with_the_head_that_shares_it(frozen: str) -> None:
    """One tensor has one requires_grad: 124,439,808 less 50,257 x 768, and no product that makes the head's dW."""
    model, plan = load("gpt2"), Training(freeze=frozen)
    assert params(model, training=plan).answer == 124_439_808 - 50_257 * 768
    whole, left = flops(model, TRAIN).answer, flops(model, TRAIN, training=plan).answer
    assert whole - left == 2 * 128 * 768 * 50_257
    assert memory(model, TRAIN, training=plan).totals["gradients_bytes"] <= 4 * (124_439_808 - 50_257 * 768)


def test_the_options_are_those_of_training_memory() -> None:
    known = {option.name: option for option in training_options()}
    assert [known[option.name] for option in TUNING] == list(TUNING)


@pytest.mark.parametrize(
    ("command", "plan", "said"),
    [
        (params, Training(optimizer="sgd", lora=8), "--optimizer sgd has no effect on parameters; leave it out"),
        (flops, Training(gpus=2), "--gpus 2 has no effect on FLOPs"),
        (flops, Training(freeze="transformer.h"), "--freeze transformer.h has no effect without --train; add --train"),
        (flops, Training(lora=8, dora=True, lora_dropout="0.1"), "--lora-dropout 0.1 has no effect without --train"),
        (flops, Training(lora=8, lora_dropout="0.1"), "--lora-dropout 0.1 has no effect on FLOPs; leave it out"),
    ],
)
def test_what_has_no_effect_is_refused(command: Any, plan: Training, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        command(load("gpt2"), training=plan)


def test_targets_without_a_rank_are_refused() -> None:
    with pytest.raises(InvalidModel, match="'c_attn' without LoRA; add --lora 16"):
        params(load("gpt2"), training=Training(lora_targets="c_attn"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("params llama-2-7b --lora 8 -q", "19988480\n"),
        ("params gpt2 --freeze transformer.h -q", f"{(50257 + 1024 + 2) * 768}\n"),
        ("formula q_proj.lora_B --model llama-2-7b --lora -q", "a·d·r\n"),
        ("formula complete --model gpt2 --of trainable -q", "n(12h² + 13h) + (2 + V + T)h\n"),
    ],
)
def test_the_command_line(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    assert main(line.split()) == 0
    assert capsys.readouterr().out == said


def test_the_keys_of_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "llama-2-7b", "--lora", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["trainable_params"], found["total_params"]) == (19_988_480, 6_738_415_616 + 19_988_480)
    assert found["trainable_percent"] == 100 * 19_988_480 / 6_758_404_096
    assert found["conventions"]["lora"] == 8
    [layers] = [part for part in found["components"][0]["parts"] if part["name"] == "layers"]
    assert layers["trainable_params"] == 19_988_480


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("flops gpt2 --lora 8 --compare-conventions", "--lora 8 has no effect with --compare-conventions"),
        ("formula complete --model gpt2 --lora 8 --of time", "--lora 8 has no effect on time"),
        ("params gpt2 --lora 8 --approx", "--approx has no effect on trainable parameters"),
    ],
)
def test_the_command_line_refuses_what_has_no_effect(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    assert main(line.split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("question", ["params", "flops --train", "memory --train"])
def test_a_mixture_says_that_its_experts_have_no_adapters(capsys: pytest.CaptureFixture[str], question: str) -> None:
    """peft's all-linear takes modules, and transformers 5 stores experts as tensors."""
    command, *more = question.split()
    told = []
    for targets in ([], ["--lora-targets", "gate_up_proj"]):
        main([command, "qwen3-30b-a3b", *more, "--lora", "16", *targets])
        told.append(" ".join(capsys.readouterr().out.split()))
    assert ["leaves out the experts" in each for each in told] == [True, False]
    assert ("what adapters beside experts save" in told[1]) is (command == "memory")
