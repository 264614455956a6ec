"""Formulas are graded: by the table of what students write, and by every formula that tfcalc itself prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.analysis.formulas_to_check import RIGHT, UNSEEN_RIGHT, UNSEEN_WRONG, WRONG
from tests.conftest import Program
from tfcalc import Serving, TfcalcError, Training, Transformer, UsageError, Workload, formula, load
from tfcalc.analysis.check import FormulaCheck, check
from tfcalc.analysis.check_causes import cause_of, proportion
from tfcalc.core.notation import NOTATIONS
from tfcalc.core.polynomial import symbols
from tfcalc.expressions import Ratio
from tfcalc.report.style import Style

h, a, l, n = symbols("h a l n")


@pytest.mark.parametrize(("target", "text", "options"), RIGHT)
def test_what_is_right_is_found_right(target: str, text: str, options: dict[str, Any]) -> None:
    found = check(target, text, **options)
    assert found.correct
    assert found.verdict().startswith("yes: ")
    assert not found.difference.top.terms


@pytest.mark.parametrize(("target", "text", "options", "cause"), WRONG)
def test_what_is_wrong_is_found_wrong_with_its_cause(
    target: str, text: str, options: dict[str, Any], cause: str
) -> None:
    found = check(target, text, **options)
    assert not found.correct
    assert found.verdict().startswith("no: ")
    assert cause in found.verdict()


def asked(target: str, text: str, options: dict[str, Any]) -> FormulaCheck:
    """The same with ``model`` as a preset, and ``train`` for a training step."""
    given: dict[str, Any] = {name: value for name, value in options.items() if name not in ("model", "train")}
    if "model" in options:
        given["model"] = load(options["model"])
    if "train" in options:
        given["workload"] = Workload(phase="train")
    return check(target, text, **given)


@pytest.mark.parametrize(("target", "text", "options"), UNSEEN_RIGHT)
def test_odd_writing_that_is_right(target: str, text: str, options: dict[str, Any]) -> None:
    assert asked(target, text, options).correct


@pytest.mark.parametrize(("target", "text", "options", "cause"), UNSEEN_WRONG)
def test_what_had_not_been_seen_is_found_wrong(target: str, text: str, options: dict[str, Any], cause: str) -> None:
    found = asked(target, text, options)
    assert not found.correct
    assert cause in found.verdict()


def test_there_are_enough_of_both() -> None:
    assert min(len(RIGHT), len(WRONG)) >= 30


CLASSIC = ("mha", "cross-mha", "ffn", "ln", "encoder-layer", "decoder-layer", "encoder", "decoder", "core", "complete")
PRESETS = ("gpt2", "llama-3-8b", "mixtral-8x7b", "gemma-2-2b", "bert-base-uncased", "t5-small", "deepseek-v2-lite")


PRINTED = (("params", "names", "text"), ("flops", "bsld", "ascii"), ("memory", "lbhn", "text"))


@pytest.mark.parametrize("notation", sorted(NOTATIONS))
@pytest.mark.parametrize("script", ["text", "ascii"])
def test_what_is_printed_of_the_classic_model_is_right(notation: str, script: str) -> None:
    for target in CLASSIC:
        for of in ("params", "flops", "memory", "time"):
            for general in (False, True):
                printed = formula(target, of, general=general).text(Style(script=script, notation=notation))
                assert check(target, printed, of, general=general, notation=notation).correct, printed


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_printed_of_a_preset_is_right(preset: str) -> None:
    model = load(preset)
    for target in ("layer", "attention", "complete"):
        for of, notation, script in (
            ("params", "names", "text"),
            ("flops", "bsld", "ascii"),
            ("memory", "lbhn", "text"),
        ):
            printed = formula(target, of, model).text(Style(script=script, notation=notation))
            assert check(target, printed, of, model, notation=notation).correct, printed


TRAINED = {"workload": Workload(phase="train"), "training": Training()}
HELD: dict[str, dict[str, Any]] = {
    "training": TRAINED,
    "adapters": TRAINED | {"training": Training(lora=8)},
    "serving": {"serving": Serving()},
    "a dynamic cache": {"serving": Serving(cache="dynamic")},
    "at rest": {},
}
TERMS = ("weights", "gradients", "optimizer", "activations", "cache", "temporary", "workspaces", "complete")
"""Terms of memory, of which each answer has some."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize("preset", [*PRESETS, "mamba-1.4b"])
def test_what_is_printed_of_memory_is_right(preset: str, how: str) -> None:
    model, asked, checked = load(preset), HELD[how], 0
    for term in TERMS:
        try:
            printed = str(formula(term, "memory", model, **asked))
        except TfcalcError:  # no term of this answer
            continue
        assert check(term, printed, "memory", model, **asked).correct, (term, printed)
        checked += 1
    assert checked or (preset, how) in NOT_HELD


