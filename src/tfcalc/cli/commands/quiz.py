"""``tfcalc quiz``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.exercises import LBHN, TOPICS, drawn, grade, quiz
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.exercises import Quiz
    from tfcalc.report.answer import Answered

EXERCISE = Option("exercise", (), "the number of one exercise", argument=True)
ANSWER = Option("answer", (), "your answer to it, which is graded: '4h^2 + 4h', 1050624, 4*512^2", argument=True)
SEED = Option(
    "seed", ("--seed",), "which quiz: the same number draws the same exercises [default: 1]", number=True, front=True
)
NUMBER = Option("number", ("--number",), "how many exercises [default: 5]", number=True, most=100, front=True)
TOPIC = Option("topic", ("--topic",), "sections of the course [default: all]", TOPICS, front=True)
ANSWERS = Option(
    "answers", ("--answers",), "print the answers, too, at the end (Markdown always has them)", switch=True, front=True
)


def answer(settings: Settings) -> Quiz:
    """Exercises; or one of them, or a grade for an answer to it."""
    found = _asked(settings)
    found.notation = settings.get("notation", LBHN)
    return found


def _asked(settings: Settings) -> Quiz:
    seed, topic, place = settings.get("seed", 1), settings.get("topic", ""), settings.get("exercise")
    if place is None:
        found = quiz(seed, settings.get("number", 5), topic)
        found.shown = settings.get("answers", False) or settings.get("format") == "markdown"
        return found
    if not (place.isascii() and place.isdigit() and int(place[:9])):
        remedy = f"--topic {place.lower()}" if place.lower() in TOPICS else "3 '4h^2 + 4h' --seed 7"
        raise UsageError(f"{quoted(place)} is not an exercise number", f"write tfcalc quiz {remedy}")
    settings.refuse(["number"], "with one exercise", {})
    given = settings.get("answer")
    if given is None:
        found = drawn(seed, int(place[:9]), topic)
        found.shown = settings.get("answers", False)
        return found
    settings.refuse(["answers"], "beside an answer", {})
    return grade(seed, int(place[:9]), given, topic, settings.get("notation", LBHN))


def _code(answer: Answered) -> int:
    return 0 if cast("Quiz", answer).correct else 1


COMMAND = Command(
    answer,
    (EXERCISE, ANSWER, SEED, NUMBER, TOPIC, ANSWERS, *SHOW),
    (
        "tfcalc quiz --seed 7 --number 3",
        "tfcalc quiz 1 '12h^2 + 13h' --seed 3 --topic params",
        "tfcalc quiz --seed 7 --format markdown",
    ),
    code=_code,
)
