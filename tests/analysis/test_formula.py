"""Closed forms in every notation: the letters of the legend, of the formula and of --substitute are the same."""

from __future__ import annotations

import re
from itertools import product
from math import floor

import pytest

from tests.conftest import Program
from tests.formula_reader import evaluate, letters_of
from tfcalc import InvalidModel, Transformer, UsageError, Workload, explain, formula, load, sweep
from tfcalc.analysis.closed_form import Formula
from tfcalc.core.notation import NOTATIONS, spelled
from tfcalc.report.style import Style

ASKED = (
    ("ffn", "params", None, "classic"),
    ("core", "params", None, "classic"),
    ("complete", "flops", Workload(phase="train"), "classic"),
    ("mha", "params", None, "classic"),
    ("complete", "params", None, "bart-base"),
    ("complete", "flops", Workload(phase="decode"), "llama-3-8b"),
    ("complete", "flops", None, "deepseek-v3"),
    ("complete", "params", None, "clip-vit-base-patch32"),
    ("complete", "params", None, "qwen3.5-35b-a3b"),
)
EVERY = [
    ("complete", of, run, name)
    for name in (
        "gpt2",
        "mixtral-8x7b",
        "t5-small",
        "deepseek-v2-lite",
        "ai21-jamba-1.5-large",
        "mamba2-780m",
        "recurrentgemma-2b",
        "gemma-2-9b",
        "whisper-small",
        "vit-base-patch16-224",
        "swin-base-patch4-window7-224",
        "qwen2-vl-2b-instruct",
        "albert-large-v2",
        "gpt-oss-20b",
    )
    for of, run in (("params", None), ("flops", Workload(phase="train")), ("flops", Workload(phase="decode")))
]


def asked(target: str, of: str, run: Workload | None, name: str, **more: object) -> Formula:
    model = Transformer(vocab_size=1000) if name == "classic" else load(name)
    return formula(target, of, model, run, general=name == "classic", **more)  # type: ignore[arg-type]


def printed(answer: Formula, notation: str) -> str:
    return answer.text(Style(notation=notation))


def sizes(answer: Formula, notation: str) -> dict[str, int]:
    """A size for each letter of the legend; heads divide widths, patches images."""
    return {spelled(letter, notation): 60 * (place + 1) for place, letter in enumerate(answer.legend)}


@pytest.mark.parametrize(("what", "notation"), list(product(ASKED, NOTATIONS)))
def test_what_is_substituted_is_what_the_legend_says(
    what: tuple[str, str, Workload | None, str], notation: str
) -> None:
    whole = asked(*what)
    at = sizes(whole, notation)
    for letter in whole.legend:
        called = spelled(letter, notation)
        part = asked(*what, substitute={called: at[called]}, notation=notation)
        assert letter not in part.legend
        rest = {other: size for other, size in at.items() if other != called}
        one, other = evaluate(printed(part, notation), rest), evaluate(printed(whole, notation), at)
        assert floor(one) == floor(other), called  # images have whole patches alone


@pytest.mark.parametrize(("what", "notation"), list(product((*ASKED, *EVERY), NOTATIONS)))
def test_the_legend_has_the_letters_that_are_printed_and_no_others(
    what: tuple[str, str, Workload | None, str], notation: str
) -> None:
    try:
        answer = asked(*what)
    except InvalidModel:
        assert what[2] is not None
        assert what[2].decoding  # of a model that writes no text
        return
    legend = [spelled(letter, notation) for letter in answer.legend]
    assert len(set(legend)) == len(legend), "one letter has two meanings"
    assert letters_of(printed(answer, notation), legend) == set(legend)


@pytest.mark.parametrize(
    ("notation", "given", "right"), [("bsld", "n", "N_l"), ("bsld", "a", "h"), ("names", "h", "d_model")]
)
def test_a_letter_of_another_notation_is_answered_with_the_right_one(notation: str, given: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"'{given}' is no letter of notation {notation}; write {right}$"):
        formula("core", substitute={given: 6}, notation=notation)


def test_names_of_sizes_do_in_every_notation() -> None:
    by_hand = 6 * (28 * 512**2 + 32 * 512) + 4 * 512
    for notation in NOTATIONS:
        answer = formula("core", substitute={"d_model": 512, "num_hidden_layers": 6}, notation=notation)
        assert answer.text() == str(by_hand) == "44140544"
        assert not answer.legend


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("ffn", "--notation", "bsld", "--substitute", "d=512"), 2 * 4 * 512**2 + 5 * 512),
        (("ffn", "--notation", "bsld", "--general", "--substitute", "d=512,d_ff=2k"), 2 * 512 * 2000 + 512 + 2000),
        (("ffn", "--notation", "bsld", "--json", "--substitute", "d=512"), 2 * 4 * 512**2 + 5 * 512),
    ],
)
def test_on_the_command_line(tfcalc: Program, arguments: tuple[str, ...], answer: int) -> None:
    result = tfcalc("formula", *arguments, "-q")
    assert (result.stdout, result.returncode) == (f"{answer}\n", 0)


