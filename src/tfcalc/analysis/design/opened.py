"""Where the numbers of a design come from: sizes that were tried, counted as any model; or published fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.report.opening import Opener, Rule, Same, Stated, Way, count, found, given, total

if TYPE_CHECKING:
    from tfcalc.analysis.design.answer import Designed
    from tfcalc.analysis.design.optimum import Optimum
    from tfcalc.answers.question import Question
    from tfcalc.report.paths import Step

FOUR = "rounded to four digits, as every estimate"
SEARCH = "search: of all shapes that meet the constraints one whose amount is nearest to the budget"


class OfDesigned(Opener):
    """Each shape is a model, whose numbers are answers of its own."""

    def __init__(self, answer: Designed) -> None:
        self.answer = answer
        self.heading = answer.family.base.summary
        self.counted: dict[int, Question] = {}

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a shape's size, or of what it costs."""
        match steps:
            case ("budget",):
                return given("the budget: --params, --flops, --flops-per-token of all tokens, or --memory")
            case ("tried",):
                return count("the shapes near the budget that were ranked")
            case ("candidates", int(place), "total_params"):
                return self._counted(place).number("total_params")
            case ("candidates", int(place), "amount"):
                return self.answer.asked(self.answer.candidates[place].model)
            case ("candidates", int(place), "distance"):
                return total(f"candidates.{place}.amount", less="budget")
            case ("candidates", int(place), "aspect_ratio"):
                shape = f"candidates.{place}"
                return Rule("rounded", (f"{shape}.d_model",), (f"{shape}.layers",))
            case ("candidates", int(), "vocab_size"):
                return given("the vocabulary of the model that shapes are like, padded where --pad-vocab asks for it")
            case ("candidates", int(), str()):
                return found(SEARCH)
        return None

    def _counted(self, place: int) -> Question:
        from tfcalc.answers.question import Question

        if place not in self.counted:
            self.counted[place] = Question("params", self.answer.candidates[place].model)
        return self.counted[place]


class OfOptimum(Opener):
    """A fit is a formula with published constants."""

    def __init__(self, answer: Optimum) -> None:
        self.answer = answer
        self.heading = f"compute-optimal for {answer.compute:g} FLOPs"

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a fit, or of all of them."""
        every = tuple(f"fits.{place}.optimal_params" for place in range(len(self.answer.splits)))
        match steps:
            case ("compute_flops",):
                return given("--compute: the FLOPs of the whole training")
            case ("optimal_params",):
                return Same(every[0])
            case ("optimal_params_min",):
                return Rule("least", every)
            case ("optimal_params_max",):
                return Rule("most", every)
            case ("fits", int(place), "constants", str()):
                return given(f"published: {self.answer.splits[place][0].source}")
            case ("fits", int(place), str(key)):
                return self._estimate(place, key)
        return None

    def _estimate(self, place: int, key: str) -> Stated:
        fit = self.answer.splits[place][0]
        made = {
            "optimal_params": f"C = 6ND with {fit.formula}",
            "optimal_tokens": f"D = C/6N, with N of {fit.formula}",
            "tokens_per_param": "D/N",
            "loss_nats_per_token": fit.formula,
        }
        constants = ", ".join(f"{name} = {value:g}" for name, value in fit.constants.items())
        note = f"{fit.name} at C = {self.answer.compute:g}: {constants}; {FOUR}; {fit.source}"
        return Stated("formula", note, made[key])
