"""What people type first, blind: each guess works, or is answered in one line with the right word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Program

WORKS = {
    "llama-3-8b": "8.03B parameters",
    "memory llama-3-8b --train --gpu 8xh200": "FITS",
    "memory llama-3-8b --serve --gpu 24GB": "FITS",
    "memory llama-3-8b --train --gpus 8 --fsdp": "GiB peak",
    "memory llama-3-8b --train --qlora": "GiB peak",
    "memory llama-3-8b --train --lora": "GiB peak",
    "memory llama-3-8b --train --gradient-checkpointing": "GiB peak",
    "memory llama-3-8b --train --backend megatron --tp 8": "GiB peak",
    "params llama-3-70b-instruct": "70.6B parameters",
    "memory llama-3-8b --serve --tensor-parallel-size 2": "GiB",
    "params META-LLAMA/meta-llama-3-8b": "8.03B parameters",
    "compare llama-3-8b qwen3-8b": "llama-3-8b 8.03B, qwen3-8b 8.19B parameters",
    "llama-3-8b rtx-4090 --qlora": "FITS",
    "compare llama-3-8b --gpus h100,a100": "Fits on H100-SXM",
    "memory llama-3-8b --train --gpus 8 --cp 1": "GiB peak",
    "memory llama-3-8b --train --qlora True": "GiB peak",
    "memory llama-3-8b --train --qlora 16 --weights nf4": "GiB peak",
    "serve llama-3.1-8b --gpu h100 --context 8k": "each user waits",
    "serve llama-3.1-8b --gpu h100 --max-model-len 8k --users 8": "each user waits",
    "memory llama-3-8b --train --load-in-4bit": "GiB peak",
    "memory llama-3-8b --train --weights nf4": "GiB peak",
    "memory llama-3-8b --train --weights bf16": "GiB peak",
    "memory gpt2 --lora 16 --packing": "GiB peak",
    "train llama-3-8b --base-weights nf4 --gpu h100": "FITS",
    "flops llama-3.1-8b --phase decode --cached 8k --gpu h100 --batch 32": "each user waits",
    "formula attention --of memory --train": "memory.activations.encoder.layer[first].self_attention",
    "plan gpt2 --gpu 8xh100 --tp 1 --pp 1 --cp 1 --micro-batch 8": "s a step",
    "llama-3-8b,qwen3-8b": "llama-3-8b 8.03B, qwen3-8b 8.19B parameters",
    "train llama-3-8b --weights nf4 --gpu h100": "FITS",
    "llama-3-8b --lora": "GiB peak",
    "chinchilla --compute 1e21": "parameters on 57.7B tokens",
    "chinchilla --flops=1e21": "parameters on 57.7B tokens",
    "compute-optimal --compute=1e21": "parameters on 57.7B tokens",
    "scaling-laws --flops 1e21": "parameters on 57.7B tokens",
    "chinchilla 70B": "about 70B parameters on 1.4T tokens",  # as arXiv 2203.15556 trained it
    "scaling-laws --params 70B": "about 70B parameters on 1.4T tokens",
    "scaling-law --tokens 1.4T": "about 70B parameters on 1.4T tokens",
    "how-many-gpus gpt2 --gpu t4": "by bandwidth",
    "context-window gpt2 --gpu t4": "FITS",
    "solve batch gpt2 --gpu t4 --train": "FITS",
    "shape --flops 1e12": "FLOPs, +",
    "memory gpt2 --train --r 64": "GiB peak",
    "memory llama-3-8b --train --fsdp full_shard --gpus 8": "GiB peak",
    "llama-3-8b --gpu A100-80G": "8.03B parameters",
    "train gpt2 --tokens 1M --gpu t4 --price $2.50/hr": "1M tokens in",
    "llama-3-8b --lora --gpu rtx-4090 --loss fused": "FITS",
    "gpt2 --lora --tokens 10M --gpu t4": "10M tokens",
    "llama-3-8b --context 8k": "GiB peak, in prefill",
    "llama-3-8b --quantization awq": "of weights, in awq",
    "ollama run llama3.1:8b": "8.03B parameters",
    "run qwen3:8b --gpu rtx-3060": "FITS",
    "flops gpt2 --tokens 1B --gpu h100 --gpus 8": "1B tokens in",
    "memory gpt2 --4bit": "of weights, in nf4",
    "memory gpt2 --train --bs 4 --ac --flash-attn": "GiB peak",
    "memory gpt2 --inference": "peak, in prefill",
    "params --n-embd 768 --n-layer 12 --n-head 12 --kind encoder": "85.1M parameters",
    "memory llama-3-8b --train --precision fp8": "GiB peak",
    "memory llama-3-8b --train --fp8": "GiB peak",
    "flops gpt2 --prefill": "FLOPs for a prefill",
    "llama-3-8b --gpu 8xh100": "8.03B parameters",
    "gpt2 --gpu 2x4090": "124M parameters",
    "train gpt2 --precision fp8 --tokens 1B --gpu h100": "1B tokens in at least",
    "train gpt2 --steps 100 --batch 8 --seq 1k --gpu t4": "819k tokens in",
    "finetune gpt2 --epochs 3 --samples 1000 --seq 512 --gpu t4": "1.54M tokens in",
    "512x64x2048": f"matrix product: {2 * 512 * 64 * 2048:,} FLOPs",
    "flops 512×64×2048": f"matrix product: {2 * 512 * 64 * 2048:,} FLOPs",
    "why 989TFLOPS": "FLOPs per second: the dense peak of",  # the H100's datasheet has 1,979 with sparsity
    "how many t4 to fine-tune gpt2": "FITS",
    "llama3 70b": "70.6B parameters",
    "how much vram for llama 3 70b": "70.6B parameters",
    "will gpt2 xl fit on two rtx 4090s?": "1.56B parameters",
    "can I finetune gpt2 on a t4": "FITS",
    "will gpt2 fit on a t4 with 1k context": "FITS",
    "how much vram does llama 3 8b need with a context length of 32k tokens": "GiB peak, in prefill",
    "what is the longest context of llama-3-8b on a 24GB card?": "FITS",
    "how long to finetune gpt2 on 10M tokens with a t4": "10M tokens",
    "can llama 3 8b on an h100 serve 50 users": "each user waits",
    "how many tokens per second does llama 3.1 8b on an h100 do": "each user waits",
    "how many flops to train gpt2": "FLOPs for a training step",
    "what is chinchilla optimal for 1e21 flops": "parameters on",
    "why is my training slow": "MFU",
    "how many parameters are in each multi-head self-attention layer of gpt2": f"{4 * 768**2 + 4 * 768:,} parameters",
    "is 24GB enough for llama-3.1-8b": "8.03B parameters",
    "gpt2 4bit": "of weights, in nf4",
    "grpo qwen3-0.6b --generations 8 --gpu h100": "FITS",
    "vllm serve gpt2 --gpu t4": "by bandwidth",
    "params 12 layers 768 hidden --kind encoder": "85.1M parameters",
    "why OOM": "training memory",
    "mfu gpt2 --tps 90000 --gpu h100": "MFU",
    "latency gpt2 --prompt 512 --gpu a100": "each user waits",
    "solve kv_cache<=10GiB --for context llama-3-8b": "context: 81,920 at most",
}
ANSWERED = {
    "params bert-base": "bert-base-uncased",
    "params llama3": "llama-3-8b",
    "params gemma3": "gemma-3-4b-it",
    "params qwen3-next": "qwen3_next",
    "params llama-3-8b --vs qwen3-8b": "tfcalc compare",
    "flops llama-3-8b --train --price 2": "add --tokens 100M",
    "memory llama-3-8b --train --tp 8": "--backend megatron",
    "plan llama-3-8b": "add --gpu h100 --gpus 64",
    "diff --base main": "tfcalc diff main:config.json",
    "flops gpt2 --train --mfu --step-time 2.5 --gpu h100": "add --batch N, of all GPUs together",
    "flops gpt2 --mfu --step-time 2 --tokens-per-second 9 --gpu h100 --batch 8": "both say how fast it runs",
    "flops gpt2 --train --step-time 2": "add --gpu h100",
    "train gpt2 --epochs 3": "add --samples 10k",
    "train gpt2 --samples 10 --grpo": "writes its sequences itself",
    "train gpt2 --steps 10 --tokens 1B": "both say how much a run reads",
    "why do you never sleep at night": "has no number, and names no concept",
    "quiz LoRA": "write tfcalc quiz --topic lora",
    "gpus --min-memory 80GB": "tfcalc gpus 24GB",
    "latex attention gpt2": "neither a command nor a model",
    "params gpt2 --trainable": "with --lora 16, or with --freeze",
    "train gpt2 --hours 5": "type --tokens, --max-steps or --samples",
    "plan gpt2 --gpu h100 --nodes 4": "type --gpus N, those of all nodes",
    "design --compute 70B": "6 x parameters x tokens",
    "gpt-4": "not published",
    "energy gpt2 --tokens 1T": "no watts of GPUs are known here",
    "train gpt2 --tokens 1M --gpu t4 --watts 70": "no watts of GPUs are known here",
    "flops --params 7B --tokens 2T": "a line of tfcalc design 7B --tokens 2T",
    "mixtral-8x7b --active-params": "tfcalc params MODEL --active",
    "memory gpt2-xl --draft gpt2": "it is an option of serve",
    "serve gpt2-xl --speculative": "type --speculate 3@0.7",
    "speculative gpt2-xl --draft gpt2": "say them: --speculate 3@0.7",
    "scaling-laws --tokens 1T --days 3": "needs a GPU",
    "bert": "bert-base-cased",
    "how do I train a model": "names neither one model nor a concept",
    "will gpt2 fit on a t4 with 3 beams": "type tfcalc gpt2 --gpu t4, which leaves it out",
    "explain kv cache gemma-4-31b-it": "did you mean gemma-4-31b-it-nvfp4",
    "how much KV cache does gemma-4-31b-it need": "did you mean gemma-4-31b-it-nvfp4",
    "which models fit on a 4090": "tfcalc fit MODEL --gpu 4090",
    "can I trust the numbers?": "docs/accuracy.md",
    "compare gpt2 gpt2-xl --flops": "each has its rows",
    "compare gpt2 gpt2-xl --gpu 8xh100": "add --train --fsdp, or --serve",
    "memory gpt2 --kv": "KV cache's format",
    "memory --module my.py:Net --gpu h100": "tfcalc gpus NAME says what a card has",
    "params --module my.py:Net": "file 'my.py' does not exist",
    "memory gpt2 --train --precision fp8 --backend megatron": "plan --precision fp8 has its layouts",
    "flops gpt2 --train --packing": "every sequence is counted as full",
    "flops gpt2 --train --tp 8": "FLOPs are those of the whole model",
    "serve llama-3-8b -ngl 20": "tfcalc memory MODEL --serve --engine llama.cpp --ngl N",
    "serve gpt2 --dtype bfloat16": "did you mean --weights?",
    "train gpt2 --global-batch-size 32": "type --batch, the sequences of each GPU at once, and --grad-accum",
    "flops gpt2 --tflops 3": "type --peak",
    "flops gpt2 --block-size 512": "did you mean --seq?",
    "params --block_size 8": "type --positions learned --max-len N",
    "train gpt2 --grpo --use_vllm": "type --vllm-mode",
}


@pytest.mark.parametrize("line", WORKS)
def test_a_first_guess_works(tfcalc: Program, line: str) -> None:
    found = tfcalc(*line.split(), env={"COLUMNS": "80"})
    assert (found.returncode, found.stderr) == (0, "")
    assert WORKS[line] in found.stdout.splitlines()[0]
    assert len(found.stdout.splitlines()) <= (
        24 if line.startswith("plan") else 20
    )  # a plan says how to open its first


def test_flops_of_a_pass_that_no_model_has_are_those_of_a_training(tfcalc: Program) -> None:
    found = tfcalc("design", "--flops", "1e21")
    assert found.returncode == 1
    assert "not of a whole training, which is --compute 1e+21" in found.stdout
    assert tfcalc("design", "--compute", "1e+21").returncode == 0


def test_a_question_in_quotes_is_the_same(tfcalc: Program) -> None:
    """One word of the command line, as people type a question with its mark."""
    for question in ("how big is gpt2?", "what is the KV cache of gpt2?"):
        assert tfcalc(question).stdout == tfcalc(*question.split()).stdout != ""
    asked = {
        "what is the difference between gpt2 and gpt2-xl?": "compare gpt2 gpt2-xl",
        "how much memory does an rtx 4090 have?": "gpus rtx-4090",
        "how many gpus to serve llama-3-70b for 200 users?": "serve llama-3-70b --for gpus --concurrency 200",
        "how many active parameters does deepseek v3 have?": "explain moe deepseek-v3",
        "how many layers should a 1B model have?": "design 1B",
    }
    assert all(tfcalc(question).stdout == tfcalc(*line.split()).stdout != "" for question, line in asked.items())
    assert "file 'two words.json' does not exist" in tfcalc("two words.json").stderr


def test_gpus_at_a_glance_have_the_verdicts_of_each_with_its_share(tfcalc: Program) -> None:
    """Those of ``memory --gpu``, and its bytes; weights and states in bf16 are 8 bytes a parameter over 8 GPUs."""
    found = json.loads(tfcalc("llama-3-8b", "--gpu", "8xh100", "--json").stdout)
    assert (found["gpu"], set(found["verdicts"].values())) == ("8xh100", {"fits"})
    assert found["finetune_full_bytes"] > 8_030_261_248
    for key, words in (("serving", ["--serve"]), ("finetune_qlora", ["--train", "--qlora", "--fsdp"])):
        alone = json.loads(tfcalc("memory", "llama-3-8b", *words, "--gpus", "8", "--json").stdout)
        assert found[f"{key}_bytes"] == alone["total_bytes"]
    small = json.loads(tfcalc("llama-3-8b", "--gpu", "2xrtx-4090", "--json").stdout)
    assert small["verdicts"]["finetune_full"] == "no"  # 8 bytes of 8.03B parameters over 2 are 30 GiB of 23
    assert tfcalc("memory", "llama-3-8b", "--train", "--fsdp", "--gpu", "2xrtx-4090").returncode == 1


@pytest.mark.parametrize(
    ("length", "tokens"),
    [
        ("--max-steps 10 --batch 2 --grad-accum 3", 10 * 2 * 3 * 512),
        ("--max-steps 10 --gpu 4xt4", 10 * 4 * 512),
        ("--samples 100", 100 * 512),
        ("--samples 100 --epochs 3 --batch 4", 3 * 100 * 512),
        ("--samples 100 --dpo", 2 * 100 * 512),  # both of a pair
    ],
)
def test_a_run_is_as_long_as_its_steps_or_samples(tfcalc: Program, length: str, tokens: int) -> None:
    words = ["train", "gpt2", "--seq", "512", *("" if "--gpu" in length else "--gpu t4").split()]
    found = tfcalc(*words, *length.split(), "--json")
    assert json.loads(found.stdout)["training_tokens"] == tokens


METHODS = {"finetune_full": (), "finetune_lora": ("--lora",), "finetune_qlora": ("--qlora",)}


def test_two_models_on_a_card_have_the_verdicts_of_each(tfcalc: Program) -> None:
    """Those of ``memory --gpu``: exit 0 where it fits."""
    models = {"gpt2-xl": "t4", "llama-3-8b": "t4"}
    found = json.loads(tfcalc("gpt2-xl", "vs", "llama-3-8b", "--gpu", "t4", "--json").stdout)
    assert found["command"] == "compare"
    for name, column in zip(models, found["models"], strict=True):
        for method, words in METHODS.items():
            alone = tfcalc("memory", name, "--train", *words, "--gpu", models[name])
            assert (column[f"{method}_verdict"] in ("fits", "tight")) == (alone.returncode == 0), (name, method)
        assert (column["serving_verdict"] in ("fits", "tight")) == (
            tfcalc("fit", name, "--serve", "--gpu", "t4").returncode == 0
        )
    planned = json.loads(tfcalc("compare", "gpt2", "llama-3-8b", "--train", "--fsdp", "--gpu", "2xt4", "--json").stdout)
    assert [each["training_verdict"] for each in planned["models"]] == ["fits", "no"]
    assert not any("serving_verdict" in each for each in planned["models"])
    for name, column in zip(("gpt2", "llama-3-8b"), planned["models"], strict=True):
        alone = json.loads(
            tfcalc(
                "memory", name, "--train", "--fsdp", "--gpu", "2xt4", "--json", "--seq", f"{column['seq_len']}"
            ).stdout
        )
        assert column["training_peak_bytes"] == alone["peak_bytes"]


def test_a_step_time_is_the_rate_of_its_tokens(tfcalc: Program) -> None:
    """480 sequences of 1,024 tokens in 2 s are 480 x 1,024 / 2 = 245,760 tokens per second."""
    words = ("flops", "gpt2", "--mfu", "--gpu", "h100", "--batch", "480", "--seq", "1k")
    step, rate = tfcalc(*words, "--step-time", "2"), tfcalc(*words, "--tokens-per-second", "245760")
    assert (step.returncode, step.stdout) == (0, rate.stdout)
    assert "x 245,760 tokens/s" in step.stdout


def test_a_card_behind_a_model_is_its_gpu(tfcalc: Program) -> None:
    assert tfcalc("gpt2", "h100").stdout == tfcalc("gpt2", "--gpu", "h100").stdout
    assert "'h1000' is not known" in tfcalc("gpt2", "h1000").stderr


def test_8_gpus_alone_do_not_share_a_model(tfcalc: Program) -> None:
    """74.9 GiB of 78.6, and what the allocator cannot use is still to come: a verdict, and what would fit."""
    found = tfcalc(*["memory", "llama-3-8b", "--train", "--gpu", "8xh100"], env={"COLUMNS": "80"})
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout.startswith("MAY NOT FIT: needs 74.9 GiB per GPU")
    assert len(found.stdout.splitlines()) <= 20


@pytest.mark.parametrize("line", ANSWERED)
def test_a_first_guess_is_answered_with_the_right_word(tfcalc: Program, line: str) -> None:
    found = tfcalc(*line.split())
    assert (found.returncode in (2, 3), found.stdout) == (True, "")
    assert len(found.stderr.splitlines()) == 1
    assert ANSWERED[line] in found.stderr


def test_llama3_is_no_llama_30b(tfcalc: Program) -> None:
    assert "llama-30b" not in tfcalc("params", "llama3").stderr


PARTS = {
    "attn": "4h² + 4h",
    "multi-head-attention": "4h² + 4h",
    "self_attention": "4h² + 4h",
    "feed-forward": "8h² + 5h",
    "MLP": "8h² + 5h",
    "LayerNorm": "2h",
    "EncoderLayer": "12h² + 13h",
    "block": "12h² + 13h",
    "lm_head": "Vh",
    "embeddings": "Vh",
    "model": "n(28h² + 32h) + (4 + 2V)h",
}
"""What texts and PyTorch call the parts: those forms that tests/oracle/textbook.json has."""


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_known_by_the_names_of_texts(tfcalc: Program, part: str) -> None:
    assert tfcalc("formula", part, "-q").stdout.strip() == PARTS[part]


def test_a_path_comes_before_what_others_call_it(tfcalc: Program) -> None:
    """LlamaForCausalLM has a part named model: all but the head, 8,030,261,248 - 128,256 · 4,096."""
    assert tfcalc("explain", "model", "llama-3-8b", "-q").stdout.strip() == "7504924672"


def test_conditions_know_these_names_too(tfcalc: Program) -> None:
    assert tfcalc("solve", "mlp = attn", "--of", "flops", "--for", "seq", "-q").stdout.strip() == "342"


HINTS = {
    "explain W_O": "it is a row of tfcalc explain attention",
    "explain heads": "all heads together are attention",
    "explain embedding": "--vocab-size 32000",
    "params no/such/folder/": "does not exist",
    "formula ffn --of quantities": "--of 'quantities' is not known",
    "formula mha --of time --batch 8": "--batch 8 has no effect on growth; --with-batch keeps b in it",
    "explain mha --of time --batch 8": "--batch 8 has no effect on growth; --with-batch keeps b in it",
}


@pytest.mark.parametrize("line", HINTS)
def test_what_is_no_part_is_answered_with_where_it_is(tfcalc: Program, line: str) -> None:
    found = tfcalc(*line.split())
    assert (found.returncode in (2, 3), found.stdout, found.stderr.count("\n")) == (True, "", 1)
    assert HINTS[line] in found.stderr


OPENED = {
    # 2 x 8 heads x 128 x 2 bytes x 32 layers = 131,072 bytes of a token, times 8,192
    "KV cache|llama-3-8b": 1_073_741_824,
    "kv_cache|llama-3-8b|--cache|dynamic|--context|1k": 134_217_728,
    "cache|llama-3-8b": 1_073_741_824,
    "gradients|llama-3-8b": 2 * 8_030_261_248,
    "weights|gpt2": 2 * 124_439_808 * 2,  # in fp32
    "Adam|gpt2|--train|--optimizer|adamw": 8 * 124_439_808
    + 4 * 148,  # two moments, and the step of each of 148 tensors
    "total|gpt2": 124_439_808,
    "feed forward|gpt2": 8 * 768**2 + 5 * 768,
    "lm head|llama-3-8b": 128_256 * 4096,
    "parameters|gpt2": 124_439_808,
}
"""Words of texts, and the number that they open; ``|`` is between arguments."""


def test_a_question_opens_the_number_of_its_model(tfcalc: Program) -> None:
    """GPT-2: 12 layers of 2 x 768 in 2 bytes; Llama 3.1 70B: 80 of 2 x 8 heads of 128, in 2 bytes."""
    lines = {
        "why is the kv cache of gpt2 so large": 12 * 2 * 768 * 2 * 1024,
        "kv-cache llama-3.1-70b 128k": 80 * 2 * 8 * 128 * 2 * 131_072,
        "kv llama-3.1-70b --tokens 4k": 80 * 2 * 8 * 128 * 2 * 4096,
        "what is the kv cache of gpt2": 12 * 2 * 768 * 2 * 1024,
    }
    for line, value in lines.items():
        found = tfcalc(*line.split(), "-q")
        assert (found.stdout.strip(), found.stderr) == (f"{value}", ""), line
    assert "names 2 models" in tfcalc("explain", "is the kv cache of gpt2 that of gpt2-xl").stderr


SENTENCES = {
    "There are 2,362,368 trainable parameters at each attention layer, how?": "4 x 768² + 4 x 768 = 2,362,368",
    "2,362,368 parameters in one self-attention layer": "4 x 768² + 4 x 768 = 2,362,368",
    "where are the 175 billion parameters of gpt-3": "175 billion is 174,604,259,328 parameters",
    "is the embedding counted twice": "weight tying",
    "do heads change flops": "multi-head attention",
    "why is MLA's cache small": "MLA: ",
    "should mfu take tensor parallelism into account": "however these are split over them",
    "how many experts are active per token": "MoE",
    "MACs or FLOPs": "MACs",
    "how is 31.25 GB of logits made": "logits",
    "why does training run out of memory": "training memory",
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_question_is_about_its_concept_or_its_number(tfcalc: Program, sentence: str) -> None:
    found = tfcalc("explain", sentence)
    assert (found.returncode, found.stderr) == (0, "")
    assert SENTENCES[sentence] in " ".join(found.stdout.split())


def test_paths_of_hybrids_are_broken_within_80_columns(tfcalc: Program) -> None:
    found = tfcalc("explain", "active parameters", "qwen3.5-35b-a3b", env={"COLUMNS": "80"}).stdout
    assert [line for line in found.splitlines() if len(line) > 80] == []
    assert "layers[0-2,4-6,8-10,\n  12-14" in found


def test_explain_opens_what_texts_call_so(tfcalc: Program) -> None:
    for line, value in OPENED.items():
        found = tfcalc("explain", *line.split("|"), "-q")
        assert (found.stdout.strip(), found.stderr) == (f"{value}", ""), line
    peak, train = tfcalc("explain", "peak", "gpt2", "--train", "-q"), tfcalc("memory", "gpt2", "--train", "-q")
    assert peak.stdout == train.stdout
    assert "add --train or --serve" in tfcalc("explain", "peak", "gpt2").stderr


def test_explain_opens_numbers_and_formulas_by_the_commands_for_these(tfcalc: Program) -> None:
    """8,030,261,248 parameters are Llama 3's; 4h² + 4h are of attention; 12h² of a layer is no count with biases."""
    assert tfcalc("explain", "8030261248", "llama-3-8b").stdout == tfcalc("why", "8030261248", "llama-3-8b").stdout
    assert tfcalc("explain", "4h²+4h").stdout.startswith("yes: 4h² + 4h")
    assert "compared with mha" in tfcalc("explain", "4h²+4h").stdout
    assert tfcalc("explain", "12*h^2*n", "gpt2").returncode == 1
    assert "h² is W_O" in tfcalc("explain", "3h²").stdout  # W_Q, W_K and W_V: all of attention but this and biases
    assert "compared with mha" in tfcalc("explain", "3h²").stdout
    assert "compared with complete" in tfcalc("explain", "7h³").stdout