def test_sympy_has_the_letters_of_the_notation(tfcalc: Program) -> None:
    assert tfcalc("formula", "mha", "--notation", "bsld", "--sympy").stdout == "4*d**2 + 4*d\n"


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("mha", "--of", "flops", "--letters", "h=d,l=n"), "4nbd(2d + n)"),
        (
            ("mha", "--of", "flops", "--letters", "d_model=d,seq=n", "--substitute", "d=2,n=5"),
            f"{4 * 5 * 2 * (2 * 2 + 5)}b",
        ),
        (("mha", "--notation", "bsld", "--letters", "d=D"), "4D² + 4D"),
        (("mha", "--letters", "h=d", "--latex"), "4 d^{2} + 4 d"),
        (("mha", "--letters", "h=d", "--sympy"), "4*d**2 + 4*d"),
    ],
)
def test_letters_of_ones_own(tfcalc: Program, arguments: tuple[str, ...], printed: str) -> None:
    alone = () if {"--latex", "--sympy"} & set(arguments) else ("-q",)
    assert tfcalc("formula", *arguments, *alone).stdout == f"{printed}\n"


@pytest.mark.parametrize(
    ("letters", "message"),
    [
        ("h=b", "'b' is batch size here; give that a letter of its own: b=…"),
        ("h=2", "'2' cannot be a letter; write letters as h=d,l=n"),
        ("h=x,d_model=y", "'h' and 'd_model' name one size twice; give it one letter"),
        ("h", "--letters 'h' is not a list of symbol=letter; write h=d,l=n"),
    ],
)
def test_letters_that_cannot_be(tfcalc: Program, letters: str, message: str) -> None:
    result = tfcalc("formula", "mha", "--of", "flops", "--letters", letters)
    assert (result.stdout, result.stderr, result.returncode) == ("", f"tfcalc: {message}\n", 2)


@pytest.mark.parametrize(
    ("target", "of", "model", "printed"),
    [
        ("mha", "params", "llama-3-8b", "h(ad) + 2h(gd) + (ad)h"),
        ("mha", "params", "classic", "3h·h + 3h + h·h + h"),
        ("ffn", "params", "classic", "h(4h) + 4h + (4h)h + h"),
        ("output", "flops", "classic", "2(lb)hV"),
    ],
)
def test_each_matrix_is_a_term_of_its_own(target: str, of: str, model: str, printed: str) -> None:
    chosen = Transformer() if model == "classic" else load(model)
    form = formula(target, of, chosen, by_matrix=True)
    assert str(form).replace("·", "") == printed.replace("·", "")
    at = {"h": 64, "a": 4, "g": 2, "d": 16, "l": 3, "b": 5, "V": 7}
    value = form.closed.at(at)
    assert evaluate(str(form), at) == value


def test_what_is_left_out_is_said_in_per_cent() -> None:
    encoder, decoder = formula("encoder-layer", approx=True), formula("decoder-layer", approx=True)
    assert round(1 - 3_145_728 / 3_152_384, 4) == 0.0021  # 12h² of 12h² + 13h at h = 512
    assert round(1 - 4_194_304 / 4_204_032, 4) == 0.0023  # 16h² of 16h² + 19h
    assert any(note.startswith("0.21 % less than the exact 3,152,384") for note in encoder.notes)
    assert any(note.startswith("0.23 % less than the exact 4,204,032") for note in decoder.notes)


@pytest.mark.parametrize("of", ["params", "flops", "time"])
def test_remarks_name_no_letters_that_another_notation_has_otherwise(of: str) -> None:
    model = Transformer(kind="decoder", pattern="sliding:8")
    answer = formula("core", of, model, Workload(attention="causal" if of == "flops" else "full"))
    for note in answer.notes:
        assert not {"l²/2", "l(l+1)/2", "a ≤ h", "k ≤ l"} & set(note.replace(",", "").split(" "))
        assert not re.search(r" ≤ [hl]\b", note)


def test_memory_at_rest_is_in_the_models_own_number_format() -> None:
    """fp32 for the classic model, 4 bytes for each of 4h² + 4h; and so wherever it is asked for."""
    form = formula("mha", "memory")
    assert form.at(h=512) == 4 * (4 * 512**2 + 4 * 512)
    assert sum(line.value for line in explain("mha", of="memory").lines) == form.at(h=512)
    assert sweep(Transformer(), "memory", d_model=[512]).values.tolist() == [4 * 44_140_544]
