"""The answer of ``quiz``: exercises, and what an answer to one of them is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.opening import Opener, Stated, Way, given
from tfcalc.report.paths import Step
from tfcalc.report.sheet import Column, Sheet


class Exercise(NamedTuple):
    """A question with its answer; ``whole`` is the answer as a number, None where it is a formula."""

    number: int
    topic: str
    question: str
    answer: str
    whole: int | None
    command: str


class Grade(NamedTuple):
    """An answer that was given, whether it is right, and the verdict in one line."""

    given: str
    correct: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class Quiz:
    """The exercises of a seed, or one of them with a ``grade``; ``shown`` says whether the answers are printed."""

    seed: int
    topic: str
    exercises: tuple[Exercise, ...]
    grade: Grade | None = None
    shown: bool = False

    @property
    def correct(self) -> bool:
        """Whether no answer was given that is wrong."""
        return self.grade is None or self.grade.correct

    def sheet(self) -> Sheet:
        """A row per question, the answers at the end."""
        topic = f" on {self.topic}" if self.topic else ""
        first = self.exercises[0].number
        named = f"exercise {first}" if len(self.exercises) == 1 else f"{len(self.exercises)} exercises"
        answers = [f"{one.number}. {one.answer} ({one.command})" for one in self.exercises]
        questions = "\n".join(f"{one.number}. {one.question}" for one in self.exercises)
        how = f"tfcalc quiz {first} ANSWER --seed {self.seed}" + (f" --topic {self.topic}" if self.topic else "")
        return Sheet(
            title=self.grade.verdict if self.grade else f"Quiz {self.seed}{topic}: {named}",
            columns=[Column("no."), Column("exercise", numeric=False, folds=True)],
            rows=[[one.number, one.question] for one in self.exercises],
            quiet=self.grade.verdict if self.grade else questions,
            notes=["Answers:", *answers] if self.shown else [],
            see_also=[] if self.grade else [how, *([] if self.shown else ["--answers"])],
        )

    def opener(self) -> OfQuiz:
        """Where its numbers come from."""
        return OfQuiz(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``; it always has the answers."""
        graded: dict[str, object] = {}
        if self.grade:
            graded = {
                "given": self.grade.given,
                "correct": self.grade.correct,
                "verdict": self.grade.verdict,
            }
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "quiz",
            "seed": self.seed,
            "topic": self.topic,
            "exercises": [
                {
                    "number": one.number,
                    "topic": one.topic,
                    "question": one.question,
                    "answer": one.answer if one.whole is None else one.whole,
                    "answered_by": one.command,
                }
                for one in self.exercises
            ],
            **graded,
        }


class OfQuiz(Opener):
    """Exercises are drawn by the seed; each is answered by a command."""

    def __init__(self, answer: Quiz) -> None:
        self.answer = answer
        self.heading = f"Quiz {answer.seed}"

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of the seed, the place of an exercise, or its answer."""
        match steps:
            case ("seed",):
                return given("--seed, or 1")
            case ("exercises", int(), "number"):
                return Stated("count", "its place in the quiz, from 1")
            case ("exercises", int(place), "answer"):
                return Stated("answer", f"the answer of: {self.answer.exercises[place].command}")
        return None
