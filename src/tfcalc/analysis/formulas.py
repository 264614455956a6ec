"""The closed forms of all parts of a model, side by side: the summary table of a textbook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfcalc.analysis.closed_form import PLAIN, ClosedForm
from tfcalc.analysis.common import check_arguments, model_of, run_tree
from tfcalc.analysis.itemized import Tree, laid_out
from tfcalc.analysis.quantities import growth, measure_of
from tfcalc.analysis.targets import FIRST, TARGETS
from tfcalc.answers.conventions_text import as_json, as_text
from tfcalc.core.component import STORED, Measure, Node
from tfcalc.core.measure import major_params, params, stored
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.errors import UsageError
from tfcalc.model import asked_run, legend, with_symbols
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report import exact, polynomial
from tfcalc.report.declared import LAST, Key, Keyed, either, optional, records, shared, text
from tfcalc.report.opening import Constant, ratio
from tfcalc.report.sheet import Cell, Column, Order, Share, Sheet, for_people
from tfcalc.report.style import Style
from tfcalc.tape.groups import apart
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.core.component import Cost
    from tfcalc.core.measure import Item
    from tfcalc.model import Model
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

PARTS = (
    "mha",
    "cross-mha",
    "ffn",
    "router",
    "experts",
    "moe",
    "ln",
    "encoder-layer",
    "decoder-layer",
    "layer",
    "encoder",
    "decoder",
    "core",
    "embedding",
    "output",
    "complete",
)
"""The rows, from the smallest; a part that goes by two of these names is there once."""


NOTE = "each row is one copy of its part; error: what the approximate count leaves out (biases, norms) of the exact one"


class Forms(NamedTuple):
    """The closed forms of one part: parameters, those without biases and norms, FLOPs, and the growth of its time."""

    params: Polynomial
    approx: Polynomial
    flops: Polynomial
    time: Polynomial


@dataclass(frozen=True, kw_only=True)
class FormulaPart(Keyed):
    """One part: its ``forms``, and the values of those of parameters where every size of the model is known.

    ``number`` tells it from others of the same name: 1 for the first, 2 for the next one that has other forms.
    """

    target: Key[str] = text("the name that the part goes by")
    path: Key[str] = text("path of the component")
    number: int
    forms: Forms
    params: Key[int | None] = optional("its parameters; null where a size, such as the vocabulary, is not known")
    approx_params: Key[int | None] = optional("the same without biases and norms")
    approx_error = either(
        ("number", "null"),
        "what these leave out, as a fraction of all",
        lambda part: None if part.error is None else part.error.fraction,
    )
    params_formula = shared("formula", lambda part: for_people(part.forms.params, Style()))
    approx_formula = shared("formula", lambda part: for_people(part.forms.approx, Style()))
    flops_formula = shared("formula", lambda part: for_people(part.forms.flops, Style()))
    time_formula = shared("formula", lambda part: for_people(Order(part.forms.time), Style()))

    @property
    def error(self) -> Share | None:
        """Share of the exact count by which the approximate one is too small; None where a size is not known."""
        if not self.params or self.approx_params is None:
            return None
        return Share(self.params - self.approx_params, self.params, digits=2)

    def row(self) -> list[Cell]:
        """Its cells; what no rule of thumb counts (a norm alone) has no error that says anything."""
        name = f"{self.target} {self.number}" if self.number > 1 else self.target
        forms = self.forms
        return [
            name,
            forms.params,
            forms.approx,
            self.error if self.approx_params else None,
            forms.flops,
            Order(forms.time),
        ]


@dataclass(frozen=True, kw_only=True)
class Formulas(ClosedForm):
    """The answer of :func:`~tfcalc.formulas`.

    Attributes:
        heading: the model.
        parts: its parts, the smallest first and the whole last, each of one copy: ``target``, ``path``, ``params``,
            ``approx_params``, ``error``, and its ``forms``, polynomials by the same names.
        legend: the meaning of each letter.
        asked: the model, whose vocabulary may be a letter, and the workload.
    """

    heading: str = ""
    parts: tuple[FormulaPart, ...]
    summary = records(
        FormulaPart, "without a target: one copy of each part of the model", lambda found: found.parts, place=LAST
    )
    asked: tuple[Model, Workload]
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> FormulaPart:
        """The complete model."""
        return self.parts[-1]

    def sheet(self) -> Sheet:
        """A row per part; the columns of a textbook's summary."""
        return Sheet(
            title=f"parameters, FLOPs and time of {self.heading}",
            columns=[
                Column("part", numeric=False),
                Column("parameters", numeric=False, folds=True),
                Column("approximate", numeric=False, folds=True, spare=1),
                Column("error", spare=2),
                Column("FLOPs", numeric=False, folds=True),
                Column("time", numeric=False, folds=True),
            ],
            rows=[part.row() for part in self.parts],
            quiet=self.whole.forms.params,
            notes=self.notes,
            legend=self.legend,
            see_also=("tfcalc formula TARGET", "tfcalc explain TARGET"),
        )

    def text(self, style: Style = PLAIN) -> str:
        """The parameters of the complete model as one line."""
        return for_people(self.whole.forms.params, style)

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """Parameters are those of the part, matrix by matrix; the error is what biases and norms are of them."""
        match steps:
            case ("summary", int(place), "params" | "approx_params" as key):
                yield OnePart(self, self.parts[place].path, major=key == "approx_params")
            case ("summary", int(place), "approx_error"):
                part = self.parts[place]
                less = (part.params or 0) - (part.approx_params or 0)
                yield ratio(Constant(less, "biases and norms, which it leaves out"), over=(".params",))