NOT_HELD = [(preset, "a dynamic cache") for preset in ("bert-base-uncased", "t5-small", "mamba-1.4b")]
"""A dynamic cache is one of keys and values, of a decoder alone."""


def test_patterns_have_floors_and_minima() -> None:
    model = Transformer(pattern="local:4")
    printed = str(formula("mha", "flops", model))
    assert check("mha", printed, "flops", model).correct
    assert not check("mha", "4lbh(2h + l)", "flops", model).correct


def test_a_training_step_is_three_forward_passes() -> None:
    """Backward is twice forward (Kaplan et al. 2020, section 2.1), so 3(24lbh² + 4l²bh)."""
    train = Workload(phase="train")
    assert check("encoder-layer", "72lbh² + 12l²bh", "flops", workload=train).correct
    assert "backward costs twice" in check("encoder-layer", "24lbh² + 4l²bh", "flops", workload=train).verdict()


def test_own_letters_take_the_place_of_others() -> None:
    with pytest.raises(UsageError, match="'h' is no known letter"):
        check("mha", "4h² + 4h", letters={"h": "d"})
    with pytest.raises(UsageError, match="given for two sizes"):
        check("mha", "4h² + 4h", letters={"h": "d", "l": "d"})
    with pytest.raises(UsageError, match="'2' cannot be a letter"):
        check("mha", "4h² + 4h", letters={"h": "2"})
    with pytest.raises(UsageError, match="symbol 'q' is not known"):
        check("mha", "4h² + 4h", letters={"q": "d"})


def test_parts_of_a_preset_are_named_as_its_modules() -> None:
    """Llama 3 (Grattafiori et al. 2024, section 3.2): grouped queries, a gated feed-forward network, no biases."""
    model = load("llama-3-8b")
    assert "hf is W_g, or W_1, or W_2" in check("layer", "(2ad + 2gd + 2f + 2)h", model=model).verdict()
    assert "2h is the norms" in check("layer", "(2ad + 2gd + 3f)h", model=model).verdict()
    assert "2h·g·d is W_K, W_V" in check("layer", "(2ad + 3f + 2)h", model=model).verdict()


def test_a_difference_that_is_no_part_is_only_stated() -> None:
    found = check("mha", "h²/2 + 4h + 17")
    assert found.missed == ()
    assert found.verdict() == "no: 4h² + 4h is right; 7h²/2 is missing, 17 is too much"


def test_proportion_and_cause_by_arithmetic() -> None:
    assert proportion(Ratio(h * h + h), 6 * l * (h * h + h)) == Ratio.of(formula_of_one_by(l), 6)
    assert proportion(Ratio(h * h + 2 * h), 6 * (h * h + h)) is None
    assert cause_of(Ratio(17 * h), ()) is None


def formula_of_one_by(letter: Any) -> Any:
    return 1 / letter


