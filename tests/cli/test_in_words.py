"""Questions in words: what they say is used, or refused with the line to type. Nothing that they say is dropped."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import Program
from tfcalc.catalog import preset
from tfcalc.cli import in_words, main
from tfcalc.cli.grammar import TABLE

LLAMA_8B, LLAMA_70B = 2 * 32 * 8 * 128, 2 * 80 * 8 * 128
"""Numbers that a token has in the cache: keys and values of each layer's KV heads of 128, by the published configs."""
PARAMS_70B, PARAMS_7B = 70_553_706_496, 6_738_415_616
ACTIVE_MIXTRAL = 12_879_925_248
"""Of a token, by tests/oracle."""
VALUES = {
    "kv cache of qwen2.5 7b at 32k": 2 * 28 * 4 * 128 * 2 * 32_768,
    "kv cache size of llama 3.1 70b at 128k": LLAMA_70B * 2 * 131_072,
    "how many bytes does one token of llama 3.1 70b take in the kv cache": LLAMA_70B * 2,
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
    "6nd for llama 2 7b with 2T tokens": 6 * PARAMS_7B * 2 * 10**12,
    "how many flops is 6ND for llama 2 7b on 300 billion tokens": 6 * PARAMS_7B * 3 * 10**11,
    "6nd llama-2-7b --tokens 2T": 6 * PARAMS_7B * 2 * 10**12,
    "how many parameters of mixtral 8x7b are active per token": ACTIVE_MIXTRAL,
    "params --active mixtral-8x7b": ACTIVE_MIXTRAL,
    "params mixtral-8x7b --active-only": ACTIVE_MIXTRAL,
    "how many parameters does lora rank 16 add to llama 3 8b": 41_943_040,  # as peft prints with all-linear
    "chinchilla llama-2-7b": 20 * PARAMS_7B,
    "context-length llama-3.1-8b": 131_072,
    "when does attention cost more than the ffn in llama 3 8b": (3 * 14_336 - 2 * 4096 - 2 * 1024) // 2,  # tokens
    "from which length on is attention more expensive than the mlp in llama 3 8b": (3 * 14_336 - 2 * 4096 - 2048) // 2,
    "is attention or the mlp more expensive in gpt2": 2 * 768,  # l = 2h
    "when does attention dominate the flops of gpt2": 2 * 768,
    "how much memory does one more user cost with llama 3 8b at 8k": LLAMA_8B * 2 * 8192,
    "parameters of the feed forward network for d_model 1024 and d_ff 4096": 2 * 1024 * 4096 + 1024 + 4096,
    "flops of an ffn with d_model 64 and d_ff 256 at 16 tokens": 2 * 2 * 16 * 64 * 256,
    "flops of one layer of llama 3 8b backward": 3 * 2_061_584_302_080,  # three times the forward pass: all is trained
    "why does deepseek v3 have a small kv cache": 61 * (512 + 64) * 2 * 8192,
    "how big is a lora adapter of rank 16 for llama-3-8b": 41_943_040,
    "what does it cost to serve llama 3 8b per month on 2 l4 at 2/h": f"{2 * 2 * 730:,}.0",
    "kv-cache llama-3.1-70b --kv-cache-dtype fp8": LLAMA_70B * 8192,
    "kv-cache meta-llama/Llama-3.1-70B-Instruct --max-model-len 128k --kv-cache-dtype fp8": LLAMA_70B * 131_072,
}
SAME = {
    "why does fsdp2 of gpt2 peak 10 GB over fsdp1": "explain fsdp gpt2",
    "kv cache of mistral 7b": "explain 'KV cache' mistral-7b",
    "activation memory of llama 2 13b with batch 4": "explain activations llama-2-13b --batch 4",
    "activations of gpt2 with seq len 512 and bs=4": "explain activations gpt2 --seq 512 --batch 4",
    "activations of llama 3.1 8b at 8k": "explain activations llama-3.1-8b --seq 8k",
    "how much do the activations of gpt2 take in training with batch 4": "explain activations gpt2 --batch 4",
    "logits memory of llama 3.1 8b at 8k": "explain logits llama-3.1-8b --seq 8k",
    "optimizer memory of gpt2 with 8-bit adam": "explain 'optimizer states' gpt2 --optimizer adamw-8bit",
    "activations of gpt2, batch 2, 512, no gradient checkpointing": "explain activations gpt2 --batch 2 --seq 512 "
    "--checkpointing none",
    "inference memory of gpt2 at 512 in fp8": "memory gpt2 --serve --context 512 --weights fp8",
    "how much memory do the weights of llama 3.1 70b take in fp8": "memory llama-3.1-70b --weights fp8",
    "how many tokens should I train a 1b model on": "design --compute 1.2e20",
    "how many tokens to train llama 3 8b on": "explain 'tokens per parameter' llama-3-8b",
    "can I run llama 3 70b on 2 3090s": "fit llama-3-70b --serve --gpu 2x3090",
    "will llama 3 8b fit on an RTX 4090 with 24 GB": "llama-3-8b --gpu rtx-4090-24gb",
    "will llama 3 8b fit on an A100 with 80 GB": "llama-3-8b --gpu a100-80gb",
    "will llama 3 8b fit on an RTX 4090 or a 16 GB card": "fit llama-3-8b --serve --gpu rtx-4090,16gb",
    "will llama 3 70b fit on a 24 GB card in int4": "memory llama-3-70b --serve --gpu 24GB --weights int4",
    "how many h100s for llama 3.1 405b": "serve llama-3.1-405b --for gpus --gpu h100",
    "how many users can an h100 serve gpt2-xl within 50ms": "serve gpt2-xl --gpu h100 --slo tpot=50ms",
    "how many users of gpt2-xl on an l4 at 50 ms a token and 500 ms to the first": (
        "serve gpt2-xl --gpu l4 --slo tpot=50ms,ttft=500ms"
    ),
    "can 64 users use gpt2-xl on an l4 with ttft under 300 milliseconds": (
        "serve gpt2-xl --gpu l4 --concurrency 64 --slo ttft=300ms"
    ),
    "gpus for 100 users of gpt2-xl within 20 msec per token": (
        "serve gpt2-xl --for gpus --concurrency 100 --slo tpot=20ms"
    ),
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
    "how many flops to train a 7b on 2T tokens": "design 7b --tokens 2T",
    "6nd 7b 2T": "design 7b --tokens 2T",
    "flops of gpt2 on 10 billion tokens": "flops gpt2 --train --tokens 10B",
    "what hidden size for 350M params with 24 layers": "design 350M --layers 24",
    "how many parameters in a 12 layer 768 hidden decoder": "explain 'parameter count' --layers 12 --d-model 768 "
    "--kind decoder",
    "how many gpu hours for gpt2 on 10B tokens": "train gpt2 --tokens 10B",
    "how long a context can I run with gpt2 on a t4": "memory gpt2 --serve --gpu t4",
    "largest batch for serving gpt2 on a t4 with 512 context": "memory gpt2 --serve --gpu t4 --context 512",
    "how many experts does mixtral 8x7b have": "overview mixtral-8x7b",
    "gpus needed for gpt2": "serve gpt2 --for gpus",
    "how many gpus of 80gb for gpt2-xl": "memory gpt2-xl --serve --gpu 80gb",
    "how much memory for kv cache with 64 concurrent requests at 512 for gpt2": "explain 'KV cache' gpt2 "
    "--concurrency 64 --context 512",
    "cost of one epoch on 10k samples of 512 tokens for gpt2 on a t4": "train gpt2 --samples 10k --seq 512 --gpu t4",
    "context limit of gpt2 on a t4": "memory gpt2 --serve --gpu t4",
    "number of layers in gpt2": "explain overview.facts.layers gpt2",
    "vocab size of gpt2": "explain overview.facts.vocab_size gpt2",
    "does 8 bit adam help for gpt2 on a t4": "fit gpt2 --optimizer adamw-8bit --gpu t4",
    "adapter size of lora rank 32 for gpt2": "params gpt2 --lora 32",
    "parameters of lora r=8 on q_proj and v_proj of llama 2 7b": "params llama-2-7b --lora 8 "
    "--lora-targets q_proj,v_proj",
    "6ND for a 13b on 1T tokens": "design 13b --tokens 1T",
    "chinchilla loss of 7b on 2T tokens": "design 7b --tokens 2T",
    "compute optimal for 500 dollars on h100": "design --budget-usd 500 --gpu h100",
    "context limit of gpt2": "explain 'context length' gpt2",
    "chinchilla optimal size for 1T tokens": "design --compute 3e23",
    "how big a model can I train on 1e23 flops": "design --compute 1e23",
    "tok/s gpt2-xl q4 on a t4": "serve gpt2-xl --weights q4_k_m --gpu t4",
    "what's the longest prompt gpt2 can take on a t4": "memory gpt2 --serve --gpu t4",
    "number of t4 for gpt2": "serve gpt2 --for gpus --gpu t4",
    "smallest gpu for gpt2 in int4": "fit gpt2 --serve --weights int4",
    "design a 1B model for 100B tokens": "design 1B --tokens 100B",
    "cost-per-token gpt2 --gpu t4": "serve gpt2 --gpu t4",
    "attention-flops gpt2 --seq 512": "explain attention --of flops gpt2 --seq 512",
    "compute to train gpt2 on 10B tokens": "flops gpt2 --train --tokens 10B",
    "speculate 5 tokens at 60% acceptance with gpt2 on a t4": "serve gpt2 --gpu t4 --speculate 5@60%",
    "solve params=1B for layers in llama 3 8b": "solve params=1B llama-3-8b --for layers",
    "solve params = 1B for layers with d_model 2048": "solve 'params = 1B' --for layers --d-model 2048",
    "gpus for gpt2": "fit gpt2 --serve",
    "gpus gpt2": "fit gpt2 --serve",
    "gpus gpt2 --lora": "fit gpt2 --lora",
    "num-gpus gpt2 --train": "fit gpt2",
    "tokens-per-second gpt2 --gpu t4 --lora": "train gpt2 --gpu t4 --lora",
    "ctx gpt2 --gpu t4": "fit gpt2 --serve --gpu t4",
    "softmax gpt2": "explain softmax gpt2",
    "attention gpt2 --of flops": "explain attention gpt2 --of flops",
    "experts mixtral-8x7b": "explain experts mixtral-8x7b",
    "lora-params gpt2 --rank 16": "params gpt2 --lora 16",
    "finetune-cost gpt2 --tokens 10M --gpu t4": "train gpt2 --tokens 10M --gpu t4",
    "solve max-batch gpt2 --gpu t4": "memory gpt2 --train --gpu t4",
    "chinchilla 70B --tokens 1T": "design 70B --tokens 1T",
    "how fast is gpt2-xl on a t4 with gpt2 as a draft, 4 guesses and 70% acceptance": "serve gpt2-xl --gpu t4 "
    "--draft-model gpt2 --speculate 4@70%",
    "speculative decoding of gpt2-xl with 3 guessed tokens of which 80% accepted on a t4": "serve gpt2-xl --gpu t4 "
    "--speculate 3@80%",
    "speedup of speculative decoding with 4 guesses and 80% acceptance": "explain 'speculative decoding' "
    "--speculate 4@80%",
    "solve what is the largest batch of gpt2 on a t4": "memory gpt2 --train --gpu t4",
    "solve for the layers that give 1b params with d_model 2048": "design 1b --d-model 2048",
    "explain fp8 llama-3-8b": "explain quantization llama-3-8b --weights fp8",
    "how long to generate 100 tokens with gpt2 on a t4": "serve gpt2 --gpu t4 --output-tokens 100",
    "tokens per day of gpt2 on a t4": "serve gpt2 --gpu t4",
    "how many tokens fit in the kv cache of a t4 with gpt2": "memory gpt2 --serve --gpu t4",
    "zero stage 2 or zero stage 3 for gpt2 on 2 t4": "compare 'gpt2 --zero 2' 'gpt2 --zero 3' --train --gpu 2xt4",
    "which part of gpt2 has 12nh²": "check 12nh² gpt2",
    "longest line with 12 GB, a vocabulary of 32k and batch 40": "solve 'memory <= 12gb' --for seq --train --batch 40 "
    "--vocab-size 32k",
    "explain 45GiB": "why 45GiB",
    "heads gpt2": "overview gpt2",
    "with gradient checkpointing, how do I compute the gradients": "explain gradients --checkpointing full",
    "do more heads change the flops": "explain 'multi-head attention'",
    "same flops for 4 and 8 heads": "explain 'multi-head attention'",
    "calculate gpt2": "overview gpt2",
    "what is bigger in gpt2, the ffn or attention": "params gpt2",
    "what fraction of the flops of gpt2 is attention at 512": "flops gpt2 --seq 512",
    "what share of the parameters of gpt2 has attention": "params gpt2",
    "memory of gpt2 in int4 for 10 users with 512 context each": "memory gpt2 --weights int4 --concurrency 10 "
    "--context 512",
    "estimate gpt2 --train": "memory gpt2 --train",
    "derive attention gpt2": "explain attention gpt2",
    "embedding gpt2": "explain embedding gpt2",
    "layers gpt2": "overview gpt2",
    "t4": "gpus t4",
    "bandwidth t4": "gpus t4",
    "the logits take up 31.25 GB": "explain logits",
    "how much of the training memory is optimizer state for gpt2": "memory gpt2 --train",
    "is gpt2 compute bound or memory bound at batch 32 on a t4": "explain 'arithmetic intensity' gpt2 --gpu t4 "
    "--concurrency 32",
    "what batch size makes gpt2 compute bound on a t4": "explain roofline gpt2 --gpu t4",
    "how many users can a t4 serve with gpt2 at 512 context": "memory gpt2 --serve --gpu t4 --context 512",
    "fine-tune gpt2 in mixed precision on a t4": "fit gpt2 --gpu t4 --precision bf16-mixed",
    "memory to train gpt2 in fp16 mixed precision": "memory gpt2 --train --precision fp16-mixed",
    "serve gpt2 with tensor parallelism of 2 on 2 t4": "serve gpt2 --gpu 2xt4 --tp 2",
}
LINES = {
    "how much does checkpointing save for llama 3 8b": "compare 'llama-3-8b --checkpointing none' "
    "'llama-3-8b --checkpointing full' --train",
    "how much does zero 3 save for gpt2 with batch 4": "compare 'gpt2 --gpus 8' 'gpt2 --gpus 8 --zero 3' --train "
    "--batch 4",
    "how much does fsdp save for gpt2 on 2 t4": "compare gpt2 'gpt2 --fsdp' --train --gpu 2xt4",
    "how much does int4 save for gpt2": "compare gpt2 'gpt2 --weights int4' --serve",
    "what does it cost to serve llama 3 70b per month at 2/h": "explain serve.usd_per_month llama-3-70b --for gpus "
    "--price 2",
    "largest model I can fine-tune with qlora on a 24 GB card": "design --memory 21.8GiB --train --qlora",
    "biggest model for 24gb": "design --memory 21.8GiB --serve",
    "does memory double if I double the length in training gpt2": "compare 'gpt2 --seq 4k' 'gpt2 --seq 8k' --train",
    "what if I double the batch in training gpt2": "compare 'gpt2 --batch 1' 'gpt2 --batch 2' --train",
    "lora of gpt2 with zero 2 vs zero 3": "compare 'gpt2 --gpus 8 --zero 2 --lora' 'gpt2 --gpus 8 --zero 3 --lora' "
    "--train",
    "how much cheaper is qlora than lora for gpt2": "compare 'gpt2 --qlora' 'gpt2 --lora' --train",
    "fsdp vs ddp memory for gpt2 on 2 t4": "compare 'gpt2 --fsdp' 'gpt2 --zero 0' --train --gpu 2xt4",
    "full finetuning vs lora of gpt2 on a t4": "compare gpt2 'gpt2 --lora' --train --gpu t4",
    "lora rank 8 vs rank 64 for gpt2": "compare 'gpt2 --lora 8' 'gpt2 --lora 64' --train",
    "do I need nvlink for gpt2 on 2 gpus": "fit gpt2 --serve --gpus 2",
    "memory of gpt2 in fp16 vs int8": "compare 'gpt2 --weights fp16' 'gpt2 --weights int8' --serve",
    "gpt2 with the kv cache in fp8 or kv in bf16": "compare 'gpt2 --kv fp8' 'gpt2 --kv bf16' --serve",
    "how many MB are lora adapters of rank 8 for gpt2": "params gpt2 --lora 8",
    "compute optimal for 3 days on 8 h100": "design --days 3 --gpu 8xh100",
    "compute for a 7b on 2T tokens": "design 7b --tokens 2T",
    "what is compute optimal for 1e21 flops": "design --compute 1e21",
    "how many tokens are optimal for llama 3 8b": "explain 'tokens per parameter' llama-3-8b",
    "how many flops does the gpt2 mlp take on 10B tokens": "explain ffn gpt2 --of flops --train --tokens 10B",
    "flops to train gpt2": "flops gpt2 --train",
    "how many parameters does gpt2 have": "params gpt2",
    "attention flops to train gpt2": "explain attention gpt2 --of flops --train",
    "memory to train gpt2": "memory gpt2 --train",
    "memory to serve gpt2": "memory gpt2 --serve",
    "does dpo of gpt2 fit on a t4": "fit gpt2 --method dpo --gpu t4",
    "does ppo of gpt2 fit on a t4": "fit gpt2 --method ppo --gpu t4",
    "flops per token of gpt2": "flops gpt2",
    "how many flops per token does gpt2 need": "overview gpt2",
    "prefill flops of gpt2 at 512": "flops gpt2 --phase prefill --seq 512",
    "how big are activations in training gpt2 on a t4": "memory gpt2 --train --gpu t4",
    "how big is the kv cache of gpt2 for 8 users at 512 on a t4": "memory gpt2 --serve --gpu t4 --concurrency 8 "
    "--context 512",
    "gpt2 on 10B tokens on a t4": "train gpt2 --gpu t4 --tokens 10B",
    "activations of gpt2 at 512 on a t4": "memory gpt2 --train --gpu t4 --seq 512",
    "does rope help gpt2 on a t4": "overview gpt2 --gpu t4",
    "prefill of gpt2 on a t4 for 3 epochs": "train gpt2 --gpu t4 --epochs 3",
    "weights of gpt2 in fp8": "memory gpt2 --weights fp8",
    "size of gpt2": "overview gpt2",
    "flops of attention vs mlp in gpt2 at 512": "flops gpt2 --seq 512",
    "are QK^T flops counted in gpt2": "explain 'Q K^T' gpt2",
    "how much memory does a token of context cost in gpt2": "explain 'KV cache per token' gpt2",
    "parameters of gpt2 in gb": "memory gpt2",
    "how many layers can I offload to a t4 for gpt2": "memory gpt2 --serve --engine llama.cpp --gpu t4",
    "what tensor parallel size for gpt2 on t4": "serve gpt2 --for gpus --gpu t4",
    "how does sequence length affect training memory of gpt2": "sweep gpt2 --of memory --train --seq 1k,2k,4k,8k",
    "does the vocabulary slow down training of gpt2": "explain vocabulary gpt2",
    "cost to generate 1M tokens with gpt2 on t4": "serve gpt2 --for gpus --gpu t4",
    "how many a100s to train gpt2": "plan gpt2 --gpu a100",
    "what does it cost to serve gpt2 for 9 users on h100": "serve gpt2 --for gpus --gpu h100 --concurrency 9",
    "how many h20 for grpo of qwen2.5-7b": "fit qwen2.5-7b --method grpo --gpu h20",
    "can 2x3090 run llama 3.3 70b q4 with llama.cpp": (
        "memory llama-3.3-70b --serve --engine llama.cpp --gpu 2x3090 --weights q4_k_m"
    ),
    "how many h100 to train gpt2 on 1T tokens in 9 days": "train gpt2 --gpu h100 --tokens 1T --days 9",
    "how many layers and heads has gpt2": "overview gpt2",
    "how many attention heads and layers has gpt2": "overview gpt2",
    "how many kv heads does llama 3 8b have": "explain overview.facts.kv_heads llama-3-8b",
    "what is the d_model of gpt2": "explain overview.facts.hidden_size gpt2",
    "how fast is gpt2 on an h100 or an a100": "serve gpt2 --gpu h100,a100",
    "will gpt2 fit on 2 t4 or an l4": "fit gpt2 --serve --gpu 2xt4,l4",
    "h100 vs a100 for training": "gpus h100,a100",
    "peak flops of an h100": "gpus h100",
    "gqa or mha in llama 3 8b": "compare llama-3-8b 'llama-3-8b --attention mha'",
    "gqa vs mqa in llama 3 8b": "compare llama-3-8b 'llama-3-8b --attention mqa'",
    "fsdp1 or fsdp2 for gpt2": "compare 'gpt2 --gpus 8 --zero 3 --layout fsdp1' 'gpt2 --gpus 8 --fsdp' --train",
    "does fsdp of gpt2 fit on a t4": "memory gpt2 --train --fsdp --gpu t4 --gpus 8",
    "explain gpt2 and gpt2-xl": "explain gpt2 and gpt2-xl",
    "explain the shape and the depth of gpt2": "explain the shape and the depth of gpt2",
}
"""Questions by the command line that each of them is."""
REFUSED = {
    "kv cache of foobar 7b at 32k": "model 'foobar-7b' is not known",
    "kv cache of llama 3 8b and qwen2.5 7b at 32k": "the question names 2 models",
    "kv cache of qwen at 32k": "'qwen' is ambiguous",
    "macs of bert base at 512": "'bert-base' is ambiguous: bert-base-cased, bert-base-chinese, bert-base-uncased, "
    "bert-base-multilingual-cased; type tfcalc flops bert-base-cased --seq 512, for one; ",
    "kv cache at 32k on h100": "name one: tfcalc llama-3-8b --gpu h100",
    "kv cache of gpt2 at 512 and 1k": "'1k' in the question is not understood; type tfcalc explain 'KV cache' gpt2",
    "mfu of gpt2 at 9000 tokens/s on an h100 or an a100": "flops is of one card, and the question names 2; "
    "type tfcalc flops gpt2 --train --mfu --gpu h100 --tokens-per-second 9000, then with --gpu a100",
    "an h100 has 2000 TFLOPS and a 4090 330": "type tfcalc gpus h100,4090, which leaves it out",
    "how much vram does flux need": "the question names no model; tfcalc models lists",
    "how many flops does gpt2 need to process 1M tokens": "are counted for each token; type tfcalc gpt2, ",
    "finetune gpt2 in mixed precision and in bf16 on a t4": "'bf16' in the question is not understood; type tfcalc "
    "fit gpt2 --precision bf16-mixed --gpu t4, which leaves it out",
    "420/1979, that is very small, why is that": "type tfcalc explain 'peak FLOP/s', which leaves it out",
    "how long to train gpt2 on 1B tokens with a batch of 4M tokens": "'4M' in the question is not understood; "
    "type tfcalc train gpt2 --tokens 1B, ",
    "how do I check a formula": "type tfcalc check mha '4h² + 4h', ",
    "how many gpus to train gpt2 in a week": "the question says none; "
    "type tfcalc train gpt2 --gpu 8xh100 --tokens 1B, ",
    "flops of bert-base at 512": "'bert-base' is ambiguous",
    "kv cache per token of llama 3 8b at 8k": "type tfcalc explain 'KV cache per token' llama-3-8b,",
    "params of gpt2 in fp8": "type tfcalc params gpt2, which leaves it out",
    "gpu for training": "names no model that is known",
    "MFU of gpt2 on 8 a100s": "add --tokens-per-second",
    "6ND for a 7b": "the question says no tokens; type tfcalc design 7b --tokens 140B, ",
    "how much energy does it take to train gpt2 on 10B tokens on a t4": "tfcalc train gpt2 --gpu t4 --tokens 10B tells",
    "how many kWh does training a 7b take": "no watts of GPUs are known here",
    "how many flops to train a 7b on 2T tokens on 64 h100": "'64xh100' in the question is not understood; "
    "type tfcalc design 7b --tokens 2T, which leaves it out",
    "6nd of a 7b on 2T tokens at batch 4": "'4' in the question is not understood; type tfcalc design 7b --tokens 2T",
    "how fast is bert base in int4 on 8 h100": "'bert-base' is ambiguous",
    "which model fits on 16gb at 4 bit": "a question is about one model; tfcalc fit MODEL --gpu 16gb",
    "gpt2-xl on a t4 with a 1b draft": "type tfcalc serve gpt2-xl --gpu t4 --draft-model llama-3.2-1b "
    "--speculate 3@0.7, ",
    "how many kilowatt hours for 1B tokens of gpt2": "no watts of GPUs are known here",
    "watts of a 4090": "no watts of GPUs are known here",
    "does a draft of gpt2 help gpt2-xl on a t4": "how many tokens are guessed and how many of them are accepted; "
    "type tfcalc serve gpt2-xl --gpu t4 --draft-model gpt2 --speculate 3@0.7, ",
    "gpt2-xl on a t4 with a draft and 4 guesses": "does not say how many of them are accepted; "
    "type tfcalc serve gpt2-xl --gpu t4 --speculate 4@0.7, ",
    "solve largest batch gpt2": "longest sequence: it follows from the memory of a card",
    "will nosuch.json fit on a t4": "file 'nosuch.json' does not exist",
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


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that questions are turned into, which are not run."""
    found: list[list[str]] = []

    def run(asked: list[str], _: object) -> int:
        found.append(asked)
        return 0

    monkeypatch.setattr(main, "_typer", run)
    return found


@pytest.mark.parametrize("question", LINES)
def test_a_question_is_turned_into_a_line(tfcalc: Program, lines: list[list[str]], question: str) -> None:
    assert tfcalc(*question.split()).stderr == ""
    assert lines == [shlex.split(LINES[question])]


def test_each_row_of_the_table_answers_a_question(
    tfcalc: Program, lines: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, holds = set[str](), in_words.holds

    def spy(asks: str, facts: frozenset[str]) -> bool:
        found = holds(asks, facts)
        reached.update([asks] * found)
        return found

    monkeypatch.setattr(in_words, "holds", spy)
    for question in (*VALUES, *SAME, *LINES, *REFUSED, *SUPPOSED):
        tfcalc(*shlex.split(question.replace("'", "")))
    assert lines
    assert [asks for asks, _ in TABLE if asks not in reached] == []


SUPPOSED = {
    "samples per second in training gpt2 on a t4": "train gpt2 --gpu t4 --tokens 1B",
    "how long to train gpt2 on a t4": "train gpt2 --gpu t4 --tokens 1B",
    "how much does a 7b finetune cost": "train llama-2-7b --tokens 1B",
    "how many gpu hours to pretrain a 7b on 2T tokens on h100": "train llama-2-7b --gpu h100 --tokens 2T",
    "how much vram for grpo of a 7b": "fit llama-2-7b --method grpo",
    "where are the 175 billion parameters": "params gpt-3-175b",
}
"""Questions that leave something out, a model of a size or the tokens of a run, by the line with what is supposed."""


@pytest.mark.parametrize("question", SUPPOSED)
def test_what_is_left_out_is_supposed_and_told(tfcalc: Program, question: str) -> None:
    line = shlex.split(SUPPOSED[question])
    found, wanted = tfcalc(question), tfcalc(*line)
    assert (found.returncode, found.stdout) == (wanted.returncode, wanted.stdout)
    assert found.stdout
    assert (f"differ: this is {line[1]}; " in found.stderr) is (line[1] != "gpt2")
    assert ("says no tokens: these are 1B" in found.stderr) is (line[-1] == "1B")


@pytest.mark.parametrize("question", REFUSED)
def test_what_is_not_understood_is_refused_with_what_to_type(tfcalc: Program, question: str) -> None:
    """Each line to type works."""
    found = tfcalc(question)
    assert (found.returncode in (2, 3), found.stdout, found.stderr.count("\n")) == (True, "", 1)
    assert REFUSED[question] in found.stderr
    for line in re.findall(r"(?:type|name one:|tfcalc compare) ?(tfcalc [^;,\n]+)", found.stderr):
        assert tfcalc(*shlex.split(line)[1:]).returncode in (0, 1), line


def test_a_config_is_named_by_its_path(tfcalc: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever marks and words are around it; a folder with a config.json is one, too."""
    folder = tmp_path / "configs" / "llama-2-8-bit"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(preset("llama-2-7b").config))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Config.json").write_text(json.dumps(preset("llama-2-7b").config))
    cache = 2 * 32 * 32 * 128 * 2 * 1024
    for name in ("./Config.json", "Config.json", str(folder / "config.json"), "configs/llama-2-8-bit"):
        for before in ("kv cache of", "how big is the kv cache of my model,"):
            assert tfcalc(f"{before} {name}, at 1k?", "-q").stdout == f"{cache}\n", (before, name)
    assert tfcalc("why", *f"does ./Config.json have {PARAMS_7B} parameters".split(), "-q").stdout == f"{PARAMS_7B}\n"
    assert tfcalc("fit", "Config.json", "on", "24GB").stdout.startswith("DOES NOT FIT")
    assert "×1.00" in tfcalc("compare", "Config.json", "and", "llama", "2", "7b").stdout


