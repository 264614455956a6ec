"""The README's table of questions: each with its command, and the first line of what the command prints."""

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
    "How many requests can I serve?": "tfcalc memory llama-3-8b --serve --context 8k --gpu h100",
    "How many GPUs serve it?": "tfcalc memory deepseek-v3 --serve --gpu 8xh200",
    "How fast does it answer?": "tfcalc serve llama-3.1-70b --gpu 4xh100 --input 2k --output 500 --concurrency 64",
    "What does DPO take?": "tfcalc memory qwen3-8b --train --method dpo --seq 2k",
    "How do two models differ?": "tfcalc compare llama-3-8b qwen3-8b",
    "What does a change to a config affect?": 'tfcalc diff llama-3-8b "llama-3-8b --kv-heads 16"',
    "Why do others say another number?": "tfcalc why 163M gpt2",
    "From which length does attention cost more than the FFN?": (
        'tfcalc solve "attention = ffn" --of flops --for seq --kind decoder'
    ),
    "Is a change within its budgets?": "tfcalc budget --base origin/main",
    "Is it true?": "tfcalc verify llama-3-8b",
}
STATED = {
    "verify": "agrees, or exit 1",
    "budget": "passed, or exit 1 with what failed, by how much, and [why](docs/ci.md)",
}
"""The answers of commands that need more than this page: PyTorch, or a repository."""


def answers(first_line: Callable[[str], str]) -> Iterator[str]:
    """A row for each question; ``first_line`` runs a command, if it can be run here."""
    yield "| question | command | answer |"
    yield "| --- | --- | --- |"
    for question, command in ASKED.items():
        answer = STATED.get(command.split()[1]) or first_line(command)
        yield f"| {question} | `{command}` | {answer} |"