def test_a_number_of_a_run_is_one_of_training_and_one_with_a_unit_is_not(tfcalc: Program) -> None:
    """GPT-2 by hand, of D tokens: 6·12·n·h²·D of layers, 12·n·l·h·D of attention, 6·V·h·D of the head: 8.54e17."""
    n, h, l, words, tokens = 12, 768, 1024, 50_257, 10**9
    by_hand = (72 * n * h * h + 12 * n * l * h + 6 * words * h) * tokens
    assert f"{by_hand:.2e}" == "8.54e+17"
    for more in ((), ("--of", "flops")):
        assert tfcalc("check", "complete", "8.54e17", "gpt2", "--tokens", "1B", *more).returncode == 0
    forward = by_hand // 3 // 10**9 * 1024
    assert f"{forward:.2e}" == "2.92e+11"
    assert tfcalc("check", "complete", "2.92e11FLOPs", "gpt2").returncode == 0
    assert "291,648,307,200" in tfcalc("check", "complete", "6.71e10FLOPs", "gpt2").stdout


def test_what_is_on_the_host_can_be_opened(tfcalc: Program) -> None:
    """FSDP over 8 GPUs: an eighth of the weights and gradients of 2 bytes each, and of two moments, are offloaded."""
    words = ["llama-3-8b", "--train", "--fsdp", "--gpus", "8", "--offload", "all"]
    assert "tfcalc explain host_bytes" in tfcalc("explain", "gradients", *words).stderr
    found = json.loads(tfcalc("explain", "host_bytes", *words, "--json").stdout)
    assert [one["value"] for one in found["terms"]][:2] == [2_007_565_312, 2_007_565_312]  # 2 · 8,030,261,248/8
    answer = json.loads(tfcalc("memory", *words, "--json").stdout)
    assert (answer["weights_bytes"], answer["gradients_bytes"]) == (0, 0)  # in one place, once