def test_the_best_size_of_a_training_has_twenty_tokens_a_parameter(tfcalc: Program) -> None:
    """6 · 1e9 · 20e9 FLOPs (arXiv 2203.15556)."""
    found = json.loads(tfcalc("how many tokens should I train a 1b model on", "--json").stdout)
    assert found["compute_flops"] == 6 * 10**9 * 20 * 10**9


def test_the_number_of_6nd_comes_before_the_shapes(tfcalc: Program) -> None:
    """6 · 7e9 · 2e12 = 8.4e22."""
    assert tfcalc("6nd 7b 2T").stdout.startswith("8.4e+22 FLOPs by 6ND; ")


def test_what_a_change_saves_is_a_difference(tfcalc: Program) -> None:
    """A cache in 8 bits instead of 16: a byte of each number of 32,768 tokens."""
    asked = "how much does an fp8 kv cache save for llama 3 8b at 32k"
    plain, changed = json.loads(tfcalc(asked, "--json").stdout)["models"]
    assert plain["serving_peak_bytes"] - changed["serving_peak_bytes"] == LLAMA_8B * 32_768


def test_an_adapter_has_a_size(tfcalc: Program) -> None:
    """41,943,040 numbers of 4 bytes: peft casts adapters to fp32, and so they are saved."""
    asked = "how big is a lora adapter of rank 16 for llama-3-8b"
    assert json.loads(tfcalc(asked, "--json").stdout)["trainable_bytes"] == 4 * 41_943_040
    assert "168 MB in fp32" in tfcalc(asked).stdout


