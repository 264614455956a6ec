"""Each row of memory opens by the path that its JSON prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Program

STANDING = {"weights", "optimizer", "workspaces", "buffers and inputs", "cache"}
"""Terms that are as large at the peak as by themselves."""
LESS = "already freed"
"""What is taken off a sum, and no term."""


def rows(parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each row of a breakdown."""
    for part in parts:
        yield part
        yield from rows(part["parts"])


@pytest.mark.parametrize(
    "words",
    [
        "gpt2 --train --lora 8",
        "gpt2 --train --zero 2 --gpus 4 --offload optimizer",
        "t5-small --train",
        "deepseek-v2-lite --serve --context 1k",
    ],
)
def test_a_row_opens_by_its_path(tfcalc: Program, words: str) -> None:
    parts = json.loads(tfcalc("memory", *words.split(), "--json").stdout)["components"]
    assert {row["name"] for row in parts} & STANDING
    for row in rows(parts):
        if row["name"] != LESS:
            opened = tfcalc("explain", row["path"], *words.split(), "--json")
            assert opened.returncode == 0, (row["path"], opened.stderr)
            if row["name"] in STANDING:
                assert json.loads(opened.stdout)["total_bytes"] == row["bytes"], row["path"]


def test_a_row_on_a_card_is_not_explained_without_it(tfcalc: Program) -> None:
    """Hopper's workspaces are larger (32 MiB each), and four GPUs share what one has."""
    for words in ("memory.workspaces gpt2 --train --gpu h100", "memory.optimizer gpt2 --train --fsdp --gpu 4xh100"):
        assert tfcalc("explain", *words.split()).returncode == 2
    opened = tfcalc("explain", "memory.workspaces_bytes", *["gpt2", "--train", "--gpu", "h100", "--json"])
    assert json.loads(opened.stdout)["total_bytes"] == 2 * 32 * 2**20


def test_a_slip_in_the_name_of_a_number_is_still_told(tfcalc: Program) -> None:
    told = tfcalc("explain", "memory.peak_byte", "gpt2", "--train").stderr
    assert told == "tfcalc: 'peak_byte' is not in the answer; did you mean peak_bytes?\n"
