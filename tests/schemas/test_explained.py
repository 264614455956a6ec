"""What explain opens meets its schema: numbers of the answers of every command that has some."""

from __future__ import annotations

import random
import shlex

import pytest

from tests.analysis.test_opened_numbers import paths
from tests.schemas.questions import answer
from tests.schemas.test_answers import wrong
from tfcalc.cli.commands import COMMANDS

LINES = [
    "overview gpt2",
    "params gpt2",
    "flops gpt2 --train",
    "memory gpt2",
    "memory gpt2 --train --seq 64",
    "memory llama-3-8b --serve --context 1k",
    "compare gpt2 gpt2-medium",
    "diff gpt2 'gpt2 --layers 6'",
    "solve 'params <= 10B' --for layers gpt2",
    "sweep gpt2 --layers 2,3",
    "design --params 125M",
    "why 163M gpt2",
    "shapes mha",
    "formula",
    "check mha '4h^2 + 4h'",
    "quiz --topic params",
    "models --family gpt2",
    "plot gpt2 --seq 64,128",
    "gpus h100",
    "ranks gpt2",
    "report gpt2",
    "serve llama-3-8b",
    "fit gpt2 --seq 64",
    "train gpt2 --tokens 1M --gpu a100-80 --precision bf16 --seq 64",
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64",
    "explain mha",
]
ELSEWHERE = {"budget", "init", "verify", "calibrate", "schema"}
"""What is asked in a repository, writes a file, needs PyTorch or logs, or answers with no number."""


def opened(line: str, most: int) -> None:
    """Explain some numbers of an answer, or all where there are no more: each is an answer that meets the schema."""
    command, *rest = shlex.split(line)
    numbers = [path for path in paths(answer([command, *rest])) if path != ("schema_version",)]
    assert numbers
    for path in random.Random(line).sample(numbers, min(most, len(numbers))):
        found = answer(["explain", ".".join((command, *path)), *rest])
        assert found.get("command") == "explain", (path, found)
        assert not list(wrong(found)), path


@pytest.mark.one_in(3)
@pytest.mark.parametrize("line", LINES)
def test_some_numbers_of_an_answer(line: str) -> None:
    """Of an overview nearly every one had a key that its schema did not know."""
    opened(line, 3)


@pytest.mark.long
@pytest.mark.parametrize("line", LINES)
def test_many_numbers_of_an_answer(line: str) -> None:
    opened(line, 12)


def test_every_command_with_numbers_is_asked() -> None:
    assert {shlex.split(line)[0] for line in LINES} == set(COMMANDS) - ELSEWHERE