def test_the_largest_model_of_a_card_is_within_it(tfcalc: Program) -> None:
    """Served in 16 bits it has two bytes a parameter, and some of 24 GB are not for it."""
    found = json.loads(tfcalc("largest model I can run on a 24 GB card", "--json").stdout)["candidates"][0]
    assert 2 * found["total_params"] < found["amount"] < 24 * 2**30
    assert 9e9 < found["total_params"] < 12e9


def test_a_long_run_says_what_ends_it_sooner(tfcalc: Program) -> None:
    """6 · 6.7e9 · 2e12 FLOPs at 312e12 a second are 3,000 days: 100 cards would take a month at the peak, and two to
    four times as many at a usual share of it."""
    slow = tfcalc("how much does it cost to pretrain llama 2 7b on 2T tokens with a100").stdout
    told = re.search(r"--gpu (\d+)xA100-SXM-40 --fsdp \(to end within a month: ([\d.]+) days\)", " ".join(slow.split()))
    assert told is not None
    assert 200 <= int(told[1]) <= 400
    there = tfcalc("train", "llama-2-7b", "--tokens", "2T", "--gpu", f"{told[1]}xa100-40", "--fsdp").stdout
    assert there.startswith(f"FITS: 2T tokens in {told[2]} days ")
    assert "--mfu 35% --price 2.50 (your share of the peak, and your price; with these, " in " ".join(slow.split())
    asked = "how long does it take to train gpt2 124M on 10B tokens on 8xA100"
    single = tfcalc(asked).stdout
    assert "--precision bf16-mixed" in single
    assert "--batch N" in single
    assert "--batch N" not in tfcalc(f"{asked} with batch 8").stdout


