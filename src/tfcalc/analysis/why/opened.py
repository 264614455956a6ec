"""Where the numbers of ``why`` come from: what is counted, and what each convention adds or takes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.report.opening import Constant, Opener, Rule, Way, found, total

if TYPE_CHECKING:
    from tfcalc.analysis.why.reason import Reason, Why
    from tfcalc.report.paths import Step


class OfWhy(Opener):
    """A reason's number is the one that its command prints, changed by one convention after the other."""

    def __init__(self, answer: Why) -> None:
        self.answer = answer
        self.heading = answer.heading

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a number that conventions give, or of how far it is from the one that was given."""
        match steps:
            case ("reasons" | "nearest" as kind, int(place), "exact_value"):
                reason = self._reason(kind, place)
                return total(*(Constant(number, words) for number, words in reason.changes))
            case ("reasons" | "nearest" as kind, int(place), "distance"):
                reason = self._reason(kind, place)
                unit = "the same in the unit that was written"
                shown = f"{kind}.{place}.exact_value" if reason.shown == reason.value else Constant(reason.shown, unit)
                return Rule("relative", (shown,), (Constant(reason.given, f"as written: {self.answer.given}"),))
            case ("reasons" | "nearest", int(), "chance"):
                return found("estimated: the share of numbers with as many figures that something as simple gives")
        return None

    def _reason(self, kind: str, place: int) -> Reason:
        return (self.answer.reasons if kind == "reasons" else self.answer.nearest)[place]