NUMBERS = {
    "mha 1,050,624": (True, "yes: 1,050,624 (4h² + 4h with h = 512)"),  # 4·512² + 4·512
    "mha 4*768^2+4*768 --d-model 768 --heads 12": (True, "yes: 2,362,368 (4h² + 4h with h = 768)"),
    "mha 787,968": (False, "262,656 more; 262,656 is W_O and b_O"),  # 512² + 512
    "mha 1,048,576": (False, "2,048 more; 2,048 is the biases"),  # 4·512
    "mha 2,099,712": (False, "it is the number of ffn"),  # 8·512² + 5·512
    "mha 10,536,960 --of flops --batch 2 --seq 5": (False, "it is half of the right one: a multiply-add is 2 FLOPs"),
    "mha 21,073,920 --of flops --batch 2 --seq 5": (True, "yes: 21,073,920 (4lbh(2h + l) with h = 512, b = 2, l = 5)"),
    "layer 218,112,000 llama-3-8b": (True, "yes: 218,112,000"),  # formulas.md, section 12
    "complete 124,000,000 gpt2": (False, "124,439,808"),
    # a number that is written short is right where the exact one rounds to it
    "core 44.14M": (True, "yes: 44,140,544 (n(28h² + 32h) + 4h with h = 512, n = 6) rounds to 44.14M"),
    "core 44.15M": (False, "no: 44,140,544"),
    "core 168.4MiB --of memory": (True, "176,562,176"),  # 44,140,544 · 4 bytes
    "core 176.6MB --of memory": (True, "176,562,176"),
    "ffn 1.07e9 --of flops --seq 256": (True, "1,073,741,824"),  # 16·256·512²
    "ffn 1.1e9 --of flops --seq 256": (True, "1,073,741,824"),
    "complete 124M gpt2": (True, "124,439,808"),
    "complete 124.5M gpt2": (False, "is 60,192 less"),
    # 2 · 8 heads · 128 · 2 bytes · 32 layers = 131,072 bytes a token (shared/why-cases.md), times 8,192
    "cache 1073741824 llama-3-8b --of memory --serve --context 8k": (True, "yes: 1,073,741,824 (64n·b·g·d"),
    "cache 1GiB llama-3-8b --of memory --serve --context 8k": (True, "yes: 1,073,741,824 (64n·b·g·d"),
    "cache 512MiB llama-3-8b --of memory --serve --context 8k": (False, "it is half of the right one"),
    "cache 4n·c·b·g·d llama-3-8b --of memory --serve --cache dynamic": (True, "yes: 4n·c·b·g·d"),
    # sizes put in for letters
    "encoder 6(12h²+13h)": (True, "yes: 72h² + 78h (n(12h² + 13h) with n = 6)"),
    "encoder 6·12h²": (False, "78h is the biases and norms"),
    "encoder-layer 512·4l(6h+l) --of flops": (False, "no: 4lbh(6h + l) is right"),  # whose h is 512, it has h too
    # N parameters and D tokens: 6·12h²·lb is all of it but attention's own 12l²bh
    "encoder-layer 6ND --of flops --train": (False, "12l²bh is missing, 78lbh is too much; 6ND is a rule of thumb"),
    # Brown et al. 2020, table D.1: 3.14e23, which is 6ND of 174,600M parameters and 300B tokens
    "complete 3.14e23 gpt-3 --of flops --train --tokens 300B --seq 2048": (False, "it is 6ND, a rule of thumb, with N"),
    # a coincidence: 4·2² + 4·2 less 18 is 6 = 3·2 = 2² + 2
    "mha 18 --d-model 2 --heads 1": (False, "b_Q, b_K, b_V (3h), or W_O and b_O (h² + h): as large by coincidence"),
    # a rule that is rounded
    "encoder-layer 10h²": (False, "10h² is 12h² rounded, without 13h"),
    "encoder O(nl²h) --of time": (False, "O(n(lh² + l²h)) is nlh² more; nlh² is how X W_Q"),
}


@pytest.mark.parametrize("words", NUMBERS)
def test_a_number_is_compared_at_the_sizes_of_the_model(tfcalc: Program, words: str) -> None:
    right, said = NUMBERS[words]
    done = tfcalc("check", *words.split(), "-q")
    assert (done.returncode, said in done.stdout) == (not right, True), done.stdout


MEGATRON = (
    "gpt-3-175b --of memory --train --backend megatron-2022 --precision bf16-master --seq 2048 --checkpointing none"
)


def test_a_formula_of_one_gpu_has_no_letter_for_their_number(tfcalc: Program) -> None:
    """Korthikanti et al. 2022, equations 1 and 2: sbh(34 + 5as/h) of a layer, sbh(10 + 24/t + 5as/(ht)) on t GPUs."""
    for text, more in (
        ("34lbh + 5l²ab", ""),
        ("lbh(10 + 24/t + 5al/(ht))", ""),
        ("lbh(10 + 24/8 + 5al/(8h))", "--tp 8"),
    ):
        done = tfcalc("check", "activations.transformer.chunk.h", text, *f"{MEGATRON} {more}".split(), "-q")
        assert done.stdout.startswith("yes: "), (text, done.stdout)
    done = tfcalc("check", "activations.transformer.chunk.h", "34lbh", *MEGATRON.split(), "-q")
    assert "with t = 1) is 5l²·b·a more" in done.stdout


