"""Questions in words: what they say is used, or refused with the line to type. Nothing that they say is dropped."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.conftest import Program

LLAMA_8B, LLAMA_70B = 2 * 32 * 8 * 128, 2 * 80 * 8 * 128
"""Numbers that a token has in the cache: keys and values of each layer's KV heads of 128, by the published configs."""
PARAMS_70B = 70_553_706_496
VALUES = {
    "kv cache of qwen2.5 7b at 32k": 2 * 28 * 4 * 128 * 2 * 32_768,
    "kv cache size of llama 3.1 70b at 128k": LLAMA_70B * 2 * 131_072,
    "how big is the kv cache of llama 3.1 70b at 128k?": LLAMA_70B * 2 * 131_072,
    "kv cache of llama 3.1 70b at 8k with batch 16": LLAMA_70B * 2 * 8192 * 16,
    "kv cache of llama 3.1 70b, 8 users, 16k context": LLAMA_70B * 2 * 16_384 * 8,
    "kv cache of llama 3 8b in fp8 at 8k for 8 users": LLAMA_8B * 8192 * 8,
    "how large is an fp8 kv cache of llama 3.1 8b with 2k context": LLAMA_8B * 2048,
    "kv cache per token of mistral nemo": 2 * 40 * 8 * 128 * 2,
    "kv cache per token of llama 3 8b in fp8": LLAMA_8B,
    "kv cache of llama 3.1 8b at 1M tokens": LLAMA_8B * 2 * 2**20,
    "kv gpt2 512": 2 * 12 * 768 * 2 * 512,
    "kv of gpt2 at 512 tokens": 2 * 12 * 768 * 2 * 512,
    "gradient memory of llama 3.1 70b": 2 * PARAMS_70B,
    "gradients of llama 3.1 70b in fp32": 4 * PARAMS_70B,
    "explain kv cache of llama 3.1 70b at 128k": LLAMA_70B * 2 * 131_072,
    "explain ffn llama 3 8b": 3 * 4096 * 14_336,
    "kv-cache llama-3.1-70b --kv-cache-dtype fp8": LLAMA_70B * 8192,
    "kv-cache meta-llama/Llama-3.1-70B-Instruct --max-model-len 128k --kv-cache-dtype fp8": LLAMA_70B * 131_072,
}
SAME = {
    "kv cache of mistral 7b": "explain 'KV cache' mistral-7b",
    "activation memory of llama 2 13b with batch 4": "explain activations llama-2-13b --batch 4",
    "activations of gpt2 with seq len 512 and bs=4": "explain activations gpt2 --seq 512 --batch 4",
    "activations of llama 3.1 8b at 8k": "explain activations llama-3.1-8b --seq 8k",
    "how much do the activations of gpt2 take in training with batch 4": "explain activations gpt2 --batch 4",
    "logits memory of llama 3.1 8b at 8k": "explain logits llama-3.1-8b --seq 8k",
    "optimizer memory of gpt2 with 8-bit adam": "explain 'AdamW states' gpt2 --optimizer adamw-8bit",
    "activations of gpt2, batch 2, 512, no gradient checkpointing": "explain activations gpt2 --batch 2 --seq 512 "
    "--checkpointing none",
    "inference memory of gpt2 at 512 in fp8": "memory gpt2 --serve --context 512 --weights fp8",
    "how much memory do the weights of llama 3.1 70b take in fp8": "memory llama-3.1-70b --weights fp8",
    "how many tokens should I train a 1b model on": "design --compute 1.2e20",
    "how many tokens to train llama 3 8b on": "explain 'tokens per parameter' llama-3-8b",
    "can I run llama 3 70b on 2 3090s": "fit llama-3-70b --serve --gpu 2x3090",
    "will llama 3 70b fit on a 24 GB card in int4": "memory llama-3-70b --serve --gpu 24GB --weights int4",
    "how many h100s for llama 3.1 405b": "serve llama-3.1-405b --for gpus --gpu h100",
    "how many a100s to fine-tune gpt2": "fit gpt2 --gpu a100",
    "what gpu do I need for gpt2 in int4": "fit gpt2 --serve --weights int4",
    "what batch size fits on a 4090 for lora of gpt2": "memory gpt2 --train --lora --gpu 4090",
    "largest batch for qlora of gpt2 on a 3090 at 512": "memory gpt2 --train --qlora --gpu 3090 --seq 512",
    "qlora of gpt2 with rank 64 and batch 4 on a t4": "fit gpt2 --qlora 64 --batch 4 --gpu t4",
    "ttft for 32k prompt on llama 3.1 8b h100": "serve llama-3.1-8b --gpu h100 --input 32k",
    "cost per 1M tokens llama 3.1 70b on 4 h100 at $2 per hour": "serve llama-3.1-70b --gpu 4xh100 --price 2",
    "vram for qwen2.5 32b": "memory qwen2.5-32b",
    "flops of llama 2 7b": "flops llama-2-7b",
    "decode flops of llama 3 8b at 32k": "flops llama-3-8b --phase decode --cached 32k",
    "MFU of gpt2 on 8 a100s at 25k tokens per second": "flops gpt2 --train --mfu --gpu 8xa100 --tokens-per-second 25k",
    "llama 3 70b on 2x3090": "llama-3-70b --gpu 2x3090",
    "gpt2 vs gpt2-xl on an a100": "compare gpt2 gpt2-xl --gpu a100",
    "compare llama 3 8b and qwen2.5 7b": "compare llama-3-8b qwen2.5-7b",
    "cost to train gpt2 on 10B tokens on 8 h100": "train gpt2 --tokens 10B --gpu 8xh100",
    "gpu hours for gpt2 on 10B tokens on a t4": "train gpt2 --tokens 10B --gpu t4",
    "how long to train gpt2 on 1B tokens with 8 t4 at 40% mfu": "train gpt2 --tokens 1B --gpu 8xt4 --mfu 40%",
    "serve gpt2 h100": "serve gpt2 --gpu h100",
    "gpt2 in q4 at 1k": "gpt2 --weights q4_k_m --context 1k",
    "how long is prefill of 4k tokens for llama 3.1 8b on an l40s": "serve llama-3.1-8b --gpu l40s --input 4k",
    "attention flops of gpt2 at 512": "explain attention --of flops gpt2 --seq 512",
    "parameters in a gpt2 mlp": "explain ffn gpt2",
    "lora of gpt2 for 3 epochs on 10k samples on t4": "train gpt2 --lora --epochs 3 --samples 10k --gpu t4",
    "price per million tokens of gpt2 on l4 at $0.7/h": "serve gpt2 --gpu l4 --price 0.7",
    "kv cache of gpt2 in int8 at 512 on a t4": "memory gpt2 --serve --kv int8 --context 512 --gpu t4",
    "memory of gpt2 with the kv cache in fp8 and weights in int4 at 512": "memory gpt2 --kv fp8 --weights int4 "
    "--context 512",
    "train time for gpt2 on 1B tokens with 4x t4": "train gpt2 --tokens 1B --gpu 4xt4",
    "activations of gpt2 at 512 without flash attention": "explain activations gpt2 --seq 512 --attention-kernel eager",
    "chinchilla optimal for a 400M model": "design --compute 1.92e19",
    "what is the ridge point of an a100": "explain roofline --gpu a100",
    "vram of a 4090": "gpus rtx-4090",
    "explain fp8 llama-3-8b": "explain quantization llama-3-8b --weights fp8",
}
REFUSED = {
    "how many gpu hours to pretrain a 7b on 2T tokens on h100": "tfcalc train llama-2-7b --gpu h100 --tokens 2T",
    "how much vram for grpo of a 7b": "type tfcalc fit llama-2-7b --method grpo",
    "kv cache of foobar 7b at 32k": "model 'foobar-7b' is not known",
    "kv cache of llama 3 8b and qwen2.5 7b at 32k": "the question names 2 models",
    "kv cache of qwen at 32k": "'qwen' is ambiguous",
    "macs of bert base at 512": "'bert-base' is ambiguous",
    "kv cache at 32k on h100": "name one: tfcalc llama-3-8b --gpu h100",
    "kv cache of gpt2 at 512 and 1k": "'1k' in the question is not understood; type tfcalc explain 'KV cache' gpt2",
    "how fast is gpt2 on an h100 or an a100": "the question names 2 cards",
    "kv cache per token of llama 3 8b at 8k": "type tfcalc explain 'KV cache per token' llama-3-8b,",
    "params of gpt2 in fp8": "type tfcalc params gpt2, which leaves it out",
    "gpu for training": "names no model that is known",
    "MFU of gpt2 on 8 a100s": "add --tokens-per-second",
}


