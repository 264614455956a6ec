"""The closed form of a quantity of a part, with its legend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import asked_run, check_arguments, check_plans, run_tree, tuning_for
from tfcalc.analysis.nothing import why_zero
from tfcalc.analysis.quantities import QUANTITIES, REACH, growth, measure_of
from tfcalc.analysis.stated import for_programs, in_words
from tfcalc.analysis.targets import find, needs_vocabulary, others
from tfcalc.conventions import Conventions
from tfcalc.core.letters import spelled
from tfcalc.core.measure import major_params
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.defaults import resolve_dtype
from tfcalc.dimensions import check_size
from tfcalc.errors import UsageError, nearest, one_of
from tfcalc.printable import quoted
from tfcalc.report import SCHEMA_VERSION, polynomial
from tfcalc.report.sheet import Column, Order, Sheet, for_people
from tfcalc.report.style import Style
from tfcalc.symbols import legend, letters, with_symbols
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.model import Model

PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Formula:
    """The answer of :func:`~tfcalc.formula`: a closed form.

    Attributes:
        target: the part, as it was asked for.
        of: ``params``, ``trainable``, ``flops``, ``memory`` or ``time``.
        title: the quantity, in words.
        closed: the form as an exact polynomial.
        order: whether ``closed`` is only the asymptotic growth, to be read as O(…).
        legend: the meaning of each letter.
        notes: the definitions that it rests on.
    """

    target: str
    path: str
    of: str
    title: str
    closed: Polynomial
    order: bool
    legend: Mapping[str, str]
    model: Mapping[str, object]
    conventions: Mapping[str, object]
    notes: tuple[str, ...] = ()

    def at(self, **sizes: Num) -> Any:
        """Its value at these sizes, given by the letters of its legend: ints give an exact int, arrays an array.

        A size that is not given stays a symbol. Raises UsageError for a letter that does not occur in it, or a number
        that is not whole.

        >>> formula("core").at(h=512, n=6)
        44140544
        """
        for letter, size in sizes.items():
            if letter not in self.legend:
                raise UsageError(f"{letter!r} does not occur in {self}", nearest(letter, self.legend))
            if size is None or isinstance(size, float | str | bytes):
                raise UsageError(f"{letter} = {quoted(size)} is no size", "give an int, or an array of them")
        return self.closed.at(sizes)

    def cell(self) -> Polynomial | Order:
        """The formula as a cell of a table."""
        return Order(self.closed) if self.order else self.closed

    def text(self, style: Style = PLAIN) -> str:
        """The formula as one line."""
        return for_people(self.cell(), style)

    def __str__(self) -> str:
        return self.text()

    def latex(self) -> str:
        """The formula for math mode: ``4 h^{2} + 4 h``."""
        return self.text(Style(script="latex"))

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"

    def sheet(self) -> Sheet:
        """One row: the formula, or the number that it is once all symbols are; its legend below."""
        cell = self.cell() if self.order or self.closed.free_symbols else self.closed.terms.get((), 0)
        return Sheet(
            title=f"{self.title} of {self.target}" + (f" ({self.path})" if self.path != self.target else ""),
            columns=[Column("formula", numeric=False)],
            rows=[[cell]],
            quiet=cell,
            notes=self.notes,
            legend=self.legend,
        )

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the formula in text, ASCII and LaTeX, with its legend."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "formula",
            "target": self.target,
            "path": self.path,
            "of": self.of,
            "model": dict(self.model),
            "conventions": dict(self.conventions),
            "formula": self.text(),
            "ascii": self.text(Style(script="ascii")),
            "latex": self.latex(),
            "legend": dict(self.legend),
        }


def formula(
    target: str,
    of: str = "params",
    model: Model | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    approx: bool = False,
    big_o: bool = False,
    general: bool = False,
    substitute: Mapping[str, int] | None = None,
    notation: str = "lbhn",
    training: Training | None = None,
    serving: Serving | None = None,
) -> Formula:
    """Give the closed form of a quantity of one part of a model.

    Args:
        target: a name (``mha``, ``ffn``, ``layer``, ``complete``, …) or a path of the tree; of training or serving
            memory a term (``activations``, ``optimizer``, ``cache``), or a path inside one.
        of: ``params``, ``trainable``, ``flops``, ``memory`` (bytes) or ``time`` (its growth).
        model: as in :func:`~tfcalc.params`; by default the classic Transformer.
        workload: phase and structure of what is run; its sizes stay letters.
        conventions: which operations are counted, and the number format of weights at rest.
        approx: drop biases and norms (parameters only).
        big_o: give the asymptotic growth only.
        general: give a letter of its own to each size that follows from others by default (f instead of 4h).
        substitute: numbers for letters (of this ``notation``) or field names: ``{"h": 512}``.
        notation: the letters: ``lbhn``, ``bsld`` or ``names``.
        training: with ``of="memory"``, the memory of a training step; also where the workload trains. Else LoRA's
            adapters, or modules that are frozen.
        serving: with ``of="memory"``, the memory of serving.

    Returns:
        A formula: ``str()`` of it is text, ``latex()`` LaTeX, ``at(h=512, n=6)`` its value.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the target, quantity or letter is not known, or options exclude each other.

    >>> print(formula("mha"), "|", formula("encoder-layer", "flops"), "|", formula("complete"))
    4h² + 4h | 4lbh(6h + l) | n(28h² + 32h) + (4 + 2V)h
    >>> print(formula("ffn", general=True), "|", formula("core", "time"))
    2hf + h + f | O(n(lh² + l²h))
    """
    from tfcalc.families.transformer import Transformer

    by, chosen = conventions or Conventions(), Transformer() if model is None else model
    check_arguments(chosen, workload, conventions)
    check_plans(training, serving)
    if of == "memory" and (training or serving or (workload is not None and workload.training)):
        from tfcalc.analysis.opened_memory import memory_formula

        if approx or big_o or general or substitute:
            raise UsageError(
                "the memory of training and serving has one form, the exact one",
                "leave out approx, big_o, general and substitute",
            )
        return memory_formula(target, chosen, workload, by, training=training, serving=serving)
    workload = asked_run(chosen, workload)
    if one_of("quantity", of, QUANTITIES) == "memory":
        by = resolve_dtype(chosen, by)
    if approx and of != "params":
        raise UsageError(f"approx works for parameters only, not for {of}", "leave out approx, or ask for params")
    chosen.check(workload)
    shown = chosen.described()
    if needs_vocabulary(target):
        chosen = chosen.with_vocabulary(symbol("V"))
    symbolic_run = with_symbols(workload, general=general)
    tuning = tuning_for(chosen, training, QUANTITIES[of])
    plan, symbolic = (None, None) if tuning is None else (tuning.plan, tuning.symbolic)
    root = run_tree(with_symbols(chosen, general=general), symbolic_run, symbolic)
    node = find(root.root(), target)
    closed = polynomial(node.component.each(major_params if approx else measure_of(of, workload, by)))
    order = big_o or of == "time"
    closed = growth(closed) if order else closed
    meanings = legend(closed.free_symbols, chosen, workload)
    ranks = {} if tuning is None else tuning.legend
    meanings |= {letter: meaning for letter, meaning in ranks.items() if letter in closed.free_symbols}
    numbers_root = run_tree(chosen, workload, plan).root()
    notes = [
        *([why_zero(find(numbers_root, target).component, of, workload)] if closed == 0 else []),
        *others(numbers_root, target, find(numbers_root, target)),
        *(chosen.remarks(workload) if of in ("flops", "time") else ()),
        *([] if tuning is None else [tuning.heading]),
        *in_words(of, workload, by, sizes=False),
        *([f"and {meanings[REACH]} ≤ sequence length"] if order and REACH in meanings else []),
    ]
    if substitute:
        by_letter = letters(substitute, chosen, workload, notation=notation)
        for name, value in substitute.items():
            check_size(name, value)
        numbers = {by_letter[name]: value for name, value in substitute.items()}
        if len(numbers) < len(substitute):
            same = [quoted(name) for name in substitute if [*by_letter.values()].count(by_letter[name]) > 1]
            raise UsageError(f"{' and '.join(same)} are the same size", "give one of them")
        notes += [
            f"{spelled(letter, notation)} does not occur in it, or follows from another size (see --general)"
            for letter in sorted(numbers.keys() - meanings)
        ]
        closed = polynomial(closed.at(numbers))
        meanings = {letter: meaning for letter, meaning in meanings.items() if letter in closed.free_symbols}
        notes.insert(0, f"with {', '.join(f'{name} = {value:,}' for name, value in substitute.items())}")
    return Formula(
        target=target,
        path=node.path,
        of=of,
        title=f"{'growth of ' * (big_o and of != 'time')}{QUANTITIES[of]}{' without biases and norms' * approx}",
        closed=closed,
        order=order,
        legend=meanings,
        model=shown,
        conventions=for_programs(of, workload, by) | ({} if tuning is None else tuning.described),
        notes=tuple(notes),
    )