@pytest.mark.parametrize(("word", "meant"), [("parameters", "8h² + 5h"), ("FLOP", "16lbh²"), ("complexity", "O(lh²)")])
def test_a_quantity_is_known_by_other_words(tfcalc: Program, word: str, meant: str) -> None:
    assert tfcalc("formula", "ffn", "--of", word, "-q").stdout.strip() == meant


@pytest.mark.parametrize("command", ["params", "memory", "explain", "solve", "plot", "sweep", "design"])
def test_help_fits_80_columns(tfcalc: Program, command: str) -> None:
    found = tfcalc(command, "--help", "all", env={"COLUMNS": "80"})
    assert found.returncode == 0
    assert [line for line in found.stdout.splitlines() if len(line) > 80] == []


def test_help_breaks_no_word_at_its_hyphen(tfcalc: Program) -> None:
    assert "paged-adamw-8bit-trainer" in tfcalc("memory", "-h", "training", env={"COLUMNS": "80"}).stdout


def test_a_number_without_a_model_is_answered_with_how_to_name_one(tfcalc: Program) -> None:
    """124M is GPT-2, and nothing of the Transformer of 2017."""
    assert tfcalc("why", "124M").stdout.startswith("124M is 124,439,808 parameters: parameters of gpt2\n")
    assert "No model was named: tfcalc why 999T gpt2" in tfcalc("why", "999T").stdout
    assert "No model was named" not in tfcalc("why", "117M", "gpt2").stdout


