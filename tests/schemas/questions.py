"""Questions whose answers have, between them, every key that there is; and their answers, asked in this process."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.golden.test_golden import COMMANDS as GOLDENS
from tfcalc.answers.explain import COUNTS
from tfcalc.cli.commands import COMMANDS, command
from tfcalc.cli.main import main
from tools.fuzz.questions import sensible

ROOT = Path(__file__).parents[2]
RATES = ROOT / "tests" / "timing" / "rates.toml"
"""Written by calibrate from tests/timing/logs/megatron.log."""
TWELVE = ROOT / "tests" / "timing" / "vtrain-twelve.jsonl"
"""Twelve rows of tests/oracle/planning/vtrain.csv, evenly taken, by the name of their framework alone."""
KINDS = (
    "gpt2",  # a decoder with tied embeddings
    "bert-base-uncased",  # an encoder
    "t5-small",  # encoder and decoder
    "mixtral-8x7b",  # chosen experts
    "deepseek-v2-lite",  # latent attention
    "mamba2-780m",  # state space
    "gpt-oss-20b",  # a quantized checkpoint
    "gemma-3-270m",  # windows
    "clip-vit-base-patch16",  # two towers
    "dinov2-small",  # no tokens at all
)
ASKED_OF_EACH = (
    "overview {}",
    "params {}",
    "flops {} --train",
    "memory {}",
    "memory {} --serve --context 1k",
    "memory {} --train --batch 2",
    "compare {} gpt2",
    "diff {} gpt2",
)
FURTHER = (
    "params mixtral-8x7b --approx",
    shlex.join(("params", str(ROOT / "tests" / "schemas" / "experts-without-weights.json"))),
    "params gpt2 --max 100M",
    "flops gpt2 --max 2T",
    "params gpt2 --lora 4 --depth 6",
    "flops --vocab-size 100 --train --tokens 1B --lora 4",
    "flops gpt2 --phase decode --cached 100",
    "flops gpt2 --train --mfu --tokens-per-second 90k --peak 312e12",
    "memory gpt2 --train --budget 1GB",
    "memory internlm2-7b --train",
    "memory gpt2 --train --gpu rtx-4090",
    "memory gpt2 --serve --context 1k --gpu rtx-4090",
    "memory gpt2 --serve --cache static --weights nf4 --budget 100GB",
    "memory mixtral-8x7b --serve --context 1k --gpu 8xh100 --ep 8",
    "memory gpt2 --serve --context 1k --gpu t4 --engine vllm --profiled 1GB --nontorch 100MB",
    "memory llama-3-8b --serve --context 1k --gpu rtx-4090 --engine llama.cpp",
    "memory gpt2 --train --method dpo --seq 64 --gpu rtx-4090",
    "memory gpt2 --method grpo --max-completion-length 16 --vllm-mode colocate --gpu rtx-4090",
    "memory gpt2 --train --timeline --zero 3 --gpus 8 --layout fsdp2",
    "memory llama-3-8b --train --backend megatron --tp 2 --pp 2 --seq 128",
    "memory gpt2 --train --preset torchtune/full-single-device",
    "fit gpt2 --seq 64 --gpus 2 --zero 2",
    "overview gpt2 --gpu t4",
    "gpus h100",
    "serve llama-3.3-70b --gpu 4xh200,4xb200",
    "serve mixtral-8x7b --gpu 4xh100,8xa100-80,l4 --concurrency 2",
    "serve mixtral-8x7b --gpu 8xh100 --dp 8 --ep 8",
    "report gpt2 --layers 2 --seq 64",
    "report clip-vit-base-patch16 --layers 2",
    "fit llama-3-70b --serve --context 1k",
    "plan gpt2 --layers 11 --gpu 8xh100 --global-batch-size 16 --seq 64 --stack fsdp --pp 2 --pareto",
    "plan gpt2 --layers 11 --gpu 8xh100 --global-batch-size 16 --seq 64 --stack fsdp --why 'pp2 hsdp2' pp2",
    "memory gpt2 --stack fsdp --dp 4 --replicas 2 --grad-accum 2 --seq 64 --gpu rtx-4090",
    "memory mixtral-8x7b --stack megatron --ep 4 --dp 4 --pp 2 --grad-accum 2 --seq 64",
    "ranks gpt2 --stack fsdp --dp 4 --replicas 2 --grad-accum 2 --seq 64",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --why-not tp=8",
    "plan llama-3-8b --gpu 64xh100 --global-batch-size 63 --seq 64 --tp 8 --states bf16-master-bf16-moments",
    "plan gpt2 --layers 11 --gpu 8xh100 --global-batch-size 15 --seq 64 --stack fsdp --pp 2",
    "plan gpt2 --gpu 8xh100 --global-batch-size 15 --seq 64 --recompute-modules core_attn",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --recompute-modules core_attn,mlp --pareto",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --recompute-modules core_attn --why pp2 dp8",
    "plan llama-3-8b --gpu 8xh100 --global-batch-size 64 --seq 8k --recompute-modules core_attn --why-not b=2",
    "plan llama-3-70b --gpu 2xh100 --global-batch-size 1 --seq 64 --recompute-modules core_attn",
    "plan llama-3-8b --layers 31 --gpu 8xh100 --global-batch-size 64 --seq 8k --stack fsdp --pp 2 --why-not b=2",
    "plan llama-3-8b --layers 31 --gpu 8xh100 --global-batch-size 64 --seq 8k --stack fsdp --pp 2 --why-not b=1",
    "plan llama-3-70b --layers 79 --gpu 2xh100 --global-batch-size 1 --seq 64 --stack fsdp",
    "plan gpt2 --gpu h100 --global-batch-size 64 --seq 64 --tokens 1B --budget-days 1 --zero 1",
    "compare gpt2 gpt2-medium --train --seq 64",
    "compare gpt2 gpt2-medium --serve --context 64",
    "compare gpt2 gpt2-medium --seq 64 --gpu t4",
    "compare gpt2 gpt2-medium --train --seq 64 --gpu t4",
    "compare gpt2 'gpt2 --layers 6' --only-differences",
    "diff gpt2 gpt2",
    "diff gpt2 'gpt2 --layers 6' --seq 64",
    "explain flops_per_token gpt2",
    "explain memory.peak_bytes gpt2 --train",
    "explain mha --of time",
    "design 3B --tokens 3T --gpu 1024xh100 --mfu 0.4",
    "explain mfu gpt2",
    "why 'Loading model weights took 14.9888 GB' llama-3.1-8b",
    "why 'Loading model weights took 20.9888 GB' llama-3.1-8b",
    *(f"explain layer --of {quantity}" for quantity in COUNTS),
    "explain mha --model gpt2 --of trainable --lora 8",
    "explain pf_days gpt2 --train --tokens 1B",
    "explain cache --model gpt2 --of memory --serve --context 64",
    "explain compare.models.1.kv_cache_bytes_per_token gpt2 gpt2-medium",
    "explain compare.models.1.forward_flops_per_token.total_flops gpt2 gpt2-medium",
    "explain diff.moved.0.rows.0.percent gpt2 'gpt2 --layers 6' --seq 64",
    "explain solve.value 'params = 125M' --for layers gpt2",
    "explain solve.rows.0.sides.1 'params.attention <= 2*params.ffn + 3h' gpt2 --for d_model",
    "explain why.reasons.0.distance 163M gpt2",
    "explain shapes.results.Q.sizes.2 mha",
    "explain sweep.columns.1.values.0 --d-model 512,513",
    "explain design.optimal_params_min --compute 1e21",
    "explain quiz.exercises.0.number",
    "explain models.models.gpt2.total_params",
    "formula complete --model mixtral-8x7b --lora 4 --of trainable",
    "formula layer --model gpt2 --sympy",
    "formula mha --big-o --latex --letters h=d",
    "explain overview.kv_cache_bytes gpt2",
    "explain overview.finetune_lora_bytes t5-small",
    "explain formula.summary.0.params",
    "why 163M gpt2",
    "why 117M gpt2",
    "check encoder-layer '24h^2 + 4lh' --of flops",
    "check mha '4h^2 + 4h' --of flops",
    "quiz 1 '12h^2' --seed 3 --topic params",
    "sweep gpt2 --of memory --train --seq 64,128 --batch 1..2",
    "sweep --d-model 512,513",
    "explain encoder-layer --approx",
    "plot --kind encoder --over seq=128..4096:x2",
    "plot mixtral-8x7b --over seq=1k,2k --shares",
    "params lama-3-8b",
    "params --d-model 513",
    "params /",
    "memory gpt2 --dtype bf17",
    "train llama-2-13b --tokens 2T --gpu h100 --days 30 --mfu 40%",
    f"train gpt2 --tokens 1M --gpu a100-80 --precision bf16 --seq 64 --rates {shlex.quote(str(RATES))}",
    f"plan gpt2 --gpu 8xa100-80 --global-batch-size 64 --tp 1 --pp 1 --seq 64 --rates {shlex.quote(str(RATES))}",
    shlex.join(("calibrate", str(ROOT / "tests" / "timing" / "logs" / "megatron.log"), "--gpu", "a100-80")),
    shlex.join(("calibrate", str(TWELVE))),
)
ELSEWHERE = frozenset(("budget", "init", "verify"))
"""What is asked in a repository, writes a file, or needs PyTorch."""
DRAWN = 40
"""Questions that the fuzzer would ask."""
SENTENCES = frozenset(("-q",))
"""What prints the answer alone, whatever its format."""


def lines() -> Iterator[list[str]]:
    """All of them as words, without what says which format."""
    yield from (
        shlex.split(line)[1:] for name in COMMANDS for line in command(name).examples if name not in ("schema", "web")
    )
    yield from (shlex.split(line) for line in GOLDENS)
    yield from (shlex.split(line.format(model)) for model in KINDS for line in ASKED_OF_EACH)
    yield from map(shlex.split, FURTHER)
    draw = random.Random(14)
    drawn = (sensible(draw) for _ in range(DRAWN))
    yield from (words for words, given in drawn if not given)


def asked() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each question with its answer, or its error."""
    for words in dict.fromkeys(map(tuple, lines())):
        if words[0] in ELSEWHERE or not SENTENCES.isdisjoint(words):
            continue
        line = re.sub(r" --format \w+| -o compared\.html", "", shlex.join(words))  # a file would get the JSON
        yield line, answer(shlex.split(line))


def answer(words: list[str]) -> dict[str, Any]:
    """What the program prints as JSON, on either stream."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main([*words, "--json"])
    text = out.getvalue() or err.getvalue().splitlines()[-1]
    found: dict[str, Any] = json.loads(text)
    return found