@dataclass(frozen=True)
class OnePart:
    """One copy of a part: its matrices; those that are ``major`` are no biases and no norms."""

    answer: Formulas
    path: str
    major: bool

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


def formulas(
    model: Model | str | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    general: bool = False,
) -> Formulas:
    """Give the closed forms of every part of a model: parameters, without biases and norms, FLOPs, growth of time.

    Args:
        model: as in :func:`~tfcalc.params`; by default the classic Transformer, with a vocabulary of V.
        workload: phase and structure of what is run; its sizes stay letters.
        conventions: which operations are counted.
        general: give a letter of its own to each size that follows from others by default (f instead of 4h).

    Returns:
        The forms: ``parts`` of them, each with its polynomials, which have ``at({"h": 512})``.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.

    >>> found = {part.target: part for part in formulas().parts}
    >>> found["encoder-layer"].forms.params.at({"h": 512}), f"{found['encoder-layer'].error.fraction:.2%}"
    (3152384, '0.21%')
    """
    by, chosen = conventions or Conventions(), Transformer() if model is None else model_of(model)
    check_arguments(chosen, workload, conventions)
    run = asked_run(chosen, workload)
    chosen.check(run)
    shown, heading = chosen.described(), chosen.summary
    chosen = chosen.with_vocabulary(symbol("V"))
    forms = run_tree(with_symbols(chosen, general=general), with_symbols(run, general=general))
    numbers = apart(run_tree(chosen, run), forms)
    parts = tuple(_parts(numbers.root(), forms.root(), measure_of("flops", run, by), measure_of("time", run, by)))
    used = frozenset().union(*(form.free_symbols for part in parts for form in part.forms))
    return Formulas(
        heading=heading,
        parts=parts,
        legend=legend(used, chosen, run),
        model=shown,
        conventions=as_json("flops", run, by),
        asked=(chosen, run),
        notes=(NOTE, *chosen.remarks(run), *as_text("flops", run, by, sizes=False)),
    )


def _parts(numbers: Node, forms: Node, flops: Measure, time: Measure) -> Iterator[FormulaPart]:
    """Yield each part once; of several by one name those with other forms, the first one first."""
    pairs = list(zip(numbers.walk(), forms.walk(), strict=True))
    taken: set[str] = set()
    for target in PARTS:
        seen: list[list[Polynomial]] = []
        for node, twin in pairs:
            if not TARGETS[target](node) or node.path in taken or FIRST in node.path:
                continue
            taken.add(node.path)
            own = [polynomial(twin.component.each(each)) for each in (params, major_params, flops, time)]
            own[-1] = growth(own[-1])
            if own not in seen:
                seen.append(own)
                known = [_whole(node.component.each(each)) for each in (params, major_params)]
                yield FormulaPart(
                    target=target,
                    path=node.path,
                    number=len(seen),
                    forms=Forms(*own),
                    params=known[0],
                    approx_params=known[1],
                )


def _whole(value: Num) -> int | None:
    """Return the number; None where it is a form, for the vocabulary is not known."""
    return exact(value) if not isinstance(value, Polynomial) else None
