"""Where the numbers beside closed forms come from: one copy of each part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.analysis.common import run_tree
from tfcalc.analysis.itemized import Tree, laid_out
from tfcalc.answers.conventions_text import as_json, as_text
from tfcalc.conventions import Conventions
from tfcalc.core.component import STORED
from tfcalc.core.measure import stored
from tfcalc.errors import UsageError
from tfcalc.model import with_symbols
from tfcalc.printable import quoted
from tfcalc.report.opening import Constant, Opener, Way, ratio
from tfcalc.tape.groups import apart

if TYPE_CHECKING:
    from tfcalc.analysis.formulas import Formulas
    from tfcalc.core.component import Cost
    from tfcalc.core.measure import Item
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.paths import Step


class OfFormulas(Opener):
    """Parameters are those of the part, matrix by matrix."""

    def __init__(self, answer: Formulas) -> None:
        self.answer = answer
        self.heading = answer.heading

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a part's parameters, with or without biases and norms, or of the error of the latter."""
        match steps:
            case ("summary", int(place), "params" | "approx_params" as key):
                return OnePart(self.answer, self.answer.parts[place].path, major=key == "approx_params")
            case ("summary", int(place), "approx_error"):
                part = self.answer.parts[place]
                less = (part.params or 0) - (part.approx_params or 0)
                return ratio(Constant(less, "biases and norms, which it leaves out"), over=(f"summary.{place}.params",))
        return None


class OnePart:
    """One copy of a part: its matrices; those that are ``major`` are no biases and no norms."""

    def __init__(self, answer: Formulas, path: str, *, major: bool) -> None:
        self.answer, self.path, self.major = answer, path, major

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation:
        """Matrix by matrix. Raises UsageError, as nothing lies behind it."""
        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        model, run = self.answer.asked
        symbolic = run_tree(with_symbols(model), with_symbols(run))
        root, forms = apart(run_tree(model, run), symbolic).root(), symbolic.root()
        by = Conventions()
        notes, told = tuple(as_text("params", run, by)), as_json("params", run, by)
        tree = Tree(model, run, root, forms, self._items, told, notes)
        pairs = zip(root.walk(), forms.walk(), strict=True)
        node, twin = next(pair for pair in pairs if pair[0].path == self.path)
        found = laid_out(prefix, "params", tree, node, twin, STORED)
        return replace(found, model=dict(self.answer.model))  # whose vocabulary is not a letter

    def _items(self, cost: Cost) -> list[Item]:
        weights = tuple(weight for weight in cost.weights if not (self.major and weight.minor))
        return stored(cost._replace(weights=weights))
