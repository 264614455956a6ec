"""Origins of the numbers of a sweep: each point is a single answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.answers.question import Question
from tfcalc.report.opening import Constant, Opener, Way, count, found, given, ratio

if TYPE_CHECKING:
    from tfcalc.arrays.swept import Swept
    from tfcalc.report.paths import Step

COMMANDS = {"params": "params", "trainable": "params", "flops": "flops", "memory": "memory", "cache": "memory"}
"""The command whose answer each quantity is a number of."""


class OfSwept(Opener):
    """Sizes are given; the quantity is that of the command which asks for these sizes alone."""

    def __init__(self, answer: Swept) -> None:
        self.answer = answer
        self.heading = answer.heading
        self.names = list(answer.table.columns)

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Origin of a size, of the quantity at one point, or of the number of points."""
        table = self.answer.table
        match steps:
            case ("points",):
                return ratio(*(Constant(each, f"values of {name}") for name, each in self.answer.axes.items()))
            case ("columns", int(column), "values", int(point)):
                name = self.names[column]
                return self._point(point) if name == table.key else given(f"one of the values of {name}")
            case ("refused", int(), "points"):
                return count("the points that have no answer for this reason")
            case ("refused", int(), "first"):
                return found("the place of the first of them among all points, from 0")
        return None

    def _point(self, point: int) -> Way:
        """Single answer with the sizes of this point."""
        table, question = self.answer.table, self.answer.question
        sizes = {name: int(column[point]) for name, column in table.columns.items() if name != table.key}
        one = question.placed_at(sizes)
        command = COMMANDS[one.of]
        called = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        run = None if one.at_rest or command == "params" else one.workload
        return Question(
            command, one.model, run, one.conventions, one.training, one.serving, one.weights, called
        ).number(table.key)
