"""`tfcalc formula` without a target: the summary table of a textbook, and that of any preset."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Program, recorded
from tfcalc import Transformer, formula, formulas, load, params

TEXTBOOK = [row for row in recorded("textbook.json") if not row.get("options") and not row.get("general")]
COLUMNS = {"params": "params", "flops": "flops", "time": "time"}


def column(row: dict[str, object]) -> str:
    return "approx" if row.get("approx") else COLUMNS.get(str(row["of"]), "")


@pytest.mark.parametrize(
    "row", [row for row in TEXTBOOK if column(row)], ids=lambda row: f"{row['target']}-{row['of']}-{row['formula']}"
)
def test_the_summary_of_a_textbook(row: dict[str, object]) -> None:
    parts = {part.target: part for part in formulas().parts}
    assert parts[str(row["target"])].to_dict()[f"{column(row)}_formula"] == row["formula"]


def test_its_rows_are_those_of_the_table() -> None:
    rows = [part.target for part in formulas().parts]
    stacks = ["encoder-layer", "decoder-layer", "encoder", "decoder", "core"]
    assert rows == ["mha", "cross-mha", "ffn", "ln", *stacks, "embedding", "output", "complete"]


def test_what_is_left_out_is_a_fraction_of_the_exact_number() -> None:
    parts = {part.target: part for part in formulas().parts}
    exact, approximate = 12 * 512**2 + 13 * 512, 12 * 512**2
    encoder = parts["encoder-layer"]
    assert (encoder.params, encoder.approx_params) == (exact, approximate)
    assert encoder.to_dict()["approx_error"] == (exact - approximate) / exact
    assert parts["ln"].row()[3] is None  # all of it: no error that says anything
    assert parts["complete"].to_dict()["approx_error"] is None  # the vocabulary is not known


@pytest.mark.parametrize(
    "name", ["llama-3-8b", "gpt2", "t5-small", "bert-base-uncased", "mixtral-8x7b", "deepseek-v3", "mamba2-780m"]
)
def test_the_parts_of_a_preset(name: str) -> None:
    model = load(name)
    found = formulas(model)
    assert found.whole.params == params(model).answer
    at = model.values()
    for part in found.parts:
        assert part.forms.params.at(at) == part.params
        if part.number == 1 and part.target != "layer":
            assert part.forms.params == formula(part.target, "params", model).closed
    assert len({part.path for part in found.parts}) == len(found.parts)


def test_parts_that_differ_are_told_apart() -> None:
    layers = [part for part in formulas(load("deepseek-v3")).parts if part.target == "layer"]
    assert [part.row()[0] for part in layers] == ["layer", "layer 2"]  # 3 dense ones, 58 with experts
    assert str(layers[0].forms.params) != str(layers[1].forms.params)


def test_both_doors(tfcalc: Program) -> None:
    printed = json.loads(tfcalc("formula", "--json", "--d-model", "64", "--heads", "4").stdout)
    assert printed == formulas(Transformer(d_model=64, n_heads=4)).to_dict()
    assert tfcalc("formula", "-q").stdout == "n(28h² + 32h) + (4 + 2V)h\n"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--of", "flops"), ("--latex", None), ("--sympy", None), ("--approx", None), ("--substitute", "h=2")],
)
def test_what_is_of_one_part_is_refused_without_one(tfcalc: Program, option: str, value: str | None) -> None:
    words = [option, value] if value else [option]
    result = tfcalc("formula", *words)
    assert (result.stdout, result.returncode) == ("", 2)
    assert result.stderr.startswith(f"tfcalc: {' '.join(words)} has no effect without a target; leave it out, or name")


def test_an_option_of_memory_is_refused(tfcalc: Program) -> None:
    assert tfcalc("formula", "--serve").returncode == 2
