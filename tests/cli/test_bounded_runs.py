"""Questions that would take minutes or gigabytes: answered in bounded time and memory, or refused in a line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tfcalc as library
from tests.cli.limited import MEGABYTES, answered, linux, refused, run
from tests.conftest import Quick

pytestmark = linux

# --- sweeps


@pytest.mark.parametrize(
    ("form", "most"),
    [([], "10,000"), (["--json"], "1,000,000"), (["--format", "csv"], "1,000,000"), (["-q"], "10,000")],
)
def test_points_are_counted_before_they_are_computed(tmp_path: Path, form: list[str], most: str) -> None:
    sizes = ["--seq", "1..3000", "--batch", "1..3000"]
    refused(run(tmp_path, "sweep", "gpt2", *sizes, "--of", "flops", *form), 2, "9,000,000 points", most)


@pytest.mark.parametrize("name", ["x.parquet", "x.vl.json"])
def test_points_of_a_file_are_counted_before_they_are_computed(tmp_path: Path, name: str) -> None:
    ran = run(tmp_path, "sweep", "gpt2", "--seq", "1..3000", "--batch", "1..3000", "--of", "flops", "-o", name)
    refused(ran, 2, "9,000,000 points")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", [["--json"], ["--format", "csv"]], ids=" ".join)
def test_a_million_points_are_written_in_pieces(tmp_path: Path, form: list[str]) -> None:
    sizes = ["--seq", "1..1000", "--batch", "1..1000"]
    ran = run(tmp_path, "sweep", "gpt2", *sizes, "--of", "flops", *form)
    answered(ran, 0)
    assert ran.megabytes < 300  # as one text it were 500
    written = (tmp_path / "out").read_text()
    if form == ["--json"]:
        columns = {each["name"]: each["values"] for each in json.loads(written)["columns"]}
        last = [columns[name][-1] for name in ("batch_size", "seq_len", "total_flops")]
        assert len(columns["seq_len"]) == 1_000_000
    else:
        last = list(map(int, written.splitlines()[-1].split(",")))
        assert written.count("\n") == 1_000_001
    run_of_last = library.Workload(batch_size=1_000, seq_len=1_000)
    assert last == [1_000, 1_000, library.flops(library.load("gpt2"), run_of_last).answer]


def test_ten_million_points_of_the_library_take_less_memory_than_the_program_may() -> None:
    """3 columns of 80 MB are the answer; what is computed on the way is a block at a time."""
    program = (
        "import numpy as np, tfcalc\n"
        "sizes = np.arange(1, 3_001)\n"
        "found = tfcalc.sweep(tfcalc.load('gpt2'), 'flops', batch_size=sizes[:, None], seq_len=sizes[None, :])\n"
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(int(peak) // 1024, found.rows, found.values[2_999, 2_999])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    megabytes, rows, last = map(int, done.stdout.split())
    assert (rows, megabytes < MEGABYTES) == (9_000_000, True)
    assert last == library.flops(library.load("gpt2"), library.Workload(batch_size=3_000, seq_len=3_000)).answer


RUNS = [
    ["llama-3-8b", "--layers", "1..10000", "--of", "params"],
    ["gpt2", "--layers", "1..2000", "--seq", "1..5", "--of", "memory", "--train"],
    ["mixtral-8x7b", "--layers", "1..1000", "--d-ff", "1..100", "--of", "cache"],
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("arguments", RUNS, ids=" ".join)
def test_runs_of_a_sweep_are_counted(tmp_path: Path, arguments: list[str]) -> None:
    refused(run(tmp_path, "sweep", *arguments, "--format", "csv"), 2, "too many runs")


def test_a_hundred_runs_are_not_too_many(quick: Quick) -> None:
    assert quick("sweep", "llama-3-8b", "--layers", "1..100", "--of", "params", "--format", "csv").returncode == 0


# --- searches

UNLIKE = {"model_type": "inkling2_text", "hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 49152}
"""No two of its layers are alike, so that each is counted by itself, and there may be so many only."""


def unlike(folder: Path) -> str:
    (folder / "i.json").write_text(json.dumps(UNLIKE))
    return "i.json"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("limit", [10**10, 3 * 10**10, 10**11])
def test_layers_of_a_model_in_which_all_differ_are_solved_for(quick: Quick, tmp_path: Path, limit: int) -> None:
    """Not only those that divide some other size: the last layer that fits, and the first that does not."""
    name = unlike(tmp_path)
    layers = int(quick("solve", f"params <= {limit}", "--for", "layers", "--model", name, "-q").stdout)
    here, further = (int(quick("params", name, "--layers", str(n), "-q").stdout) for n in (layers, layers + 1))
    assert here <= limit < further


@pytest.mark.long
def test_where_layers_end_is_found_without_counting_them(tmp_path: Path) -> None:
    ran = run(tmp_path, "solve", "params <= 10000B", "--for", "layers", "--model", unlike(tmp_path))
    answered(ran, 0)
    assert "layers ends at" in ran.out
    assert "256 layers that are unlike" in ran.out


def test_a_search_that_runs_too_much_says_what_to_do(tmp_path: Path) -> None:
    ran = run(tmp_path, "solve", "memory <= 80GiB", "--for", "layers", "--train", "--model", unlike(tmp_path))
    refused(ran, 2, "too many runs of the model", "a few sizes")


@pytest.mark.long
def test_an_answer_that_runs_too_many_layers_is_refused(tmp_path: Path) -> None:
    refused(run(tmp_path, unlike(tmp_path), "--layers", "255"), 2, "too many runs of layers", "fewer layers")
