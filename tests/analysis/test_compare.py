"""Models side by side: numbers by hand, the same as each model's own answers, and what may stand beside what."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

import tfcalc
from tests.conftest import Program
from tfcalc import Operand, Training, Workload
from tfcalc.answers.compare import compare
from tfcalc.report.declared import Unknown


def test_twice_the_heads_of_keys_by_hand() -> None:
    model = tfcalc.load("llama-3-8b")
    found = compare(model, Operand("all heads", model.replaced(n_kv_heads=32)))
    more = 32 * 2 * 4096 * (32 - 8) * 128  # of each layer's W_K and W_V, for 24 more heads of 128
    assert found.row("total_params").values == (8_030_261_248, 8_030_261_248 + more)
    assert found.row("attention_params").difference(1) == more
    assert found.row("forward_flops_per_token").difference(1) == 2 * more
    assert found.row("kv_cache_bytes_per_token").values == (131_072, 4 * 131_072)
    assert found.row("kv_cache_bytes_per_token").ratio(1) == 4
    assert found.row("kv_heads").values == (8, 32)
    assert [row.key for row in found.rows if row.differs] == [
        "kv_heads",
        "total_params",
        "active_params",
        "attention_params",
        "forward_flops_per_token",
        "training_flops_per_token",
        "weights_bytes",
        "kv_cache_bytes_per_token",
        "kv_cache_bytes",
    ]


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "bert-base-uncased", "t5-small"])
def test_a_column_is_the_answers_of_its_model(name: str) -> None:
    found = compare("gpt2", name, workload=Workload(seq_len=128, batch_size=2))
    model, run = tfcalc.load(name), Workload(seq_len=128, batch_size=2)
    params = tfcalc.params(model)
    expected = {
        "total_params": params.answer,
        "active_params": params.totals["active_params"],
        "embedding_params": params.totals["embedding_params"],
        "attention_params": params.by_kind()["attention"],
        "forward_flops_per_token": tfcalc.flops(model, run).totals["flops_per_token"],
        "training_flops_per_token": tfcalc.flops(model, run.replaced(phase="train")).totals["flops_per_token"],
        "weights_bytes": tfcalc.memory(model).answer,
    }
    for key, value in expected.items():
        assert found.row(key).values[1] == value, key


def test_the_kinds_add_up() -> None:
    found: dict[str, Any] = compare("mixtral-8x7b", "bert-base-uncased", "mamba2-780m").to_dict()
    for row in found["models"]:
        kinds = [key for key in row if key.endswith("_params") and key not in ("total_params", "active_params")]
        assert sum(row[key] for key in kinds) == row["total_params"]


def test_each_may_have_a_plan_of_its_own() -> None:
    model, run = tfcalc.load("gpt2"), Workload(seq_len=256, phase="train")
    plans = [Training(), Training(lora=8)]
    found = compare(*(Operand(f"{place}", model, run, plan) for place, plan in enumerate(plans)))
    assert found.row("training_peak_bytes").values == tuple(
        tfcalc.memory(model, run, training=plan).answer for plan in plans
    )


def test_two_of_a_family_name_the_fields_that_move_something() -> None:
    """24 key and value heads more, and half of the layers: each alone in the first model."""
    found = compare("llama-3-8b", Operand("other", tfcalc.load("llama-3-8b").replaced(n_kv_heads=32, n_layers=16)))
    moved = {one.fields[0]: {row.key: row.difference for row in one.rows} for one in found.moved}
    assert [field.field for field in found.fields] == ["num_hidden_layers", "num_key_value_heads"]
    assert moved["num_key_value_heads"]["total_params"] == 32 * 2 * 4096 * (32 - 8) * 128
    assert moved["num_hidden_layers"]["kv_cache_bytes_per_token"] == -16 * 2 * 8 * 128 * 2
    assert "num_hidden_layers 32 -> 16, alone: parameters -3.49B" in str(found)
    opened = tfcalc.explain("compare.moved.0.rows.total_params.new", found)
    assert opened.answer == found.moved[0].rows[0].new


@pytest.mark.parametrize("names", [("llama-3-8b", "qwen3-8b"), ("gpt2", "gpt2-medium", "gpt2-large")])
def test_others_have_no_fields_to_compare(names: tuple[str, ...]) -> None:
    assert not {"fields", "moved", "not_attributed"} & set(compare(*names).to_dict())


def test_what_one_of_them_has_not_is_said() -> None:
    found = compare("bert-base-uncased", "gpt2")
    cache = found.row("kv_cache_bytes").values[0]
    assert isinstance(cache, Unknown)
    assert "BertModel" in cache.reason
    assert found.row("kv_cache_bytes").ratio(1) is None
    told: dict[str, Any] = found.to_dict()
    assert told["models"][0]["kv_cache_bytes"] is None
    assert [row[1] for row in found.sheet().rows if row[0] == "KV cache at context"] == ["none"]


def test_two_of_one_name_are_told_apart() -> None:
    assert compare("gpt2", "gpt2").names == ("gpt2 (1)", "gpt2 (2)")


@pytest.mark.parametrize("count", [0, 1, 9])
def test_two_to_eight_models(count: int) -> None:
    with pytest.raises(tfcalc.UsageError, match="name 2 to 8"):
        compare(*["gpt2"] * count)


def test_the_length_is_one_that_all_can_read() -> None:
    assert {one.seq_len for one in compare("llama-3-8b", "bert-base-uncased").workloads} == {512}


def test_the_command_line_and_the_library_answer_alike(tfcalc: Program) -> None:
    import tfcalc as library

    line = ["compare", "gpt2", "gpt2 --layers 6", "gpt2-medium", "--seq", "512", "--train"]
    found = json.loads(tfcalc(*line, "--json").stdout)
    gpt2 = library.load("gpt2")
    operands = [
        Operand("gpt2", gpt2),
        Operand("gpt2 --layers 6", gpt2.replaced(n_layers=6)),
        Operand("gpt2-medium", library.load("gpt2-medium")),
    ]
    expected = library.compare(*operands, workload=Workload(seq_len=512), training=Training())
    assert found == json.loads(json.dumps(expected.to_dict()))


def test_options_of_one_win_over_those_of_all(tfcalc: Program) -> None:
    line = ["compare", "gpt2", "gpt2 --seq 256 --qlora --checkpointing full", "--seq", "512", "--train", "--json"]
    first, second = json.loads(tfcalc(*line).stdout)["models"]
    assert (first["seq_len"], second["seq_len"]) == (512, 256)
    asked = ["--train", "--seq", "256", "--qlora", "--checkpointing", "full", "-q"]
    assert second["training_peak_bytes"] == int(tfcalc("memory", "gpt2", *asked).stdout)


def test_formats(tfcalc: Program) -> None:
    line = ["compare", "gpt2", "gpt2-medium"]
    rows = list(csv.DictReader(io.StringIO(tfcalc(*line, "--format", "csv").stdout)))
    assert {row["quantity"]: row["gpt2"] for row in rows}["total_params"] == "124439808"  # transformers (tests/oracle)
    markdown = tfcalc(*line, "--format", "markdown").stdout
    assert "|  | gpt2 | gpt2-medium | difference | ratio |\n| --- | ---: | ---: | ---: | ---: |\n" in markdown
    assert tfcalc(*line, "-q").stdout == "124439808\n354823168\n"
    short = tfcalc(*line, "--only-differences").stdout
    assert "Same:" not in short
    assert "Same:" in tfcalc(*line).stdout


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (["gpt2"], 2, "1 model to compare; name 2 to 8"),
        (["gpt2", "lama-3-8b"], 3, "did you mean llama-3-8b?"),
        (["gpt2", "gpt2 --laers 3"], 2, "did you mean --layers?"),
        (["gpt2", "gpt2 --heads 7"], 2, "7"),
        (["gpt2", "gpt2 'x"], 2, "not closed"),
        (["gpt2", "gpt2 gpt2"], 2, "gpt2"),
        (["gpt2", "gpt2-medium", "--lora", "8"], 2, "add --train"),
        (["gpt2", "gpt2-medium", "--kv", "fp8"], 2, "add --serve"),
    ],
)
def test_what_cannot_be_compared(tfcalc: Program, line: list[str], code: int, says: str) -> None:
    result = tfcalc("compare", *line)
    assert (result.returncode, result.stdout) == (code, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