@pytest.mark.parametrize("question", VALUES)
def test_what_is_said_is_in_the_number(tfcalc: Program, question: str) -> None:
    found = tfcalc(*question.split(), "-q")
    assert (found.returncode, found.stdout, found.stderr) == (0, f"{VALUES[question]}\n", "")


@pytest.mark.parametrize("question", SAME)
def test_a_question_is_a_command(tfcalc: Program, question: str) -> None:
    found, wanted = tfcalc(question), tfcalc(*shlex.split(SAME[question]))
    assert (found.returncode, found.stdout, found.stderr) == (wanted.returncode, wanted.stdout, "")
    assert found.stdout


@pytest.mark.parametrize("question", REFUSED)
def test_what_is_not_understood_is_refused_with_what_to_type(tfcalc: Program, question: str) -> None:
    """Each line to type works."""
    found = tfcalc(question)
    assert (found.returncode in (2, 3), found.stdout, found.stderr.count("\n")) == (True, "", 1)
    assert REFUSED[question] in found.stderr
    for line in re.findall(r"(?:type|name one:|tfcalc compare) ?(tfcalc [^;,\n]+)", found.stderr):
        assert tfcalc(*shlex.split(line)[1:]).returncode in (0, 1), line


def test_the_best_size_of_a_training_has_twenty_tokens_a_parameter(tfcalc: Program) -> None:
    """6 · 1e9 · 20e9 FLOPs (arXiv 2203.15556)."""
    found = json.loads(tfcalc("how many tokens should I train a 1b model on", "--json").stdout)
    assert found["compute_flops"] == 6 * 10**9 * 20 * 10**9


def test_a_long_run_says_what_ends_it_sooner(tfcalc: Program) -> None:
    """6 · 6.7e9 · 2e12 FLOPs at 312e12 a second are 3,000 days: 128 cards would take a month at the peak."""
    slow = tfcalc("how much does it cost to pretrain llama 2 7b on 2T tokens with a100").stdout
    assert "--gpu 128xA100-SXM-40 --fsdp (as many share it)" in " ".join(slow.split())
    assert "--mfu 35% --price 2.50 (hours and money at that share of the peak)" in " ".join(slow.split())
    asked = "how long does it take to train gpt2 124M on 10B tokens on 8xA100"
    single = tfcalc(asked).stdout
    assert "--precision bf16-mixed" in single
    assert "--batch N" in single
    assert "--batch N" not in tfcalc(f"{asked} with batch 8").stdout
