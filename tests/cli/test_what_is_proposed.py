"""What an answer proposes works as it stands there: flags that make it fit, and commands to see next."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tfcalc.cli.main import main

GOLDEN = Path(__file__).parents[1] / "golden"
VERDICT = re.compile(r"^(DOES NOT FIT|FITS|FITS, TIGHTLY): ", re.MULTILINE)
ROW = re.compile(r"(?P<peak>-?[\d,]+\.\d) +(?P<free>-?[\d,]+\.\d) +(?P<flags>(?:--\S+(?: [^-\s]\S*)?\s*)+)")
UNIT = re.compile(r"peak (\wiB|\wB)")
SCALES = {"GiB": 2**30, "MiB": 2**20, "GB": 10**9, "TiB": 2**40}

FURTHER = [
    "llama-3-8b --train --seq 4096 --batch 8 --checkpointing selective --gpu h100",
    "llama-3-8b --train --seq 4096 --batch 4 --precision fp32 --gpu h100",
    "llama-3-8b --train --seq 4096 --batch 8 --lora 8 --gpu 24GB",
    "llama-3-8b --train --seq 4096 --batch 32 --qlora --gpu 24GB",
    "llama-3-8b --train --gpu '2x RTX 4090'",
    "llama-3-8b --train --seq 8k --batch 4 --checkpointing none --backend megatron --gpu h100",
    "llama-3-8b --train --zero 1 --gpu 2xt4",
    "gpt2-xl --train --batch 32 --seq 1024 --gpu 4xt4",
    "llama-3-8b --train --batch 64 --fsdp --gpus 4 --gpu 24GB",
    "mixtral-8x7b --train --gradient-checkpointing --zero 2 --gpus 4 --gpu a100-80gb",
    "gpt2 --train --batch 64 --seq 1024 --precision fp32 --optimizer adamw --budget 24GB",
    "gpt2 --train --batch 64 --seq 1024 --precision amp --attention-kernel eager --budget 24GB --margin 20",
    "gpt2 --train --batch 8 --seq 1024 --budget 5GiB --units si",
    "t5-base --train --batch 128 --seq 512 --budget 16GB",
    "--train --batch 512 --seq 4k --gpu 24GB",
    "llama-3-8b --serve --gpu 16GB",
    "llama-3-8b --serve --context 8k --concurrency 32 --weights int8 --cache dynamic --attention-kernel eager "
    "--budget 16GB",
    "deepseek-v2-lite --serve --context 128k --concurrency 8 --cache dynamic --gpu a100",
    "deepseek-v3 --serve --gpu h200",
    "llama-3-8b --gpu 12GB",
    "llama-3-8b --dtype fp32 --budget 10GiB",
    "mixtral-8x7b --weights int8 --gpu rtx-4090",
    "--budget 100MB",
]
Ran = Callable[[list[str]], tuple[int, str]]


class Golden(NamedTuple):
    """A golden's command and what it printed."""

    line: str
    text: str


def goldens() -> list[Golden]:
    files = (path.read_text(encoding="utf-8") for path in sorted(GOLDEN.glob("*.txt")))
    return [Golden(text.splitlines()[0].removeprefix("$ tfcalc "), text) for text in files]


