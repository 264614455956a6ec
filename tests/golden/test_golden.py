"""Whole outputs, errors included, pinned as files: `make golden` writes them anew, a diff shows what changed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program

HERE = Path(__file__).parent
COMMANDS = [
    "params --d-model 512 --layers 6",
    "params --d-model 512 --layers 6 --json",
    "params --kind decoder --vocab-size 1000 --norm rmsnorm --approx --format plain",
    "params --notation names --format plain",
    "params --ascii",
    "params --format markdown",
    "params --format latex",
    "params --format csv",
    "params llama-3-8b --max 1.4B",
    "flops --seq 1024 --batch 8",
    "flops --train --vocab-size 1000 --attention-kernel flash --count all --format plain",
    "flops --train --recompute every:2 --no-dropout",
    "flops deepseek-v2-lite --phase decode --cached 4k --mla absorbed --depth 3",
    "flops gemma-2-9b --attention causal --seq 8k --format plain",
    "flops gpt-3-175b --train --tokens 300B --seq 2048 --format plain",
    "flops llama-2-7b --mfu --tokens-per-second 3.1k --gpu a100 --seq 4096 --recompute full",
    "flops gpt2 --train --compare-conventions --format markdown",
    "flops mamba2-780m --train --depth 1 --format csv",
    "memory --dtype int4 --vocab-size 1000",
    "memory gpt2 --train --batch 8 --seq 1024 --precision bf16 --format plain",
    "memory gpt2 --train --timeline",
    "memory gpt2 --train --optimizer adamv",
    "memory llama-3-8b --train --batch 8 --seq 4k --precision bf16-master --recompute full --budget 80GB",
    "memory llama-3-8b --train --seq 4096 --gpu rtx-4090",
    "memory llama-3-8b --train --seq 4096 --gpu 2xh200",
    "memory llama-3-8b --serve --context 32k --concurrency 16 --gpu rtx-4090",
    "memory llama-3-8b --serve --context 32k --concurrency 16 --weights int4 --kv fp8 --cache paged",
    "explain cache --model deepseek-v3 --of memory --serve --context 32k",
    "formula complete",
    "formula core --of time",
    "explain attention --d-model 768 --heads 12",
    "explain encoder --of flops",
    "params gpt2",
    "params mixtral-8x7b --format plain",
    "params deepseek-v3 --depth 2 --format plain",
    "params albert-large-v2 --json --depth 1",
    "formula layer --model qwen3-8b",
    "explain mha --model gpt2",
    "models --family deepseek_v3",
    "params lama-3-8b",
    "params gpt2 --as gpt3",
    "params gpt2 --heads 7",
    "params --d-model 513",
    "params --laers 3",
    "params transformer-bas --json",
    "compare llama-3-8b qwen3-8b --format markdown",
    "diff llama-3-8b 'llama-3-8b --kv-heads 16 --d-ff 16384' --format markdown",
    "diff gpt2 gpt2-medium --seq 1k",
]
"""At 80 columns."""
GLANCES = [
    "llama-3-8b",
    "deepseek-v3",
    "bert-base-uncased",
    "t5-small",
    "compare llama-3-8b qwen3-8b",
    "compare llama-3-8b 'llama-3-8b --kv-heads 32' qwen3-8b",
]
"""In a narrow window, an ordinary one and a wide one."""
WIDTHS = (40, 80, 120)
GOLDENS = [(line, 80) for line in COMMANDS] + [(line, columns) for line in GLANCES for columns in WIDTHS]


def slug(line: str, columns: int = 80) -> str:
    return re.sub(r"[^\w]+", "-", line).strip("-") + (f"-at-{columns}" if columns != 80 else "")


@pytest.mark.parametrize(("line", "columns"), GOLDENS, ids=[slug(*each) for each in GOLDENS])
def test_the_output_is_as_it_was(tfcalc: Program, line: str, columns: int, request: pytest.FixtureRequest) -> None:
    result = tfcalc(*shlex.split(line), env={"COLUMNS": f"{columns}"})
    found = f"$ tfcalc {line}\n{result.stdout}{result.stderr}[{result.returncode}]\n"
    path = HERE / f"{slug(line, columns)}.txt"
    if request.config.getoption("--overwrite"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), "if this is meant: make golden"


def test_no_golden_is_left_over() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == {slug(*each) for each in GOLDENS}


def rows(text: str) -> list[tuple[int, int]]:
    """Depth and total of each row of a breakdown in plain text."""
    found = re.findall(r"^( *)\S+ .*? ([\d,]+) +\d+\.\d %$", text, re.MULTILINE)
    return [(len(indent) // 2, int(total.replace(",", ""))) for indent, total in found]


@pytest.mark.parametrize(
    ("line", "total"),
    [
        ("params --notation names --format plain", 44_140_544),  # torch.nn.Transformer()
        (
            "params --kind decoder --vocab-size 1000 --norm rmsnorm --approx --format plain",
            # six layers of 12 h × h, 9 biases of h and 2 norms of h; the last norm; embedding and head
            6 * (12 * 512 * 512 + 9 * 512 + 2 * 512) + 512 + 2 * 1000 * 512,
        ),
        ("params mixtral-8x7b --format plain", 46_702_792_704),  # transformers (tests/oracle)
        ("params deepseek-v3 --depth 2 --format plain", 671_026_404_352),
    ],
)
def test_the_rows_add_up_to_their_total(line: str, total: int) -> None:
    found = rows((HERE / f"{slug(line)}.txt").read_text(encoding="utf-8"))
    assert found[0] == (0, total)
    for place, (depth, value) in enumerate(found):
        below = []
        for deeper, part in found[place + 1 :]:
            if deeper <= depth:
                break
            below += [part] * (deeper == depth + 1)
        assert not below or sum(below) == value


def test_the_json_golden_adds_up() -> None:
    text = (HERE / f"{slug('params --d-model 512 --layers 6 --json')}.txt").read_text(encoding="utf-8")
    answer = json.loads(text[text.index("{") : text.rindex("}") + 1])

    def check(parts: list[dict[str, Any]], total: int) -> None:
        assert not parts or sum(part["params"] for part in parts) == total
        for part in parts:
            check(part["parts"], part["params"])

    assert answer["total_params"] == 44_140_544
    check(answer["components"], 44_140_544)
