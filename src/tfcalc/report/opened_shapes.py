"""Where the numbers of a list of intermediate results come from: axes, and the products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.notation import write
from tfcalc.report.opening import Constant, Opener, Stated, Way, count, given, ratio, total

if TYPE_CHECKING:
    from tfcalc.report.paths import Step
    from tfcalc.report.shapes import Axes, Made, MatrixProduct, Shapes

OF_A_PRODUCT = {("copies", 0): 0, ("left", 0): 1, ("left", 1): 2, ("right", 0): 2, ("right", 1): 3}
"""Which of a product's axes (how many, M, K, N) stands where."""


class OfShapes(Opener):
    """A result's axes are closed forms; its FLOPs are two for each number that its matrices multiply."""

    def __init__(self, answer: Shapes) -> None:
        self.answer = answer
        self.heading = f"{answer.path} of {answer.heading}"

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of an axis, a number of copies, or FLOPs."""
        match steps:
            case ("total_flops",):
                return total(*(f"results.{place}.flops" for place in range(len(self.answer.results))))
            case ("input", "sizes", int(axis)) if self.answer.reads is not None:
                return self._axis(self.answer.reads, axis, "what the part reads")
            case ("results", int(place), "sizes", int(axis)):
                made = self.answer.results[place]
                return self._axis(made.axes, axis, made.name)
            case ("results", int(place), "products", int(one), str(side), *axis):
                return self._side(self.answer.results[place].products[one], side, *axis)
            case ("results", int(), "copies"):
                return count("how many of it the part makes: the layers that are alike, each time that they run")
            case ("results", int(place), "flops"):
                return self._flops(place, self.answer.results[place])
        return None

    def _axis(self, axes: Axes, axis: int, name: str) -> Stated:
        letters = axes.letters[axis]
        meant = (
            f"{each}: {self.answer.legend[each]}" for each in sorted(letters.free_symbols & set(self.answer.legend))
        )
        return Stated("formula", "; ".join((f"axis {axis + 1} of {name}", *meant)), write(letters))

    def _side(self, product: MatrixProduct, side: str, axis: Step = 0) -> Way | None:
        place = OF_A_PRODUCT.get((side, int(axis)))
        if product.sizes is None or place is None:
            return None
        what = ("how many products", "rows of the left matrix", "what is summed over", "columns of the right matrix")
        return Stated("formula", f"{what[place]}: {product.name}", write(product.sizes.letters[place]))

    def _flops(self, place: int, made: Made) -> Way:
        """Two for each multiplication and addition of its products, and one for each operation on elements."""
        if made.flops == 0:
            return given(f"0: {made.made_by} multiplies no matrices")
        path, known = f"results.{place}", [each for each in made.products if each.sizes is not None]
        counted = sum(made.copies * _products(each) for each in known)
        if counted == made.flops and len(known) == 1 == len(made.products):
            one = f"{path}.products.0"
            sizes = (f"{one}.copies", f"{one}.left.0", f"{one}.left.1", f"{one}.right.1")
            return ratio(Constant(2, "a multiplication and an addition"), f"{path}.copies", *sizes)
        parts = [Constant(made.copies * _products(each), f"{made.copies} × 2 × {each}") for each in known]
        rest = made.flops - counted
        further = (
            made.operation if known and len(known) == len(made.products) else f"{made.made_by}: {write(made.formula)}"
        )
        return total(*parts, *([Constant(rest, further)] if rest else []))


def _products(product: MatrixProduct) -> int:
    """The FLOPs of one copy."""
    assert product.sizes is not None
    many, m, k, n = product.sizes.sizes
    return 2 * many * m * k * n