def test_days_say_how_many_gpus(tfcalc: Program) -> None:
    """A token of Llama 2 13B takes 6 · 12.85e9 + 12 · 40 · 5,120 · 2,048 = 8.21e10 FLOPs; 2T of them at 40 % of an
    H100's 989.4e12 are 160.2 GPUs for 30 days: 21 servers of 8."""
    asked = "how many h100s to train a 13b model on 2T tokens in 30 days"
    assert tfcalc(asked, "--mfu", "40%").stdout.startswith("Within 30 days: --gpu 168xH100-SXM --fsdp, ")
    assert json.loads(tfcalc(asked, "--mfu", "40%", "--json").stdout)["gpus_in_time"] == 168
    told = re.match(r"Within 30 days: --gpu (\d+xH100-SXM) --fsdp, ([\d.]+) days; on H100-SXM: ", tfcalc(asked).stdout)
    assert told is not None
    assert 28 < float(told[2]) <= 30, "a server of 8 among about 240 is a day"
    there = tfcalc("train", "llama-2-13b", "--tokens", "2T", "--gpu", told[1], "--fsdp").stdout
    assert there.startswith(f"FITS: 2T tokens in {told[2]} days ")
    assert tfcalc("train", "gpt2", "--tokens", "1B", "--days", "2").stderr.endswith("name one of them: --gpu h100\n")
