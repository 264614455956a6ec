"""Tables of questions: each with its command, and the first line of what the command prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator

ASKED = {
    "Where are its parameters?": "tfcalc params gpt-3",
    "What is attention's formula?": "tfcalc formula mha -q",
    "How many FLOPs is a training step?": "tfcalc flops llama-3-8b --train --seq 4k --batch 8",
    "How many FLOPs is a full training run, and what does 6ND predict?": (
        "tfcalc flops gpt-3 --train --tokens 300B --seq 2k"
    ),
    "What is my MFU?": "tfcalc flops llama-3-8b --mfu --tokens-per-second 9500 --gpu h100 --seq 8k",
    "How much memory does fine-tuning take?": "tfcalc memory llama-3-8b --train",
    "Does QLoRA fit on my card?": ("tfcalc memory llama-3-8b --qlora --gpu rtx-4090"),
    "How long does fine-tuning take, and what does it cost?": (
        "tfcalc train llama-3-8b --lora 16 --tokens 100M --gpu h100"
    ),
    "Which layout for 1,024 GPUs?": "tfcalc plan llama-3-70b --gpu 1024xh100 --global-batch 16.8M --seq 8k",
    "How large is the KV cache?": "tfcalc explain cache --model llama-3-8b --of memory --serve --context 8k",
    "Does serving fit on my card?": "tfcalc memory llama-3-8b --serve --context 8k --gpu h100",
    "How many requests fit in 64 GiB?": (
        'tfcalc solve "memory <= 64GiB" --for concurrency llama-3-8b --serve --context 8k'
    ),
    "Which GPUs serve DeepSeek-V3, 8 of them together?": "tfcalc fit deepseek-v3 --serve --gpus 8",
    "How fast does it answer?": "tfcalc serve llama-3.1-70b --gpu 4xh100 --input 2k --output 500 --concurrency 64",
    "How much memory does preference tuning (DPO) take?": "tfcalc memory qwen3-8b --train --method dpo --seq 2k",
    "How do two models differ?": "tfcalc compare llama-3-8b qwen3-8b",
    "What does a change to a config affect?": 'tfcalc diff llama-3-8b "llama-3-8b --kv-heads 16"',
    "Why do others say another number?": "tfcalc why 163M gpt2",
    "From which length does attention cost more than the FFN?": (
        'tfcalc solve "attention > ffn" --of flops --for seq --kind decoder'
    ),
    "Is a change within its budgets?": "tfcalc budget --base origin/main",
    "Is it true?": "tfcalc verify llama-3-8b",
}
STATED = {
    "verify": "agrees, or exit 1; needs the extra `.[verify]`, without it exit 4",
    "budget": "passed, or exit 1 with what failed, by how much, and [why](docs/ci.md)",
}
"""The answers of commands that need more than this page: PyTorch, or a repository."""


OF_PAGES = {
    "": ASKED,
    "model": {
        "All of a model at a glance": "tfcalc llama-3-8b",
        "Its parameters, part by part": "tfcalc params llama-3-8b",
        "FLOPs of a forward pass": "tfcalc flops llama-3-8b --seq 4k",
        "Two models side by side": "tfcalc compare llama-3-8b qwen3-8b",
        "One number, term by term": "tfcalc explain total_params llama-3-8b",
        "A closed form": "tfcalc formula layer --model llama-3-8b -q",
        "A word of the field": "tfcalc explain 'KV cache' llama-3-8b",
        "A shape for a budget": "tfcalc design 3B",
    },
    "training": {
        "Memory of full fine-tuning": "tfcalc memory llama-3-8b --train --seq 4k",
        "LoRA, QLoRA": "tfcalc memory llama-3-8b --qlora --seq 4k",
        "Does it fit, and what would?": "tfcalc memory llama-3-8b --train --gpu rtx-4090",
        "On which cards?": "tfcalc fit llama-3-8b --lora 16",
        "Hours and money": "tfcalc train llama-3-8b --lora 16 --tokens 100M --gpu h100",
        "8 GPUs that share all states": "tfcalc memory llama-3-8b --train --gpu 8xh100 --fsdp",
        "The best layout over GPUs": "tfcalc plan llama-3-8b --gpu 64xh100 --tp 1,2 --pp 1 --cp 1",
        "FLOPs of a whole run": "tfcalc flops llama-3-8b --train --tokens 15T",
    },
    "serving": {
        "Memory of one request": "tfcalc memory llama-3-8b --serve --context 8k",
        "Seconds, requests, money": "tfcalc serve llama-3-8b --gpu h100 --context 8k --concurrency 32",
        "Quantized weights and cache": "tfcalc memory llama-3-8b --serve --weights nf4 --kv fp8 --gpu rtx-4090",
        "Several GPUs": "tfcalc memory llama-3-70b --serve --gpu 4xh100",
        "On which cards?": "tfcalc fit llama-3-8b --serve --context 8k",
        "The longest context that fits": "tfcalc solve 'kv_cache <= 10GiB' --for context llama-3-8b",
    },
    "differ": {
        "GPT-2 small has 124M parameters or 163M": "tfcalc why 163M gpt2",
        "GPT-2 small without the tables": "tfcalc why 85M gpt2",
        "A cache of half the size": "tfcalc why 0.5GiB llama-3-8b",
        "One multiply-add as one operation": "tfcalc explain MACs",
        "6ND": "tfcalc explain 6ND gpt2",
    },
}
"""Questions by the table's name: the README's, those of the cheat sheet, and those of the page on differences."""


def answers(first_line: Callable[[str], str], table: str = "") -> Iterator[str]:
    """A row for each question of a table; ``first_line`` runs a command, if it can be run here."""
    yield "| question | command | answer |"
    yield "| --- | --- | --- |"
    for question, command in OF_PAGES[table].items():
        answer = STATED.get(command.split()[1]) or first_line(command)
        yield f"| {question} | `{command}` | {answer} |"