def typed(golden: Golden) -> list[str]:
    """Its words, but for the format: it is chosen by who reads the answer."""
    return shlex.split(re.sub(r" --format \S+| --json", "", golden.line))


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The program in this process, in an empty folder: its exit code and what it wrote."""
    monkeypatch.chdir(tmp_path)

    def run(arguments: list[str]) -> tuple[int, str]:
        code = main(arguments)
        streams = capsys.readouterr()
        assert not streams.err, (arguments, streams.err)
        return code, streams.out

    return run


def proposed(ran: Ran, arguments: list[str]) -> list[dict[str, Any]]:
    """The changes of the answer for programs, each run as a user would: added to what was typed."""
    code, out = ran([*arguments, "--json"])
    answer = json.loads(out)
    assert code == (0 if answer["fits"] else 1)
    assert int(ran([*arguments, "-q"])[1]) == answer["total_bytes"]
    changes: list[dict[str, Any]] = answer["changes"]
    for change in changes:
        with_flags = [*arguments, *shlex.split(change["flags"])]
        code, out = ran([*with_flags, "--json"])
        assert code == (0 if change["fits"] else 1), with_flags
        found = json.loads(out)
        assert found["total_bytes"] == change["total_bytes"], with_flags
        assert found["budget_bytes"] == answer["budget_bytes"]
        assert (found["total_bytes"] <= answer["budget_bytes"]) == found["fits"] == change["fits"]
        assert found["tight"] == change["tight"]
    if len(changes) > 1:
        assert all(change["fits"] for change in changes), "what does not fit is listed as the closest alone"
    return changes


@pytest.mark.one_in(20)
@pytest.mark.parametrize("line", FURTHER)
def test_every_remedy_does_what_it_promises(ran: Ran, line: str) -> None:
    arguments = ["memory", *shlex.split(line)]
    assert proposed(ran, arguments), "these do not fit, and something can be done"
    shown = [" ".join(row["flags"].split()) for row in ROW.finditer(ran([*arguments, "--format", "plain"])[1])]
    assert bool(shown) == ("--gpu" in arguments), "with a budget people are told the verdict alone"


@pytest.mark.one_in(12)
@pytest.mark.parametrize("golden", [one for one in goldens() if VERDICT.search(one.text)], ids=lambda one: one.line)
def test_every_remedy_of_a_golden_does_what_it_promises(ran: Ran, golden: Golden) -> None:
    """As printed: its peak and what it leaves, to the last digit; the flags are those of the JSON, in its order."""
    arguments = typed(golden)
    proposed(ran, arguments)
    short = bool(re.search("^DOES NOT FIT", golden.text, re.MULTILINE))
    rows = [(row["peak"], row["free"]) for row in ROW.finditer(golden.text)]
    assert rows or not short or "--budget" in arguments, "with a budget people are told the verdict alone"
    told: list[tuple[str, str]] = []
    for change in json.loads(ran([*arguments, "--json"])[1])["changes"] if rows else []:
        found = json.loads(ran([*arguments, *shlex.split(change["flags"]), "--json"])[1])
        unit = SCALES[UNIT.search(golden.text)[1]]  # type: ignore[index]  # the heading is there
        told.append((f"{found['total_bytes'] / unit:,.1f}", f"{found['headroom_bytes'] / unit:,.1f}"))
        assert found["status"] == change["status"]
    assert [row for row in rows if row in told][: len(told)] == told[: len(rows)] or not short


@pytest.mark.one_in(12)
@pytest.mark.parametrize("line", FURTHER)
def test_an_answer_has_20_lines_at_most(ran: Ran, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = ran(["memory", *shlex.split(line)])[1].splitlines()
    assert VERDICT.match(lines[0])
    assert len(lines) <= 20
    assert all(len(each) <= 80 for each in lines)


FURTHER_TO_SEE = {golden.line: golden for golden in goldens() if "See also: " in golden.text}
COMMAND = re.compile(r"  ((?:params|flops|memory)(?: --\S+(?: [^-\s]\S*)?)*)$", re.MULTILINE)
"""A command in the last column of an overview."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("golden", FURTHER_TO_SEE.values(), ids=FURTHER_TO_SEE)
def test_whatever_is_to_be_seen_next_can_be(ran: Ran, golden: Golden) -> None:
    """``See also:`` has options to add, or commands; what stands in parentheses explains them."""
    arguments = typed(golden)
    text = ran([*arguments, "--format", "plain"])[1]
    [line] = re.findall(r"See also: (.*)", text)
    entries = re.split(r" {2,}", line)
    if "COMMAND" in line:  # each of those that the lines end in
        entries = [line.replace("COMMAND", each).removesuffix(" opens a line") for each in COMMAND.findall(text)]
        assert len(entries) > 5
    for entry in entries:
        words = shlex.split(re.sub(r"\(.*?\)", "", entry))
        asked = words[1:] if words[0] == "tfcalc" else [*arguments, *words]
        code, out = ran(asked)
        negative = VERDICT.match(out) or '"verdict": "DOES NOT FIT: ' in out
        assert code == 0 or (code == 1 and negative), (entry, code)
        assert out
