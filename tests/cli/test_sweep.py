"""``tfcalc sweep`` and ``tfcalc plot``: ranges, formats, charts, refusals."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import tfcalc
from tests.conftest import Quick
from tfcalc.cli.ranges import spread
from tfcalc.errors import UsageError
from tfcalc.render.drawing import specification
from tfcalc.report.chart import Chart, Curve


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("64", 64),
        ("1,2,4", [1, 2, 4]),
        ("1..4", [1, 2, 3, 4]),
        ("512..2048:512", [512, 1024, 1536, 2048]),
        ("1..10:4", [1, 5, 9]),
        ("1..64:x4", [1, 4, 16, 64]),
        ("3..20:x2", [3, 6, 12]),
        ("7..7", [7]),
        ("1,8..32:x2,5", [1, 8, 16, 32, 5]),
    ],
)
def test_ranges(text: str, values: Any) -> None:
    found = spread(text, "--seq", int)
    assert found == values if isinstance(found, int) else list(found) == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8..1", "no values"),
        ("..8", "is not a range"),
        ("1..", "is not a range"),
        ("1..8:", "is not a range"),
        ("1..8:x1", "not a factor"),
        ("1..8:x", "not a factor"),
        ("1..8:x-2", "not a factor"),
        ("1,2,1", "twice"),
        ("1,024", "is one number or a list"),
        ("1..10000001", "has 10,000,001 values"),
    ],
)
def test_what_is_no_range_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refusal:
        spread(text, "--seq", int)
    assert "\n" not in str(refusal.value)


SEQS = [1024 << power for power in range(4)]


def test_csv_and_json_are_what_the_library_says(quick: Quick) -> None:
    line = "sweep gpt2 --of flops --seq 1k..8k:x2 --batch 1,2"
    swept = tfcalc.sweep(tfcalc.load("gpt2"), "flops", batch_size=[[1], [2]], seq_len=SEQS)
    rows = list(csv.DictReader(io.StringIO(quick(*line.split(), "--format", "csv").stdout)))
    assert [int(row["total_flops"]) for row in rows] == swept["total_flops"].tolist()
    assert [int(row["seq_len"]) for row in rows] == SEQS * 2
    answer = json.loads(quick(*line.split(), "--json").stdout)
    assert [column["values"] for column in answer["columns"]] == list(swept.to_dict().values())
    assert [column["unit"] for column in answer["columns"]] == ["", "tokens", "flops"]
    assert answer["points"] == 8


def test_a_point_without_a_model_is_null_and_empty(quick: Quick) -> None:
    line = "sweep --d-model 512,513"
    answer = json.loads(quick(*line.split(), "--json").stdout)
    assert answer["columns"][1]["values"] == [44_140_544, None]
    assert "513 is not divisible" in answer["refused"][0]["message"]
    assert quick(*line.split(), "--format", "csv").stdout.splitlines()[1:] == ["512,44140544", "513,"]
    assert quick(*line.split(), "-q").stdout == "44140544 -\n"
    assert "1 without an answer, such as: d_model 513 is not divisible" in quick(*line.split()).stdout


def test_plans_and_phases_are_those_of_the_other_commands(quick: Quick) -> None:
    for memory, sweep in (
        ("--train --seq 64 --lora 8", "--train --seq 64 --lora 8,16"),
        ("--serve --context 1k", "--serve --context 1k,2k"),
        ("--layers 3", "--layers 3,6"),
    ):
        one = quick("memory", "gpt2", *memory.split(), "-q").stdout
        assert quick("sweep", "gpt2", "--of", "memory", *sweep.split(), "-q").stdout.split()[0] == one.strip()


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("sweep gpt2", 2, "no option has several values"),
        ("sweep gpt2 --of params --seq 1,2", 2, "--seq 1 has no effect on params"),
        ("sweep gpt2 --of memory --train --dtype bf16,fp32 --seq 1,2", 2, "'bf16,fp32' is not known"),
        ("sweep gpt2 --of flops --seq 1..20000", 2, "a table of 20,000 points is too long"),
        ("sweep gpt2 --of flops --seq 1..10000 --batch 1..10000", 2, "100,000,000 points are too many"),
        ("sweep gpt2 --of flops --seq 1,2 --chart --json", 2, "--chart is for a terminal"),
        ("sweep gpt2 --of flops --seq 1,2 --json -o x.vl.json", 2, "has no effect with -o x.vl.json"),
        ("params gpt2 --layers 1,2..3", 2, "is not a number"),
        ("plot gpt2 --of params", 2, "no size to plot over"),
        ("sweep gpt2 --chart --of params", 2, "no option has several values"),
        ("sweep gpt2 --seq 1,2 --parts ffn --lora 8", 2, "--lora 8 has no effect on parts of a model"),
        ("sweep gpt2 --layers 1,2 --parts ffn --of trainable", 2, "--of trainable is not counted by parts"),
        ("plot gpt2 --seq 1,2 --batch 1,2", 2, "--batch and --seq have several values"),
        ("plot gpt2 --over d_model=768,1536 --seq 1,2", 2, "--seq and --over have several values"),
        ("plot gpt2 --seq 5", 2, "no size to plot over"),
        ("plot gpt2 --over sequ=1,2", 2, "did you mean seq"),
        ("plot gpt2 --over seq", 2, "has no values"),
        ("plot gpt2 --over seq=8..1", 2, "has no values"),
        ("plot gpt2 --over seq=1,2 --seq 5", 2, "--seq and --over both give seq;"),
        ("plot gpt2 --over seq=1,2 --shares -q", 2, "--shares has no effect with -q"),
        ("plot gpt2 --of params --over d_model=100,200", 2, "not divisible"),
    ],
)
def test_refusals(quick: Quick, line: str, code: int, said: str) -> None:
    done = quick(*line.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_chart_is_text_of_the_same_bytes(quick: Quick) -> None:
    pytest.importorskip("plotext")
    line = ["plot", "--kind", "encoder", "--over", "seq=128..4096:x2"]
    drawn = quick(*line).stdout
    assert drawn == quick(*line).stdout
    assert "X attention equals ffn at 1,024" in drawn
    assert "\x1b" not in drawn
    assert max(map(len, drawn.splitlines())) <= 80
    assert quick(*line, "--ascii").stdout.isascii()
    assert "\x1b" in quick(*line, "--color", "always").stdout


def test_shares_are_in_json_and_alone_in_a_table(quick: Quick) -> None:
    """Per layer attention takes 4lbh(2h + l) and the feed-forward network 16lbh²: at l = 128 and h = 512
    (1024 + 128) : 2048 = 0.36 : 0.64, at 1,024 a half each."""
    line = ["plot", "--kind", "encoder", "--over", "seq=128,1024", "--shares"]
    answer = json.loads(quick(*line, "--json").stdout)
    assert [(part["name"], part["shares"]) for part in answer["parts"]] == [
        ("attention", [0.36, 0.5]),
        ("ffn", [0.64, 0.5]),
    ]
    *_, first, second, _, _ = quick(*line, "--format", "plain").stdout.splitlines()
    assert first.split()[1:-1] == ["36.0", "%", "64.0", "%"]
    assert second.split()[1:-1] == ["50.0", "%", "50.0", "%"]
    plain = json.loads(quick(*line[:-1], "--json").stdout)
    assert all("shares" not in part for part in plain["parts"])


def test_a_specification_has_the_exact_numbers(quick: Quick, tmp_path: Path) -> None:
    file = tmp_path / "growth.vl.json"
    assert quick("sweep", "gpt2", "--of", "flops", "--seq", "1k..8k:x2", "-o", str(file)).returncode == 0
    drawn = json.loads(file.read_text())
    swept = tfcalc.sweep(tfcalc.load("gpt2"), "flops", seq_len=SEQS)
    assert [row["y"] for row in drawn["layer"][0]["data"]["values"]] == swept.values.tolist()


@pytest.mark.parametrize(("ending", "begins"), [(".svg", b"<svg"), (".png", b"\x89PNG")])
def test_files_are_drawn_alike_each_time(quick: Quick, tmp_path: Path, ending: str, begins: bytes) -> None:
    pytest.importorskip("vl_convert")
    files = [tmp_path / f"{name}{ending}" for name in "ab"]
    for file in files:
        line = ["plot", "--kind", "encoder", "--over", "seq=128..4096:x2"]
        assert quick(*line, "-o", str(file)).returncode == 0
    one, other = (file.read_bytes() for file in files)
    assert one == other
    assert one.startswith(begins)


def test_axes_are_by_factors_where_numbers_are_far_apart() -> None:
    curve = Curve("", ((1, 10.0), (1000, 20.0)))
    drawn: Any = specification(Chart("t", "seq_len", "bytes", "bytes", True, (curve,)))
    encoding = drawn["layer"][0]["encoding"]
    assert encoding["x"]["scale"] == {"type": "log", "nice": False}
    assert encoding["y"]["scale"] == {"zero": True}


@pytest.mark.parametrize(
    ("module", "line", "extra"),
    [
        ("numpy", "sweep --d-model 64,128", "sweep"),
        ("plotext", "plot --kind encoder --over seq=1,2", "plot"),
        ("vl_convert", "plot --kind encoder --over seq=1,2 -o x.svg", "plot"),
        ("pyarrow", "sweep --d-model 64,128 -o x.parquet", "parquet"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    module: str, line: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    from tfcalc.cli.main import main

    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith("tfcalc.arrays")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(line.split()) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert f"is not installed; pip install 'tfcalc[{extra}]'" in said.err


def test_a_length_that_is_swept_asks_for_flops(quick: Quick) -> None:
    line = ("sweep", "gpt2", "--seq", "1k,2k", "--json")
    assert quick(*line).stdout == quick(*line, "--of", "flops").stdout


def test_plot_is_a_sweep_of_parts(quick: Quick) -> None:
    pytest.importorskip("plotext")
    asked = ("gpt2", "--seq", "128..1k:x2", "--parts", "attention,ffn")
    assert quick("sweep", *asked, "--chart").stdout == quick("plot", *asked).stdout
    assert quick("sweep", *asked, "--json").stdout == quick("plot", *asked, "--json").stdout
    assert quick("sweep", *asked, "-q").stdout == quick("plot", *asked, "-q").stdout


@pytest.mark.parametrize(("model", "last"), [("gpt2", 1024), ("t5-small", 512)])
def test_a_chart_without_a_size_is_over_the_lengths_that_the_model_reads(quick: Quick, model: str, last: int) -> None:
    said = json.loads(quick("plot", model, "--json").stdout)
    assert (said["over"], said["values"][0], said["values"][-1]) == ("seq_len", 128, last)
    pytest.importorskip("plotext")
    line = ("sweep", model, "--seq", f"128..{last}:x2", "--chart")
    assert quick("sweep", model, "--chart").stdout == quick(*line).stdout


@pytest.mark.parametrize(
    "asked",
    [
        "gpt2 --phase decode --seq 64,128",
        "gpt2 --max-len 512,1024 --of params",
        "bart-base --layers 2,4 --of params",
        "gpt2 --d-ff 1024,2048 --of params",
    ],
)
def test_plot_takes_the_sizes_that_sweep_takes(quick: Quick, asked: str) -> None:
    whole = json.loads(quick("plot", *asked.split(), "--json").stdout)["whole"]
    *_, answers = json.loads(quick("sweep", *asked.split(), "--json").stdout)["columns"]
    assert whole == answers["values"]


@pytest.mark.parametrize("over", ["seq=128..4k:x2", "d_model=192,384"])
def test_a_size_with_several_values_is_what_the_plot_is_over(quick: Quick, over: str) -> None:
    name, _, values = over.partition("=")
    said = quick("plot", "gpt2", "--over", over, "--json").stdout
    assert json.loads(said)
    assert quick("plot", "gpt2", f"--{name.replace('_', '-')}", values, "--json").stdout == said


@pytest.mark.parametrize(
    ("asked", "name", "values", "of", "alone"),
    [
        ("qwen3.5-35b-a3b", "--layers", (3, 7), "params", "params"),
        ("qwen3.5-397b-a17b", "--layers", (7, 3, 61), "params", "params"),
        ("granite-4.0-h-micro", "--layers", (3, 7, 41), "params", "params"),
        ("granite-4.0-h-micro --train", "--layers", (3, 7), "flops", "flops"),
        ("gemma-4-31b-it-nvfp4", "--layers", (7, 12), "params", "params"),
        ("gemma-4-31b-it-nvfp4 --seq 4k", "--layers", (1, 7, 12), "flops", "flops"),
        ("lfm2-1.2b", "--layers", (1, 3, 7, 17), "params", "params"),
        ("lfm2-350m --phase decode --cached 1k", "--layers", (2, 16), "flops", "flops"),
        ("gpt-neo-1.3b", "--layers", (1, 5, 25), "flops", "flops"),
        ("t5-small --encoder-layers 3", "--layers", (2, 17), "params", "params"),
        ("bart-base --decoder-layers 3", "--layers", (2, 17), "params", "params"),
        ("bart-base", "--layers", (2, 17), "params", "params"),
        ("lfm2-1.2b", "--heads", (1, 8, 3, 16), "params", "params"),
        ("gpt2 --phase decode", "--seq", (64, 128), "flops", "flops"),
        ("bert-base-uncased", "--max-len", (100, 200, 600), "flops", "flops"),
        ("bert-base-uncased --train", "--max-len", (100, 600), "memory", "memory"),
        ("gpt2", "--max-len", (100, 600), "cache", "memory --serve"),
    ],
)
def test_every_point_is_the_single_answer(
    asked: str, name: str, values: tuple[int, ...], of: str, alone: str, quick: Quick
) -> None:
    listed = ",".join(map(str, values))
    done = quick("sweep", *asked.split(), name, listed, "--of", of, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    *_, column = json.loads(done.stdout)["columns"]
    keys = {"kv_cache_bytes": ("kv_cache_bytes",)}.get(column["name"], ("peak_bytes", column["name"]))
    for value, point in zip(values, column["values"], strict=True):
        single = quick(*alone.split(), *asked.split(), name, str(value), "--json")
        if point is None:
            assert single.returncode in (2, 3)
        else:
            told = json.loads(single.stdout)
            assert point == next(told[key] for key in keys if key in told)


def test_layers_of_both_stacks_beside_those_of_one(quick: Quick) -> None:
    done = quick("sweep", "t5-small", "--layers", "2,4", "--encoder-layers", "3,5", "--json")
    *_, column = json.loads(done.stdout)["columns"]
    singles = [
        int(quick("params", "t5-small", "--layers", f"{layers}", "--encoder-layers", f"{own}", "-q").stdout)
        for layers in (2, 4)
        for own in (3, 5)
    ]
    assert column["values"] == singles
    none = quick("sweep", "t5-small", *["--layers", "2,4", "--encoder-layers", "3,5", "--decoder-layers", "1,2"])
    assert none.returncode == 2
    assert "n_layers changes nothing beside encoder_layers and decoder_layers" in none.stderr


def test_what_follows_the_swept_context_is_not_told_of_all_points(quick: Quick) -> None:
    done = quick("sweep", "bert-base-uncased", "--max-len", "100,200", "--of", "flops", "--json")
    assert "seq_len" not in json.loads(done.stdout)["conventions"]
    alone = quick("sweep", "bert-base-uncased", "--max-len", "100,200", "--of", "flops", "--seq", "64", "--json")
    assert json.loads(alone.stdout)["conventions"]["seq_len"] == 64


def test_an_axis_says_its_unit_and_counts_lengths_as_they_are_typed(quick: Quick) -> None:
    """k of lengths is 1,024, and bytes are told in GiB (2^30 bytes), by the name of the quantity."""
    curve = Curve("", ((1024, 2.0**30), (8192, 2.0**33)))
    drawn: Any = specification(Chart("t", "seq_len", "peak memory", "bytes", True, (curve,)))
    (layer,) = drawn["layer"]
    x, y = layer["encoding"]["x"]["axis"], layer["encoding"]["y"]
    assert x["values"] == [2048, 4096, 6144, 8192]
    assert "1024 + 'k'" in x["labelExpr"]
    assert (y["field"], y["title"]) == ("GiB", "peak memory, GiB")
    assert layer["transform"] == [{"calculate": "datum.y / 1073741824", "as": "GiB"}]
    table = quick("sweep", "gpt2", "--seq", "64,128", "--of", "memory", "--train").stdout
    assert "seq_len  peak memory" in table
    assert "peak_bytes" not in table