def test_a_formula_in_the_letters_of_another_notation_is_told_so(tfcalc: Program) -> None:
    """d is the width of a head here, and the hidden size in many texts."""
    said = "no: 4h² + 4h is right; in the letters of --notation bsld yours is the same"
    assert tfcalc("check", "mha", "4d^2 + 4d", "-q").stdout.strip() == said
    assert tfcalc("check", "mha", "4d^2 + 4d", "--notation", "bsld").returncode == 0
    assert "--notation" not in tfcalc("check", "mha", "4d^2 + 4d", "--letters", "d=x,h=d", "-q").stdout


def test_an_approximate_formula_is_right_where_that_is_asked_for(tfcalc: Program) -> None:
    assert tfcalc("check", "decoder-layer", "16h^2", "--approx", "-q").stdout == "yes: 16h²\n"
    assert tfcalc("check", "decoder-layer", "10h^2", "--approx", "-q").returncode == 1


def test_the_command(tfcalc: Program) -> None:
    done = tfcalc("check", "mha", "3*d**2 + 4*d", "--notation", "bsld", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (1, "no: 4d² + 4d is d² more; d² is W_O\n", "")
    done = tfcalc("check", "mha", "4d² + 4d", "--letters", "h=d", "-q")
    assert (done.returncode, done.stdout) == (0, "yes: 4d² + 4d\n")


def test_its_json_has_the_letters_of_lbhn(tfcalc: Program) -> None:
    done = tfcalc("check", "mha", "3*d**2 + 4*d", "--notation", "bsld", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert {key: found[key] for key in ("correct", "yours", "right", "difference", "missing", "extra")} == {
        "correct": False,
        "yours": "3h² + 4h",
        "right": "4h² + 4h",
        "difference": "-h²",
        "missing": ["h²"],
        "extra": [],
    }
    (cause,) = found["causes"]
    assert (cause["parts"], cause["counted"], cause["formula"]) == (["W_O"], "0", "h²")


@pytest.mark.parametrize(
    ("text", "told", "parts"),
    [
        (
            "12*h^2*n",
            "(13n + 2)h is the biases and norms; Vh is E; Th is P",
            [["the biases and norms"], ["E"], ["P"]],
        ),
        ("n(12h² + 13h)", "Vh is E; Th is P; 2h is transformer.ln_f", [["E"], ["P"], ["transformer.ln_f"]]),
    ],
)
def test_parts_that_are_missing_together_are_named(text: str, told: str, parts: list[list[str]]) -> None:
    """GPT-2's layers have 12h² + 13h; beside them are tables of V and T rows, and a norm of 2h."""
    found = check("complete", text, model=load("gpt2"))
    assert found.verdict().endswith(told)
    said = json.loads(json.dumps(found.to_dict()))
    assert [one["parts"] for one in said["causes"]] == parts


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("mha",), "no formula given; write tfcalc check mha"),
        ((), "no target given"),
        (("mha", "4h² + "), "at character 5: '+' needs a factor after it"),
        (("complete", "6ND", "--of", "params"), "'6ND' is of FLOPs, with N parameters and D tokens; add --of flops"),
        (("mha", "4q"), "at character 2: 'q' is no known letter or name"),
        (("mha", "4h", "--letters", "h"), "--letters 'h' is not a list of symbol=letter; write h=d,l=n"),
        (("nothing", "4h"), "target 'nothing' is not known"),
        (("mha", "(a+b+h)^(9^9)"), "the exponent is no whole number from -16 to 16"),
        (("core", "168.4MiB", "--of", "params"), "'168.4MiB' is in bytes, not in parameters; add --of memory"),
        (("complete", "44140544"), "vocabulary is not; give it (--vocab-size 32000)"),
        (("core", "12h", "--tokens", "1B", "--phase", "forward"), "1,000,000,000 tokens is made of the FLOPs of"),
    ],
)
def test_what_cannot_be_checked_is_refused(tfcalc: Program, words: tuple[str, ...], fact: str) -> None:
    done = tfcalc("check", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert fact in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_formula_or_an_amount_says_what_it_is_of(tfcalc: Program) -> None:
    """44,140,544 parameters in 4 bytes are 168.4 MiB; GPT-2's layers have 12h² + 13h; 6ND is of a training step."""
    assert tfcalc("check", "core", "168.4MiB").stdout.startswith("yes: 176,562,176 ")
    assert "(13n + 2)h is the biases and norms; Vh is E; Th is P" in tfcalc("check", "12*h^2*n", "gpt2").stdout
    assert "6ND is a rule of thumb" in tfcalc("check", "6ND", "llama-3-8b").stdout
