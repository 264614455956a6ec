"""At 40, 80 and 120 columns no name, number or flag of an answer is broken, and nothing is cut."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program

ANSWERS = (
    "params gpt2",
    "params deepseek-v3 --depth 4",
    "params t5-small --formulas",
    "flops mixtral-8x7b --train",
    "memory qwen3-8b",
    "memory gpt2 --train --formulas",
)
VERDICTS = (
    "memory llama-3-8b --train --seq 4k --gpu rtx-4090",
    "memory llama-3-70b --train --gpu 8xh100",
    "memory llama-3-70b --serve --gpu h100",
    "memory llama-3-70b --gpu rtx-4090",
)
WIDTHS = ("40", "80", "120")


def names(components: list[dict[str, Any]]) -> Iterator[str]:
    for component in components:
        yield component["name"]
        yield from names(component["parts"])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("line", ANSWERS)
def test_every_name_of_the_tree_stands_whole(tfcalc: Program, line: str, width: str) -> None:
    """The first column has the tree's names, in its order."""
    shown = tfcalc(*line.split(), env={"COLUMNS": width}).stdout
    tree = json.loads(tfcalc(*line.split(), "--json").stdout)["components"]
    assert "…" not in shown
    lines = iter(shown.splitlines())
    for name in names(tree):
        assert any(re.match(rf" *{re.escape(name)}( |$)", row) for row in lines), name


@pytest.mark.one_in(6)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("line", VERDICTS)
def test_every_flag_of_a_remedy_stands_beside_its_value(tfcalc: Program, line: str, width: str) -> None:
    shown = tfcalc(*line.split(), env={"COLUMNS": width})
    assert shown.returncode == 1
    changes = json.loads(tfcalc(*line.split(), "--json").stdout)["changes"]
    flags = [flag for change in changes for flag in re.findall(r"--[a-z-]+ [^- ]\S*", change["flags"])]
    assert flags
    for flag in flags:
        assert flag in shown.stdout, flag
    assert not re.search(r"--[a-z-]+-$", shown.stdout, re.MULTILINE)
    assert "…" not in shown.stdout


@pytest.mark.parametrize("width", ["80", "120"])
@pytest.mark.parametrize("line", [*ANSWERS, *VERDICTS])
def test_no_line_is_wider_than_the_terminal(tfcalc: Program, line: str, width: str) -> None:
    shown = tfcalc(*line.split(), env={"COLUMNS": width}).stdout
    assert max(map(len, shown.splitlines())) <= int(width)


def test_what_explains_a_column_goes_with_it(tfcalc: Program) -> None:
    """``design`` has no room for what a shape is against at 80 columns, ``--timeline`` none for its bars at 40."""
    for line, narrow, heading, explained in (
        ("design --memory 24GB", "80", " against", "against aspect: d_model / layers"),
        ("memory gpt2 --train --timeline", "40", "over the step", "states: weights, optimizer"),
    ):
        wide, less = (tfcalc(*line.split(), env={"COLUMNS": width}).stdout for width in ("160", narrow))
        assert (heading in wide, explained in wide) == (True, True), line
        assert (heading in less, explained in less) == (False, False), line


@pytest.mark.parametrize("width", ["60", "80"])
def test_help_is_as_wide_as_the_terminal(tfcalc: Program, width: str) -> None:
    for words in ([], ["-h", "all"], ["memory", "-h", "all"], ["memory", "-h"]):
        lines = tfcalc(*words, env={"COLUMNS": width}).stdout.splitlines()
        too_wide = [line for line in lines if len(line) > int(width)]
        of_words = [line for line in too_wide if len(line.split()) > 1]  # a value may be longer than its column
        assert all(line.lstrip().startswith(("tfcalc ", "1   a negative")) for line in of_words), "but commands"
        assert not too_wide or width == "60"


@pytest.mark.parametrize("columns", ["", "40"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_an_error_is_folded_at_the_width_of_the_terminal(tmp_path: Path, columns: str, form: str) -> None:
    """A pseudo-terminal of 50 columns, without COLUMNS and with them; JSON is for programs."""
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    env |= {"COLUMNS": columns} if columns else {}
    words = [sys.executable, "-m", "tfcalc", "params", "--d-model", "513", "--format", form]
    subprocess.run(words, cwd=tmp_path, env=env, stderr=theirs, stdout=subprocess.DEVNULL, check=False)
    lines = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    os.close(theirs)
    assert " ".join(line.strip() for line in lines).count("nearest: 512, 520; or give head_dim") == 1
    assert (max(map(len, lines)) <= int(columns or 50)) == (len(lines) > 1) == (form == "table")


def test_an_error_that_a_program_reads_is_one_line(tfcalc: Program) -> None:
    found = tfcalc("params", "--d-model", "513", env={"COLUMNS": "40"})
    assert found.stderr.count("\n") == 1


def test_sizes_of_nested_configs_have_letters(tfcalc: Program) -> None:
    """Rates of compression are ``m_c`` and ``m_h``, not the paths of their fields: formulas fit in a terminal."""
    shown = tfcalc("explain", "KV cache", "deepseek-v4-flash", env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "m_c tokens of a" in " ".join(shown.split())
    assert "(compress_rates.compressed_sparse_attention)" in shown
