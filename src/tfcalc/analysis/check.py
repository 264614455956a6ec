"""Is a formula right? What it lacks, what it has too much, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tfcalc.analysis.causes import NEVER, TWICE, Cause, causes_of, proportion
from tfcalc.analysis.checked import Check
from tfcalc.analysis.common import asked_run
from tfcalc.analysis.explain import COUNTS, Tree, opened, to_open
from tfcalc.analysis.formula import formula
from tfcalc.analysis.quantities import QUANTITIES, growth, measure_of
from tfcalc.analysis.targets import TARGETS, find, with_some_vocabulary
from tfcalc.conventions import Conventions
from tfcalc.core.letters import NOTATIONS, spelled
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.expressions import Ratio, expanded, read_formula, settled
from tfcalc.report import exact, polynomial
from tfcalc.symbols import own_letters, spellings, values, with_symbols
from tfcalc.workload import PAIRS, Workload

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.model import Model

ORDER = re.compile(r"\s*[OΘ]\s*\((.*)\)\s*", re.DOTALL)
"""A growth is typed with or without its O(…)."""


def check(
    target: str,
    text: str,
    of: str = "params",
    model: Model | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    approx: bool = False,
    general: bool = False,
    notation: str = "lbhn",
    letters: Mapping[str, str] | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
) -> Check:
    """Compare a formula, or a number, with tfcalc's own, and name what differs.

    Two formulas are equal where they are the same polynomial once both are multiplied out. A number without letters is
    compared with what the right formula is at the sizes of the model and the workload. The text is read by a grammar of
    its own (:mod:`tfcalc.expressions`): nothing in it is executed.

    Args:
        target: as in :func:`~tfcalc.formula`.
        text: the formula: ``4h² + 4h``, ``4*d**2 + 4*d``.
        of: ``params``, ``trainable``, ``flops``, ``memory`` (bytes) or ``time`` (its growth).
        model: as in :func:`~tfcalc.params`; by default the classic Transformer.
        workload: phase and structure of what is run; its sizes are letters.
        conventions: which operations are counted, and the number format of weights at rest.
        approx: without biases and norms.
        general: give a letter of its own to each size that follows from others by default (f instead of 4h).
        notation: the letters of the text: ``lbhn``, ``bsld`` or ``names``.
        letters: other letters for some of them: ``{"h": "d", "l": "n"}``.
        training: as in :func:`~tfcalc.formula`.
        serving: as in :func:`~tfcalc.formula`.

    Returns:
        A check: ``correct``, ``right`` and ``difference``; ``verdict()`` says it in one line.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the text is no formula, or the target, quantity or a letter is not known.

    >>> print(check("mha", "3h² + 4h").verdict())
    no: 4h² + 4h is h² more; h² is W_O
    """
    from tfcalc.zoo.transformer import Transformer

    model = Transformer() if model is None else model
    run = asked_run(model, workload) if hasattr(model, "tree") else workload
    model = with_some_vocabulary(model, target) if hasattr(model, "tree") else model
    own = formula(
        target,
        of,
        model,
        run,
        conventions,
        approx=approx,
        general=general,
        notation=notation,
        training=training,
        serving=serving,
    )
    written, names = _names(model, run or Workload(), own.legend, notation, letters or {})
    meaning = _meaning(model, run or Workload(), own.legend, general=general)
    typed = ORDER.fullmatch(text) if own.order else None
    read = read_formula(typed[1] if typed else text, names)
    yours = expanded(read, {name: meaning[letter] for name, letter in names.items()})
    yours = Ratio(growth(yours.top)) if own.order and yours.top != settled(own.closed) else yours
    right = settled(own.closed)
    known = {letter: exact(size) for letter, size in values(model, run or Workload()).items()}
    sizes = {letter: known[letter] for letter in own.legend if letter in known}
    a_number = not yours.top.free_symbols and set() < right.free_symbols <= set(sizes) and not own.order
    if a_number:
        right = polynomial(right.at(sizes))
    difference = yours - Ratio(right)
    causes: tuple[Cause, ...] = ()
    share: Ratio | None = None
    instead = ""
    if difference.top.terms and of in COUNTS:
        tree = to_open(model, of, run, conventions, training=training, serving=serving, general=general)
        lines = [
            line._replace(formula=polynomial(line.value) if a_number else settled(line.formula))
            for line in opened(target, of, tree).lines
        ]
        if sum((line.formula for line in lines), start=Polynomial({})) == right:
            causes = causes_of(difference, lines)
            if a_number:  # many numbers are some part a few times
                causes = tuple(cause for cause in causes if cause.is_all or cause.times in (NEVER, TWICE))
        if len(causes) != 1 or causes[0].cost > FAR_FETCHED:
            share = None if a_number else proportion(yours, right)
            instead = "" if share else _of_another_question(yours, target, of, tree, conventions, general=general)
    other = ""
    if difference.top.terms and not (a_number or letters or own.order):
        others = (name for name in NOTATIONS if name != notation)
        other = next(
            (name for name in others if _is(right, text, model, run or Workload(), own.legend, name, meaning)), ""
        )
    return Check(
        target=target,
        path=own.path,
        of=of,
        text=text,
        yours=yours,
        right=right,
        closed=own.closed if a_number else None,
        sizes=sizes if a_number else {},
        order=own.order,
        causes=() if instead or share else causes,
        share=share,
        instead=instead,
        notation=other,
        letters=written,
        legend=own.legend,
        model=own.model,
        conventions=own.conventions,
        notes=own.notes,
    )


FAR_FETCHED = 3.05
"""A cause that costs more is named only where the formula answers no other question."""


def _names(
    model: Model, run: Workload, legend: Iterable[str], notation: str, others: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """How each letter is written, and which letter each name means. Raises UsageError where others are none."""
    names = {spelled(letter, notation): letter for letter in legend} | spellings(model, run, notation=notation)
    written = {letter: spelled(letter, notation) for letter in names.values()}
    own = own_letters(others, model, run, notation=notation)
    for letter in own:
        names.pop(written[letter], None)
    return written | own, names | {other: letter for letter, other in own.items()}


def _meaning(model: Model, run: Workload, legend: Iterable[str], *, general: bool) -> dict[str, Polynomial]:
    """What each letter is worth: itself, or what it follows from."""
    found = {letter: symbol(letter) for letter in legend}
    for one in (with_symbols(model, general=general), with_symbols(run, general=general)):
        present = one.values()
        implied = getattr(one, "implied", {})
        for name, size in one.dimensions().items():
            follows = size.symbol not in present and name in implied
            found[size.symbol] = polynomial(implied[name]) if follows else symbol(size.symbol)
    return found


def _is(
    right: Polynomial,
    text: str,
    model: Model,
    run: Workload,
    legend: Iterable[str],
    notation: str,
    meaning: Mapping[str, Polynomial],
) -> bool:
    """Whether a text is the right formula if it is read in the letters of a notation."""
    _, names = _names(model, run, legend, notation, {})
    try:
        yours = expanded(read_formula(text, names), {name: meaning[letter] for name, letter in names.items()})
    except UsageError:
        return False
    return yours == Ratio(right)


def _of_another_question(
    yours: Ratio,
    target: str,
    of: str,
    tree: Tree,
    conventions: Conventions | None,
    *,
    general: bool,
) -> str:
    """Which part, quantity, mask or phase the formula is right for; ``""`` where for none."""
    if yours.bottom != 1 or tree.of_terms or not yours.top.terms:
        return ""
    by, model, run = conventions or Conventions(), tree.model, tree.run
    if of != "memory":
        measure = measure_of(of, run, by)
        for name in TARGETS:
            try:
                node = find(tree.twin if yours.top.free_symbols else tree.node, name)
            except UsageError:
                continue
            if polynomial(node.component.each(measure)) == yours.top:
                return f"of {name}"
    if not yours.top.free_symbols:
        return ""
    questions = [(f"of the {QUANTITIES[other]}", other, run) for other in ("params", "flops", "memory") if other != of]
    if of == "flops":
        questions += [(f"with --attention {pairs}", of, run.replaced(attention=pairs)) for pairs in PAIRS]
        questions += [(f"with --phase {phase}", of, run.replaced(phase=phase)) for phase in ("forward", "train")]
    for words, quantity, asked in questions:
        try:
            other = formula(target, quantity, model, asked, conventions, general=general).closed
        except TfcalcError:
            continue
        if other == yours.top:
            return words
    return ""
