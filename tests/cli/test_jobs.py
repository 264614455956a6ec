"""What people come for, in the words of public threads: each is one command whose first line answers it, on one screen.

Numbers are from the threads themselves, from papers, or from arithmetic that stands beside them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.conftest import Program


class Job(NamedTuple):
    """What was asked, the command, what its first line says, what stands below it, and the exit code."""

    asked: str
    line: str
    first: str
    below: tuple[str, ...] = ()
    code: int = 0


JOBS = (
    # 4·768² + 4·768: the asker counted the heads twice and forgot W_O
    Job(
        "How do I get 2,362,368 parameters at each self-attention layer?",
        "explain attention --d-model 768 --heads 12",
        "2,362,368 parameters",
        ("4h² + 4h", "W_O"),
    ),
    # Brown et al. 2020 (arXiv 2005.14165), table 2.1: 96 layers of 12,288; 12·12,288² + 13·12,288 in each
    Job("Where are the 175 billion parameters?", "params gpt-3", "175B parameters", ("96 × 1,812,099,072",)),
    # 124,439,808 by PyTorch; the head is tied
    Job(
        "Why 124M, and does the count include the lm-head?",
        "params gpt2",
        "124M parameters (124,439,808)",
        ("lm_head is tied to embedding",),
    ),
    Job(
        "How much GPU memory is needed to fine-tune the 7B model?",
        "memory llama-2-7b --train --seq 4k",
        "GiB peak",
        ("optimizer states", "activations", "Not counted:"),
    ),
    # gradients and AdamW's moments over 8 GPUs: 2/8 and 4/8 bytes per parameter (ZeRO, arXiv 1910.02054, section 5)
    Job(
        "If I use ZeRO stage 2 and gradient checkpointing, how do I compute the activation memory?",
        "memory llama-2-7b --train --seq 4k --gpus 8 --zero 2 --checkpointing full",
        "GiB peak",
        ("0.5 B/param", "0.25 B/param", "activations", "gradient checkpointing full"),
    ),
    Job(
        "What is the longest line I can have with 12 GB and a vocabulary of 32k?",
        "memory --kind decoder --train --vocab-size 32k --gpu 12GB",
        "FITS",
        ("largest sequence",),
    ),
    # 256·2048·32000 numbers in fp32: 62.5 GiB, the 31.25 GB of the thread (2 bytes) twice
    Job(
        "Only the logits should take up 256·2048·32000·2 bytes: where is this?",
        "memory llama-2-7b --train --batch 256 --seq 2048 --checkpointing none",
        "TiB peak",
        ("loss", "62.5 GiB"),
    ),
    Job(
        "How can I determine the maximum number of concurrent requests?",
        "memory llama-3-8b --serve --context 8k --gpu h100",
        "FITS",
        ("largest concurrency: ", "--concurrency"),
    ),
    # 2 · 32 layers · 8 heads · 128 · 2 bytes · 8,192 tokens
    Job(
        "How is the KV cache estimated?",
        "explain cache --model llama-3-8b --of memory --serve --context 8k",
        "1,073,741,824 bytes",
        ("n·b·g·d",),
    ),
    # NVIDIA's H100 data sheet: 1,979 TFLOP/s are those with sparsity
    Job(
        "420/1979, that is very small, why is that?",
        "flops llama-2-7b --mfu --tokens-per-second 3k --peak 1979e12 --seq 4k",
        "MFU",
        ("with sparsity", "989.4"),
    ),
    Job("Factor 6, 7 or 12?", "flops gpt2 --train --compare-conventions", "conventions", ("6ND", "arXiv 2203.15556")),
    Job("What does my config cost?", "llama-3-8b", "8.03B parameters", ("KV cache", "fine-tuning")),
    Job(
        "Fail the pipeline if it does not fit.",
        "memory llama-3-8b --train --seq 4k --gpu rtx-4090",
        "DOES NOT FIT",
        ("what would fit", "--qlora 16"),
        code=1,
    ),
    Job("A quality gate.", "memory llama-3-8b --serve --budget 24GiB", "FITS"),
)


@pytest.mark.parametrize("job", JOBS, ids=[job.line for job in JOBS])
def test_the_first_line_answers_on_one_screen(tfcalc: Program, job: Job) -> None:
    found = tfcalc(*job.line.split(), env={"COLUMNS": "80"})
    lines = found.stdout.splitlines()
    assert (found.returncode, found.stderr) == (job.code, "")
    assert job.first in lines[0]
    assert all(part in found.stdout for part in job.below), found.stdout
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80


@pytest.mark.one_in(12)
@pytest.mark.parametrize("job", JOBS, ids=[job.line for job in JOBS])
def test_every_next_step_that_it_recommends_runs(tfcalc: Program, job: Job) -> None:
    """Flags after ``See also:`` go to the same command; a command in it stands by itself."""
    shown = tfcalc(*job.line.split()).stdout
    found = re.search(r"^See also: (.*)", shown, re.MULTILINE)
    steps = re.sub(r" \([^)]*\)", "", found[1]).split("  ") if found else []
    for step in steps:
        if step.startswith("-"):
            answer = tfcalc(*job.line.split(), *step.split())
            assert answer.returncode in (0, 1), (step, answer.stderr)
            assert answer.stdout
