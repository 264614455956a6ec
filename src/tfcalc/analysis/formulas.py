"""The closed forms of all parts of a model, side by side: the summary table of a textbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.common import check_arguments, run_tree
from tfcalc.analysis.quantities import growth, measure_of
from tfcalc.analysis.targets import FIRST, TARGETS
from tfcalc.answers.conventions_text import as_json, as_text
from tfcalc.conventions import Conventions
from tfcalc.core.component import Measure, Node
from tfcalc.core.measure import major_params, params
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.model import asked_run, legend, with_symbols
from tfcalc.report import SCHEMA_VERSION, exact, polynomial
from tfcalc.report.sheet import Cell, Column, Order, Share, Sheet, for_people
from tfcalc.report.style import Style
from tfcalc.tape.groups import apart
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.opened_formulas import OfFormulas
    from tfcalc.model import Model

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

    def text(self) -> dict[str, str]:
        """As in ``--json``."""
        return {
            "params_formula": for_people(self.params, Style()),
            "approx_formula": for_people(self.approx, Style()),
            "flops_formula": for_people(self.flops, Style()),
            "time_formula": for_people(Order(self.time), Style()),
        }


class Part(NamedTuple):
    """One part: its ``forms``, and the values of those of parameters where every size of the model is known.

    ``number`` tells it from others of the same name: 1 for the first, 2 for the next one that has other forms.
    """

    target: str
    path: str
    number: int
    forms: Forms
    params: int | None
    approx_params: int | None

    @property
    def error(self) -> Share | None:
        """By how much of the exact count the approximate one is too small; None where a size is not known."""
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

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        counted = {"params": self.params, "approx_params": self.approx_params}
        error = {"approx_error": None if self.error is None else self.error.fraction}
        return {"target": self.target, "path": self.path, **counted, **error, **self.forms.text()}


@dataclass(frozen=True, slots=True)
class Formulas:
    """The answer of :func:`~tfcalc.formulas`.

    Attributes:
        heading: the model.
        parts: its parts, the smallest first and the whole last, each of one copy: ``target``, ``path``, ``params``,
            ``approx_params``, ``error``, and its ``forms``, polynomials by the same names.
        legend: the meaning of each letter.
        asked: the model, whose vocabulary may be a letter, and the workload.
    """

    heading: str
    parts: tuple[Part, ...]
    legend: Mapping[str, str]
    model: Mapping[str, object]
    conventions: Mapping[str, object]
    asked: tuple[Model, Workload]
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> Part:
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

    def opener(self) -> OfFormulas:
        """Where its numbers come from."""
        from tfcalc.analysis.opened_formulas import OfFormulas

        return OfFormulas(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the complete model, as if it were asked for, and the ``summary`` of all parts."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "formula",
            "target": self.whole.target,
            "path": self.whole.path,
            "of": "params",
            "model": dict(self.model),
            "conventions": dict(self.conventions),
            "formula": for_people(self.whole.forms.params, Style()),
            "ascii": for_people(self.whole.forms.params, Style(script="ascii")),
            "latex": for_people(self.whole.forms.params, Style(script="latex")),
            "legend": dict(self.legend),
            "summary": [part.to_dict() for part in self.parts],
        }

    def __str__(self) -> str:
        from tfcalc.render import rendered

        return rendered(self.sheet(), "plain", Style())


def formulas(
    model: Model | None = None,
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
    from tfcalc.zoo.transformer import Transformer

    by, chosen = conventions or Conventions(), Transformer() if model is None else model
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


def _parts(numbers: Node, forms: Node, flops: Measure, time: Measure) -> Iterator[Part]:
    """Each part once: of several by one name those with other forms, the first one first."""
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
                yield Part(target, node.path, len(seen), Forms(*own), *known)


def _whole(value: Num) -> int | None:
    """None where it is a form, for the vocabulary is not known."""
    return exact(value) if not isinstance(value, Polynomial) else None
