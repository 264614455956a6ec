"""A cell of a table that is a number of the answer says which: the page and the report only follow it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tfcalc.page import ask
from tfcalc.report.paths import reach
from tfcalc.report.sheet import TITLE, Bytes, Cell, InUnit, NumberOf, Rounded, Share, Short, for_programs
from tfcalc.report.style import Style

LINES = (
    "overview gpt2",
    "overview mamba2-780m --gpu h100",
    "params gpt2",
    "params gpt2 --freeze transformer.wte --depth 4",
    "params mixtral-8x7b --depth 3",
    "params gpt2 --max 1B",
    "flops gpt2 --seq 256 --train",
    "flops gpt2 --seq 256 --train --tokens 300B",
    "flops gpt2 --seq 256 --train --compare-conventions",
    "flops gpt2 --seq 256 --train --mfu --tokens-per-second 9000 --gpu a100",
    "memory gpt2",
    "memory gpt2 --train --lora --seq 256",
    "memory gpt2 --train --seq 256 --timeline",
    "memory gpt2 --train --seq 256 --gpu rtx-4090",
    "memory llama-3-8b --train --seq 256 --gpu rtx-4090",
    "memory gpt2 --serve --context 512",
    "memory qwen3-0.6b --method dpo --train --seq 256",
    "fit gpt2 --gpu rtx-4090 --seq 128",
    "train gpt2 --tokens 1M --gpu h100 --seq 128",
    "train gpt2 --tokens 1M --seq 128",
    "serve gpt2 --gpu h100 --input 64 --output 16",
    "serve llama-3-8b --gpu h100 --curve",
    "serve llama-3-8b --gpu h100 --draft-model llama-3.2-1b --speculate 3@0.7",
    "compare gpt2 gpt2-medium gpt2-large",
    "diff gpt2 gpt2-medium --seq 8",
    "gpus h100",
    "shapes gpt2 --seq 8",
    "ranks llama-3-8b --tp 2 --pp 2",
    "plan gpt2 --gpu 2xh100 --global-batch-size 8 --seq 256",
    "sweep gpt2 --of params --layers 1..3",
    "plot gpt2 --over seq=128,256",
    "design --params 100M",
    "models gpt2",
    "solve 'params <= 1B' gpt2 --for layers",
    "why 124439808 gpt2",
)
ANSWERED_IN_WORDS_ALONE = ("PF-days", "FLOP/s")
"""Columns that are a number of the answer in another unit, or times a rate."""
SEARCHED = "largest "
"""Rows of the largest sizes that fit: the answer has the sizes, and not what they take."""


@pytest.mark.parametrize("line", LINES)
def test_each_cell_is_the_number_that_it_says(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = ask.run(shlex.split(line))
    assert run.drawn is not None, run.told
    sheet, said = run.drawn.sheet, run.drawn.answer.to_dict()
    found = sheet.numbers()
    assert found
    for at, keys in found.items():
        cell = sheet.quiet if at == TITLE else sheet.rows[at[0]][at[1]]
        assert isinstance(cell, NumberOf)
        value = reach(said, keys)
        assert isinstance(value, int | float), (at, keys)
        if not isinstance(cell.shown, str | Share):  # which round it
            assert for_programs(cell, Style()) == str(value), (at, keys)
    for row in sheet.rows:
        for cell, column in zip(row, sheet.columns, strict=True):
            known = column.heading in ANSWERED_IN_WORDS_ALONE or str(row[0]).startswith(SEARCHED)
            assert known or not says_too_little(cell), (row[0], column.heading, cell)


def says_too_little(cell: Cell) -> bool:
    """Return whether a cell is a number other than nothing, of which it is not said which."""
    match cell:
        case Bytes() | InUnit():
            return cell.size != 0  # what is left of a term that the peak does not have
        case _:
            return isinstance(cell, Short | Rounded | int)
