"""Exercises and grades. The right answers are worked out here from the numbers in each question."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

import pytest

from tests.conftest import Program
from tfcalc import quiz
from tfcalc.cli.main import main
from tfcalc.errors import UsageError
from tfcalc.exercises import KINDS, Exercise, drawn, grade

DRAWN = quiz(3, 100).exercises
IN_TEXT = {
    "multi-head attention": ("4h² + 4h", "4lbh(2h + l)"),
    "feed-forward network": ("8h² + 5h", "16lbh²"),
    "encoder layer": ("12h² + 13h", "4lbh(6h + l)"),
    "decoder layer": ("16h² + 19h", ""),
}
"""Parameters, and FLOPs of a forward pass: 8lbh² + 4l²bh of attention, 16lbh² of the network."""


def evaluated(formula: str, h: int, b: int = 0, length: int = 0) -> int:
    return {
        "4h² + 4h": 4 * h * h + 4 * h,
        "8h² + 5h": 8 * h * h + 5 * h,
        "12h² + 13h": 12 * h * h + 13 * h,
        "16h² + 19h": 16 * h * h + 19 * h,
        "4lbh(2h + l)": 4 * length * b * h * (2 * h + length),
        "16lbh²": 16 * length * b * h * h,
    }[formula]


def expected(one: Exercise) -> str | int:
    """The answer by hand."""
    text = one.question.replace("the classic Transformer (biases, LayerNorm, f = 4h)", "it")
    part = next((formulas for name, formulas in IN_TEXT.items() if name in text), ("", ""))
    found = [
        int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", re.sub(r"-\d+[\d-]*b\b", "", text))
    ]
    if "A formula" in text:
        return part[one.topic == "flops"]
    if "multiply-adds" in text:
        return 2 * found[0]
    if "training step" in text:
        h, _, b, length = found
        return 3 * evaluated(part[1], h=h, b=b, length=length)
    if "KV cache" in text:
        tokens, size, layers, groups, width = found
        return 2 * layers * groups * width * tokens * size
    if "bytes are the weights" in text:
        layers, h, _ = found
        return 4 * layers * evaluated("12h² + 13h", h=h)
    if "one layer of" in text:
        h, a, g, d, f = found
        return 2 * a * d * h + 2 * g * d * h + 3 * f * h + 2 * h
    return evaluated(part[0], h=found[0])


@pytest.mark.parametrize("one", DRAWN, ids=lambda one: str(one.number))
def test_every_answer_is_right(one: Exercise) -> None:
    right = expected(one)
    assert one.answer == right
    assert grade(3, one.number, f"{right:,}" if isinstance(right, int) else right).correct
    assert grade(3, one.number, str(right)).correct


def test_they_are_of_every_kind_and_none_repeats_another() -> None:
    kinds = sum(map(len, KINDS.values()))
    assert {one.topic for one in DRAWN[:kinds]} == set(KINDS)
    assert len({one.question for one in DRAWN}) == len(DRAWN)


@pytest.mark.parametrize(("topic", "different"), [("params", 45), ("memory", 56), ("flops", 60)])
def test_a_topic_begins_anew_when_all_its_exercises_were_drawn(topic: str, different: int) -> None:
    """4 formulas, 4 parts of 9 widths, 5 Llamas; 5 Llamas of 4 contexts, 9 widths of 4 depths; of FLOPs there are more.

    The parts of an exercise are drawn by its place alone: it is the same in a quiz of any length.
    """
    questions = [one.question for one in quiz(5, min(different + 3, 60), topic).exercises]
    assert len(set(questions[:different])) == different
    assert set(questions[different:]) <= set(questions[:different])
    assert [one.question for one in drawn(5, different, topic).exercises] == questions[different - 1 : different]


def test_a_seed_draws_the_same_however_many() -> None:
    first = [one.to_dict() for one in DRAWN[:5]]
    assert [one.to_dict() for one in quiz(3, 5).exercises] == first
    assert [one.to_dict() for one in quiz(4, 5).exercises] != first


def test_the_command_of_each_prints_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    for one in DRAWN[:16]:
        assert main([*shlex.split(one.answered_by)[1:], "-q"]) == 0
        assert capsys.readouterr().out.strip().replace(",", "") == str(one.answer)


def a_number(topic: str) -> tuple[int, int]:
    """The place and the answer of the first exercise whose answer is one."""
    return next((one.number, one.answer) for one in quiz(7, 9, topic).exercises if isinstance(one.answer, int))


def test_a_slip_is_named() -> None:
    place, right = a_number("flops")
    half = grade(7, place, str(right // 2), "flops")
    assert not half.correct
    assert "a multiply-add is 2 FLOPs" in half.verdict
    assert grade(7, place, f"{right:,}", "flops").correct
    assert not grade(7, place, str(right + 1), "flops").correct


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["1", "12h^2 + 13h"], 0, "yes: 12h² + 13h"),
        (["1", "13h + 3*4h**2"], 0, "yes: 12h² + 13h"),
        (["1", "11h² + 13h"], 1, "no: 12h² + 13h is h² more"),
        (["1", "12h² +"], 2, "needs"),
        (["0", "1"], 2, "'0' is no number of an exercise"),
        (["one"], 2, "'one' is no number of an exercise"),
        (["101"], 2, "1 to 100"),
        (["1", "--number", "3"], 2, "--number 3 has no effect"),
        (["1", "2", "--answers"], 2, "--answers has no effect"),
        (["--number", "101"], 2, "--number"),
    ],
)
def test_the_program(capsys: pytest.CaptureFixture[str], words: Sequence[str], code: int, told: str) -> None:
    assert main(["quiz", *words, "--seed", "3", "--topic", "params"]) == code
    out, err = capsys.readouterr()
    assert told in (err if code == 2 else out)
    assert bool(out) == (code != 2)


def test_a_formula_where_a_number_is_asked_for() -> None:
    with pytest.raises(UsageError, match="'h' is no number; write 1050624"):
        grade(7, a_number("memory")[0], "h", "memory")


def test_answers_are_at_the_end_of_markdown_alone(tfcalc: Program) -> None:
    first = quiz(7, 1).exercises[0].answered_by
    assert first not in tfcalc("quiz", "--seed", "7").stdout
    for more in (["--answers"], ["--format", "markdown"]):
        text = tfcalc("quiz", "--seed", "7", *more).stdout
        assert text.index(first) > text.index("Answers") > text.index("How many")


def test_questions_and_answers_are_in_the_letters_of_the_notation(tfcalc: Program) -> None:
    """An attention's 4h² + 4h is 4d² + 4d in the letters in which h is the number of heads."""
    words = ("quiz", "--seed", "3", "--topic", "params", "--number", "1")
    asked = {name: tfcalc(*words, "--notation", name, "--answers").stdout for name in ("lbhn", "bsld", "names")}
    assert "f = 4h) have? A formula in h," in asked["lbhn"]
    assert "d_ff = 4d) have? A formula in d," in asked["bsld"]
    assert "1. 12d² + 13d (tfcalc formula encoder-layer --notation bsld)" in asked["bsld"]
    assert "A formula in d_model," in asked["names"]
    graded = ("quiz", "1", "12d^2 + 13d", "--seed", "3", "--topic", "params")
    right, wrong = tfcalc(*graded, "--notation", "bsld"), tfcalc(*graded)
    assert (right.returncode, right.stdout.splitlines()[0]) == (0, "yes: 12d² + 13d")
    assert wrong.returncode == 1
    told = [one["question"] for one in json.loads(tfcalc(*words, "--notation", "bsld", "--json").stdout)["exercises"]]
    assert told == [quiz(3, 1, "params").exercises[0].question]
