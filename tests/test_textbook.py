"""Every formula of the textbooks: its print, its symbols, its numbers. Source: tests/oracle/README.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sympy

from tests.conftest import recorded
from tests.formula_reader import evaluate
from tfcalc import Transformer, Workload, explain, flops, formula, memory, params
from tfcalc.symbolic import to_sympy, tree

ROWS = recorded("textbook.json")


@pytest.fixture(params=ROWS, ids=[f"{row['target']}-{row['of']}-{row['formula']}" for row in ROWS])
def row(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def found(row: dict[str, Any], **more: Any) -> Any:
    model = Transformer(**row.get("options", {}))
    flags = {name: row[name] for name in ("approx", "general") if name in row}
    return formula(row["target"], row["of"], model, **flags, **more)


def expected(row: dict[str, Any]) -> Any:
    letters = {letter: sympy.Symbol(letter, integer=True, positive=True) for letter in "hlbnfV"}
    return sympy.sympify(row["sympy"], locals=letters)  # the text is ours, from a file of this project


def test_it_is_printed_as_in_the_textbook(row: dict[str, Any]) -> None:
    assert str(found(row)) == row["formula"]


def test_it_is_symbolically_equal(row: dict[str, Any]) -> None:
    assert sympy.expand(to_sympy(found(row).closed) - expected(row)) == 0


def test_it_has_the_recorded_values(row: dict[str, Any]) -> None:
    for at, value in row["values"]:
        assert found(row, substitute=at).closed == value
        assert evaluate(str(found(row)), at) == value


def test_its_ascii_says_the_same(row: dict[str, Any]) -> None:
    ascii_text = found(row).to_dict()["ascii"]
    assert ascii_text.isascii()
    at = {"h": 7, "l": 11, "b": 13, "n": 17, "f": 19, "V": 23}
    assert evaluate(ascii_text, at) == evaluate(row["formula"], at)


def test_sympy_symbols_through_the_tree_give_the_core() -> None:
    from tfcalc.core.measure import matmul_flops
    from tfcalc.core.measure import params as count

    n, h, l, b = (sympy.Symbol(letter, integer=True, positive=True) for letter in "nhlb")
    root = tree(Transformer())
    assert sympy.expand(root.total(count) - (n * (28 * h**2 + 32 * h) + 4 * h)) == 0
    assert sympy.expand(root.total(matmul_flops) - 4 * n * l * b * h * (14 * h + 3 * l)) == 0


def test_latex_is_what_sympy_would_print() -> None:
    h = sympy.Symbol("h", positive=True)
    assert formula("mha").latex() == sympy.latex(4 * h**2 + 4 * h)


def test_the_core_has_the_parameters_of_torch_nn_transformer() -> None:
    assert params(Transformer()).answer == 44_140_544  # torch.nn.Transformer()


def test_the_textbook_core_has_no_final_norms() -> None:
    assert params(Transformer(final_norm="pre-norm")).answer == 44_138_496
    assert params(Transformer(final_norm="pre-norm", pre_norm=True)).answer == 44_140_544


def test_source_and_target_of_different_length() -> None:
    """src (10, 32, 512) and tgt (20, 32, 512) through torch.nn.Transformer(), by FlopCounterMode."""
    run = Workload(batch_size=32, seq_len=20, source_len=10)
    assert flops(Transformer(), run).answer == 42_553_835_520


def test_the_weights_of_the_core_in_fp32() -> None:
    report = memory(Transformer())
    assert report.answer == 176_562_176
    assert report.rounded() == "168 MiB"


def test_the_shares_of_the_core() -> None:
    kinds = params(Transformer()).by_kind()
    shares = {kind: f"{value / 44_140_544:.1%}" for kind, value in kinds.items()}
    assert shares == {"ffn": "57.1%", "attention": "42.8%", "norm": "0.1%"}


@pytest.mark.parametrize(("target", "percent"), [("encoder-layer", 0.21), ("decoder-layer", 0.23)])
def test_the_approximation_is_off_by_so_much(target: str, percent: float) -> None:
    exact = formula(target, substitute={"h": 512}).closed.at({})
    rough = formula(target, approx=True, substitute={"h": 512}).closed.at({})
    assert round(100 * (exact - rough) / exact, 2) == percent


def test_a_gpt2_shaped_model_has_gpt2s_parameters() -> None:
    """124,439,808 with the tied head, 163,037,184 with the head counted again (radford et al. 2019; transformers)."""
    gpt2 = Transformer(
        kind="decoder",
        d_model=768,
        n_heads=12,
        n_layers=12,
        vocab_size=50_257,
        positions="learned",
        max_len=1024,
        output_head="tied",
        pre_norm=True,
        activation="gelu",
    )
    assert params(gpt2).answer == 124_439_808
    assert params(replace(gpt2, output_head="untied")).answer == 163_037_184


def test_explaining_attention_names_every_matrix() -> None:
    lines = explain("attention", Transformer(d_model=768, n_heads=12)).lines
    assert [(line.names, line.value) for line in lines] == [
        (("W_Q", "W_K", "W_V"), 1_769_472),
        (("b_Q", "b_K", "b_V"), 2_304),
        (("W_O",), 589_824),
        (("b_O",), 768),
    ]
    assert lines[2].note == "output projection"
    assert "12 × 64 = 768" in lines[0].note
