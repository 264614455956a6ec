"""Exercises and grades. The right answers are worked out here from the numbers in each question."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import Program
from tfcalc import quiz
from tfcalc.cli.commands.quiz import TOPIC
from tfcalc.cli.main import main
from tfcalc.errors import UsageError
from tfcalc.exercises import KINDS, MOST, TOPICS, Exercise, drawn, grade

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


def numbers(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", text)]


def of_experts(text: str) -> int:
    """Stored, less the experts that are not chosen; or a latent vector and a rotated key of each token and layer."""
    if "latent" in text:
        layers, latent, rotated, context, _ = numbers(text)
        return 2 * layers * (latent + rotated) * context
    stored, layers, experts, h, f, chosen = numbers(text)
    return stored - layers * (experts - chosen) * 3 * h * f


def of_roofline(text: str) -> int:
    """Peak over bandwidth."""
    peak, speed = re.findall(r"([\d,.]+) (?:TFLOP|GB)/s", text)
    return round(float(peak.replace(",", "")) * 1e12 / (float(speed.replace(",", "")) * 1e9))


def of_utilisation(text: str) -> int:
    length_speed_and_flops = numbers(text.partition(" trains ")[2].partition("on sequences")[2])
    _, speed, flops = length_speed_and_flops
    return round(100 * speed * flops / 989.4e12)


def of_adapters(text: str) -> int:
    """A of h × r and B of r × (heads × width), beside W_Q and W_V."""
    rank = numbers(text)[0]
    layers, h, heads, groups, width = numbers(text.partition(": ")[2])
    return layers * rank * ((h + heads * width) + (h + groups * width))


def of_shards(text: str) -> int:
    """2 bytes, sharded by stage 3 alone; 4 of master weights, sharded by both."""
    stored, stage, gpus = numbers(re.sub(r"bf16|fp32", "", text))
    if "bytes of master" in text:
        return 4 * stored // gpus
    return 2 * stored // (gpus if stage == 3 else 1)


def of_optimum(text: str) -> int:
    compute = float(re.findall(r"[\d.]+e\+\d+", text)[0])
    billions: int = round((compute / 120) ** 0.5 / 1e9)
    return billions * 10**9


BY_HAND: dict[str, Callable[[str], int]] = {
    "crossover": lambda text: 2 * numbers(text.rpartition("h = ")[2])[0],
    "moe": of_experts,
    "roofline": of_roofline,
    "mfu": of_utilisation,
    "lora": of_adapters,
    "zero": of_shards,
    "scaling": of_optimum,
}


def expected(one: Exercise) -> str | int:
    """The answer by hand."""
    text = one.question.replace("the classic Transformer (biases, LayerNorm, f = 4h)", "it")
    part = next((formulas for name, formulas in IN_TEXT.items() if name in text), ("", ""))
    if one.topic == "approximations":
        return part[0].partition(" + ")[0]
    found = [
        int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", re.sub(r"-\d+[\d-]*b\b", "", text))
    ]
    if one.topic in BY_HAND:
        return BY_HAND[one.topic](re.sub(r"^[\w-]*\d[\w-]* (?=has|stores)", "", one.question))
    if "store for backward" in text:
        h, batch, length = numbers(text.partition("fp32")[2])
        return 4 * (h + 4 * h) * batch * length
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


@pytest.mark.parametrize("place", range(1, MOST + 1))
def test_every_answer_is_right(place: int) -> None:
    (one,) = drawn(3, place).exercises
    right = expected(one)
    assert one.answer == right
    assert grade(3, one.number, f"{right:,}" if isinstance(right, int) else right).correct
    assert grade(3, one.number, str(right)).correct


def test_they_are_of_every_kind_and_none_repeats_another() -> None:
    kinds = sum(map(len, KINDS.values()))
    exercises = quiz(3, MOST).exercises
    assert {one.topic for one in exercises[:kinds]} == set(KINDS)
    assert len({one.question for one in exercises}) == MOST


@pytest.mark.parametrize(("topic", "different"), [("params", 45), ("moe", 8), ("crossover", 9), ("flops", 60)])
def test_a_topic_begins_anew_when_all_its_exercises_were_drawn(topic: str, different: int) -> None:
    """4 formulas, 4 parts of 9 widths, 5 Llamas; 3 mixtures, 5 caches; 9 widths; of FLOPs there are more.

    The parts of an exercise are drawn by its place alone: it is the same in a quiz of any length.
    """
    questions = [one.question for one in quiz(5, min(different + 3, 60), topic).exercises]
    assert len(set(questions[:different])) == different
    assert set(questions[different:]) <= set(questions[:different])
    assert [one.question for one in drawn(5, different, topic).exercises] == questions[different - 1 : different]


def test_a_seed_draws_the_same_however_many() -> None:
    first = [one.to_dict() for one in quiz(3, 20).exercises[:5]]
    assert [one.to_dict() for one in quiz(3, 5).exercises] == first
    assert [one.to_dict() for one in quiz(4, 5).exercises] != first


def test_the_command_of_each_prints_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    of_each_topic = [quiz(5, 1, topic).exercises[0] for topic in KINDS]
    for one in (*quiz(3, 16).exercises, *of_each_topic, *quiz(5, 12, "roofline").exercises):
        assert main([*shlex.split(one.answered_by)[1:], "-q"]) == 0
        printed = capsys.readouterr().out.strip()
        if one.topic == "mfu":
            printed = f"{100 * float(printed):.0f}"
        if one.topic == "roofline":
            printed = f"{float(printed.replace(',', '')):.0f}"
        printed = printed.replace(",", "")
        assert printed == str(one.answer) or printed == f"{float(one.answer) / 1e9:g}B"


def test_the_option_names_the_topics_of_the_course() -> None:
    assert list(KINDS) == list(TOPICS) == list(TOPIC.known)
    course = (Path(__file__).parents[1] / "formulas.md").read_text(encoding="utf-8")
    assert set(re.findall(r"tfcalc quiz --topic (\w+)", course)) <= set(TOPICS)


def test_units_and_percent_may_have_a_space_before_them() -> None:
    shown = next(
        one for one in quiz(2, 30, "memory").exercises if isinstance(one.answer, int) and one.answer % 2**20 == 0
    )
    assert grade(2, shown.number, f"{int(shown.answer) // 2**20} MiB", "memory").correct
    share = quiz(2, 1, "mfu").exercises[0].answer
    assert grade(2, 1, f"{share} %", "mfu").correct
    assert grade(2, 1, f"{share}%", "mfu").correct


def test_half_of_it_is_explained_by_the_topic() -> None:
    place, right = a_number("memory")
    verdict = grade(7, place, f"{right}/2", "memory").verdict
    assert "16 bits are 2 bytes" in verdict
    assert "multiply-add" not in verdict


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
        (["0", "1"], 2, "'0' is not an exercise number"),
        (["one"], 2, "'one' is not an exercise number"),
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