def test_presets_are_found_by_a_word(tfcalc: Program) -> None:
    found = tfcalc("models", "ALBERT", "-q").stdout.split()
    assert found == ["albert-base-v2", "albert-large-v2", "albert-xlarge-v2", "albert-xxlarge-v2"]
    assert tfcalc("models", "bert base", "-q").stdout.split()[0] == "albert-base-v2"
    refused = tfcalc("models", "lamma-3")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no preset has 'lamma-3' in its name; did you mean" in refused.stderr
    assert tfcalc("models", "llama", "--supported").returncode == 2


NEAR = {
    "explain 3h²+4h": "h² is W_O",
    "explain 8h²+4h": "h is b_2",  # of 8h² + 5h
    "explain 12h^2": "13h is the biases and norms",
    "explain 24lbh² --of flops": "4l²bh is the attention scores",  # of 24lbh² + 4l²bh
    "check complete 12879925248 mixtral-8x7b": "a token uses (active)",  # tests/oracle: mixtral's active parameters
    # 2 + 32 layers × 9 tensors, and a head: 291, each with a counter of 4 bytes
    "check optimizer 64242089984 llama-3-8b --train --precision bf16-master": "1,164 is the step counters",
}


@pytest.mark.parametrize("line", NEAR)
def test_what_is_nearly_right_is_told_what_it_lacks(tfcalc: Program, line: str) -> None:
    found = tfcalc(*line.split(), "-q")
    assert (found.returncode, found.stderr) == (1, "")
    assert NEAR[line] in found.stdout


