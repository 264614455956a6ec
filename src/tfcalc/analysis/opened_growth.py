"""Where the numbers of a plot come from: each amount is that of the parts of a model with one size exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.pruned import together
from tfcalc.answers.explain import COUNTS, to_open
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.opening import Opener, Way, found, given, ratio

if TYPE_CHECKING:
    from tfcalc.analysis.growth import Growth
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.paths import Step


class OfGrowth(Opener):
    """Values are given; crossings are found by bisection; amounts are counted on a model of each value."""

    def __init__(self, answer: Growth) -> None:
        self.answer = answer
        self.heading = answer.heading
        self.names = list(answer.parts)

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a value, an amount, or a crossing."""
        answer = self.answer
        match steps:
            case ("values", int()):
                return given(f"--over: a value of {answer.over}")
            case ("parts", int(part), "amounts", int(place)):
                return Amount(answer, self.names[part], answer.values[place])
            case ("parts", int(part), "shares", int(place)):
                if not answer.whole[place]:
                    return given("0: the whole has nothing there")
                return ratio(f"parts.{part}.amounts.{place}", over=(f"whole.{place}",))
            case ("whole", int(place)):
                return Amount(answer, "", answer.values[place])
            case ("crossings", int(place), "at" | "after"):
                each = answer.crossings[place]
                return found(f"bisection: {each.words}; there {each.amounts[0]:,} and {each.amounts[1]:,}")
            case ("crossings", int(place), "amounts" | "amounts_after" as key, int(which)):
                each = answer.crossings[place]
                at = each.at if key == "amounts" else each.after
                return Amount(answer, (each.one, each.other)[which], at)
        return None


class Amount:
    """What a part, or the whole (""), has at a value of the size."""

    def __init__(self, answer: Growth, part: str, value: int) -> None:
        self.answer, self.part, self.value = answer, part, value

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation:
        """All parts of this name, matrix by matrix. Raises UsageError, as nothing lies behind it."""
        from tfcalc.analysis.growth import named

        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        counted, of = self.answer.counted, self.answer.of
        model, run = counted.at(self.value)
        tree = to_open(model, of, run if of == "flops" else None, counted.conventions)
        kept = {node.path for node in named(tree.node, self.part)} if self.part else {tree.node.path}
        note = f"{self.part or 'the whole'} at {self.answer.over} {self.value:,}"
        return together(prefix, of, tree, lambda node: node.path in kept, COUNTS[of], (note,))
