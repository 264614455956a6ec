"""Charts of a training step and of a server: in the terminal, and in files with the numbers of the JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Quick

SERVED = ("serve", "llama-3-8b", "--gpu", "h100")
TRAINED = ("memory", "gpt2", "--train", "--batch", "2", "--seq", "128")


def test_the_curve_of_a_server_is_drawn_with_its_band(quick: Quick) -> None:
    pytest.importorskip("plotext")
    done = quick(*SERVED, "--chart")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[-3:] == ["* estimate", "+ at most", ". what it may be"]
    assert max(map(len, lines)) <= 80
    drawn = [line for line in lines if "│" in line or "┤" in line]
    assert all(any(mark in line for line in drawn) for mark in "*+.")
    assert quick(*SERVED, "--chart", "--ascii").stdout.isascii()


def test_without_an_estimate_it_has_no_band(quick: Quick) -> None:
    pytest.importorskip("plotext")
    lines = quick(*SERVED, "--chart", "--floor").stdout.splitlines()
    assert lines[-1] == "* at most"


def test_a_file_of_the_curve_has_the_numbers_of_the_json(quick: Quick, tmp_path: Path) -> None:
    file = tmp_path / "curve.vl.json"
    assert quick(*SERVED, "-o", str(file)).returncode == 0
    band, estimate, *_ = json.loads(file.read_text())["layer"]
    curve = json.loads(quick(*SERVED, "--curve", "--json").stdout)["curve"]
    drawn = {row["x"]: row["y"] for row in estimate["data"]["values"] if row["curve"] == "estimate"}
    assert drawn == {one["concurrency"]: one["tokens_per_second"] for one in curve}
    lowest = {row["x"]: row["y"] for row in band["data"]["values"]}
    assert all(lowest[users] < rate for users, rate in drawn.items())
    assert all(row["y"] < row["high"] for row in band["data"]["values"])


def test_a_file_of_a_step_has_the_numbers_of_the_json(quick: Quick, tmp_path: Path) -> None:
    file = tmp_path / "step.vl.json"
    assert quick(*TRAINED, "-o", str(file)).returncode == 0
    bars = json.loads(file.read_text())["data"]["values"]
    phases = json.loads(quick(*TRAINED, "--timeline", "--json").stdout)["timeline"]
    assert {row["row"] for row in bars} == {"forward", "loss", "backward", "optimizer step"}
    for phase in phases:
        name = {"step": "optimizer step"}.get(phase["phase"], phase["phase"])
        assert sum(row["size"] for row in bars if row["row"] == name) == phase["peak_bytes"]


def test_the_chart_of_a_step_is_its_timeline(quick: Quick) -> None:
    assert quick(*TRAINED, "--chart").stdout == quick(*TRAINED, "--timeline").stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("models -o FILE.svg", "this answer has none"),
        ("memory gpt2 --serve --chart", "add --train"),
        ("serve llama-3-8b --gpu h100 --chart --json", "--chart is for a terminal"),
        ("serve llama-3-70b --gpu rtx-4090 --chart", "there is no curve"),
        ("serve llama-3-8b --gpu h100 --json -o FILE.svg", "with -o"),
    ],
)
def test_what_has_no_chart_is_refused_in_one_line(quick: Quick, tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "chart.svg"
    done = quick(*line.replace("FILE.svg", str(file)).split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not file.exists()