def test_a_cache_may_be_counted_token_by_token_and_lora_by_what_it_trains(tfcalc: Program) -> None:
    """4nbgdc of the course (section 11); rank 8 beside W_Q and W_V: 32 layers × 8 × (4,096 + 4,096 + 4,096 + 1,024)."""
    cache = tfcalc("check", "cache", "4nbgdc", "llama-3-8b", "--serve")
    assert (cache.returncode, cache.stdout.splitlines()[0]) == (0, "yes: 4n·c·b·g·d")
    assert "in whole blocks, as vLLM stores it" in cache.stdout
    wrong = tfcalc("check", "cache", "4nbgc", "llama-3-8b", "--serve")
    assert (wrong.returncode, wrong.stdout[:3]) == (1, "no:")
    words = ("llama-3-8b", "--lora", "8", "--lora-targets", "q_proj,v_proj", "-q")
    assert tfcalc("check", "complete", f"{32 * 8 * (3 * 4096 + 1024)}", *words).stdout.startswith("yes: 3,407,872")


def test_sizes_alone_are_a_model(tfcalc: Program) -> None:
    """As the help says; torch.nn.Transformer() has 44,140,544 parameters."""
    assert tfcalc("--d-model", "512", "--layers", "6").stdout.startswith("44.1M parameters (44,140,544)")
    assert tfcalc("--d-model", "512", "--train").stdout == tfcalc("memory", "--d-model", "512", "--train").stdout
    assert tfcalc("--bogus", "512").returncode == 2


def test_a_files_name_says_its_format(tfcalc: Program, tmp_path: Path) -> None:
    for suffix, form in {"json": "json", "csv": "csv", "tex": "latex", "txt": "table"}.items():
        place = tmp_path / f"answer.{suffix}"
        assert tfcalc("params", "gpt2", "-o", str(place)).returncode == 0
        explicit = tmp_path / "explicit"
        assert tfcalc("params", "gpt2", "--format", form, "-o", str(explicit)).returncode == 0
        assert place.read_text() == explicit.read_text()
    typed = tmp_path / "typed.json"
    assert tfcalc("params", "gpt2", "--format", "csv", "-o", str(typed)).returncode == 0
    assert typed.read_text().startswith("component,")
    refused = tfcalc("params", "gpt2", "-o", str(tmp_path / "answer.pdf"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "end it in .csv, .html, .json" in refused.stderr
    assert not (tmp_path / "answer.pdf").exists()
