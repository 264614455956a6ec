"""Origins of the numbers of a verification: tfcalc's own count, and that of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.report.opening import Opener, Way, found, given, ratio, total

if TYPE_CHECKING:
    from tfcalc.report.paths import Step
    from tfcalc.verify.module_answer import ModuleCheck
    from tfcalc.verify.verification import Verification

UNITS = ("params", "flops", "bytes")


class OfVerification(Opener):
    """Both totals are the sums of their rows; a row is counted twice, once by tfcalc."""

    def __init__(self, answer: Verification | ModuleCheck, unit: str, reference: str) -> None:
        self.heading = answer.heading
        self.rows, self.unit, self.reference = answer.rows[:-1], unit, reference

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Origin of a total or a row."""
        match steps:
            case (str(key),) if key in (f"total_{self.unit}", f"reference_{self.unit}"):
                of_rows = self.unit if key.startswith("total") else key
                return total(*(f"components.{place}.{of_rows}" for place in range(len(self.rows))))
            case ("components", int(place), "difference"):
                row = f"components.{place}"
                return total(f"{row}.{self.unit}", less=f"{row}.reference_{self.unit}")
            case ("components", int(place), str(key)):
                by = "tfcalc's own count" if key == self.unit else f"counted by the reference: {self.reference}"
                return found(f"{self.rows[place].path}: {by}")
        return None


class OfModule(OfVerification):
    """The parameters of a class are those of its tensors, whose shapes it has itself."""

    def __init__(self, answer: ModuleCheck, reference: str) -> None:
        super().__init__(answer, "params", reference)
        self.answer = answer

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Origin of a number of a tensor, of the class, or of a row."""
        answer = self.answer
        match steps:
            case ("reference_params",) | ("module", "params"):
                return total(*(f"module.tensors.{place}.params" for place in range(len(answer.parameters))))
            case ("total_params",):
                return found(f"{answer.target} by tfcalc; tfcalc explain {answer.target} opens it")
            case ("module", "params_without_gradient"):
                idle = [place for place, one in enumerate(answer.parameters) if one in answer.idle]
                each = tuple(f"module.tensors.{place}.params" for place in idle)
                return total(*each) if each else given("0: every parameter that is trained gets a gradient")
            case ("module", "forward_flops"):
                return found(f"the matrix products of one pass, counted by the reference: {self.reference}")
            case ("module", "target_forward_flops"):
                return found(f"{answer.target} on the same inputs by tfcalc; tfcalc explain {answer.target} --of flops")
            case ("module", "tensors", int(place), "params"):
                axes = range(len(answer.parameters[place].shape))
                return ratio(*(f"module.tensors.{place}.shape.{axis}" for axis in axes))
            case ("module", "arguments", str(name), *_):
                return given(f"{name}, as the class was called with it: --args, or its default")
            case ("module", "inputs", *_):
                return given("the shape of what the class was called with: --inputs, or its own arguments")
            case ("module", *_):
                return found(f"as the class has it: {self.reference}")
        return super().way(steps)
