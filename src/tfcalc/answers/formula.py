"""The closed form of a quantity of a part, with its legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfcalc.analysis.approximate import too_small
from tfcalc.analysis.closed_form import Formula
from tfcalc.analysis.common import check_arguments, check_plans, model_of, refuse_idle_in_flops, run_tree, tuning_for
from tfcalc.analysis.nothing import why_zero
from tfcalc.analysis.quantities import QUANTITIES, REACH, growth, measure_of
from tfcalc.analysis.targets import find, find_term, needs_vocabulary, others, with_some_vocabulary
from tfcalc.answers.conventions_text import TIME, as_json, as_text
from tfcalc.answers.explain import opened, terms_of, to_open
from tfcalc.core.measure import bytes_held, major_params
from tfcalc.core.notation import spelled
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.defaults import resolve_dtype
from tfcalc.dimensions import check_size
from tfcalc.errors import UsageError, one_of
from tfcalc.model import asked_run, legend, own_letters, values, with_symbols
from tfcalc.model import letters as letters_of
from tfcalc.printable import quoted
from tfcalc.report import exact, polynomial
from tfcalc.report.sheet import Factors
from tfcalc.tape.groups import apart
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training


def formula(
    target: str,
    of: str = "params",
    model: Model | str | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    approx: bool = False,
    big_o: bool = False,
    with_batch: bool = False,
    general: bool = False,
    by_matrix: bool = False,
    substitute: Mapping[str, int] | None = None,
    notation: str = "lbhn",
    letters: Mapping[str, str] | None = None,
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
        with_batch: the growth of the whole batch, with b, rather than of one sequence.
        general: give a letter of its own to each size that follows from others by default (f instead of 4h).
        by_matrix: leave each matrix a term of its own, ``h(ad) + 2h(gd) + (ad)h``.
        substitute: numbers for letters (of this ``notation``, or your own) or field names: ``{"h": 512}``.
        notation: the letters: ``lbhn``, ``bsld`` or ``names``.
        letters: letters of your own for some of these: ``{"h": "d", "l": "n"}``.
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
    by, chosen = conventions or Conventions(), Transformer() if model is None else model_of(model)
    check_arguments(chosen, workload, conventions)
    check_plans(training, serving)
    if of == "memory" and (training or serving or (workload is not None and workload.training)):
        if approx or big_o or with_batch or general or by_matrix or substitute or letters:
            raise UsageError(
                "the memory of training and serving has one form, the exact one",
                "leave out approx, big_o, with_batch, general, by_matrix, substitute and letters",
            )
        return _of_memory(target, chosen, workload, by, training=training, serving=serving)
    workload = asked_run(chosen, workload)
    if one_of("quantity", of, QUANTITIES) == "memory":
        by = resolve_dtype(chosen, by)
    if approx and of != "params":
        raise UsageError(f"approx works for parameters only, not for {of}", "leave out approx, or ask for params")
    if by_matrix and (approx or big_o or substitute or of == "time"):
        raise UsageError(
            "the form by matrix is the exact one in letters", "leave out approx, big_o, substitute and time"
        )
    chosen.check(workload)
    if of == "flops":
        refuse_idle_in_flops(chosen, workload)
    shown, given = chosen.described(), chosen
    if needs_vocabulary(target):
        chosen = chosen.with_vocabulary(symbol("V"))
    symbolic_run = with_symbols(workload, general=general)
    tuning = tuning_for(chosen, training, QUANTITIES[of])
    plan, symbolic = (None, None) if tuning is None else (tuning.plan, tuning.symbolic)
    root = run_tree(with_symbols(chosen, general=general), symbolic_run, symbolic)
    node = find(root.root(), target)
    closed = polynomial(node.component.each(major_params if approx else measure_of(of, workload, by)))
    order = big_o or of == "time"
    if with_batch and not order:
        raise UsageError("with_batch has an effect on growth only", "leave it out, or ask for big_o or time")
    closed = growth(closed, with_batch=with_batch) if order else closed
    meanings = legend(closed.free_symbols, chosen, workload)
    ranks = {} if tuning is None else tuning.legend
    meanings |= {letter: meaning for letter, meaning in ranks.items() if letter in closed.free_symbols}
    numbers_root = apart(run_tree(chosen, workload, plan), root).root()
    own = _own_letters(letters or {}, meanings, chosen, workload, notation=notation)
    notes = [
        *([why_zero(find(numbers_root, target).component, of, workload)] if closed == 0 else []),
        *others(numbers_root, target, find(numbers_root, target)),
        *(chosen.remarks(workload) if of in ("flops", "time") else ()),
        *(too_small(find(numbers_root, target), chosen) if approx else []),
        *([] if tuning is None else [tuning.heading]),
        *as_text(of, workload, by, sizes=False, with_batch=with_batch),
        *([f"and {meanings[REACH]} ≤ sequence length"] if order and REACH in meanings else []),
    ]
    if substitute:
        ours = {other: letter for letter, other in own.items()}
        named = [name for name in substitute if name not in ours]
        by_letter = ours | letters_of(named, chosen, workload, notation=notation)
        for name, value in substitute.items():
            check_size(name, value)
        numbers = {by_letter[name]: value for name, value in substitute.items()}
        if len(numbers) < len(substitute):
            same = [quoted(name) for name in substitute if [*by_letter.values()].count(by_letter[name]) > 1]
            raise UsageError(f"{' and '.join(same)} are the same size", "give one of them")
        notes += [
            f"{own.get(letter) or spelled(letter, notation)} does not occur in it, or follows from another size"
            " (see --general)"
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
        sympy="",
        legend=meanings,
        model=shown,
        conventions=as_json(of, workload, by)
        | ({"time": TIME[with_batch]} if of == "time" else {})
        | ({} if tuning is None else tuning.described),
        notes=tuple(notes),
        letters=own,
        sizes=_exactly(values(given, workload) | ({} if tuning is None else tuning.values)),
        matrices=_matrices(target, of, given, workload, by, training, general=general) if by_matrix else (),
    )


def _of_memory(
    target: str,
    model: Model,
    run: Workload | None,
    conventions: Conventions,
    *,
    training: Training | None,
    serving: Serving | None,
) -> Formula:
    """The closed form of one term, or of what is inside it. A size that depends on when the peak is stays a letter."""
    tree = terms_of(model, run, conventions, training=training, serving=serving)
    node = find_term(tree.twin, target)
    closed = polynomial(node.component.each(bytes_held))
    used = closed.free_symbols
    letters = {letter: meaning for letter, meaning in tree.letters.items() if letter in used}
    value, sizes = exact(find_term(tree.node, target).component.each(bytes_held)), _exactly(tree.sizes or {})
    return Formula(
        target=target,
        path=node.path,
        of="memory",
        title="bytes",
        closed=closed,
        order=False,
        sympy="",
        legend=legend(used, model, tree.run) | letters,
        model=model.described(),
        conventions=tree.conventions,
        notes=tree.notes,
        sizes=sizes | _left(closed, sizes, value),
        value=value,
    )


def _left(closed: Polynomial, sizes: Mapping[str, int], value: int) -> dict[str, int]:
    """Return the size of a letter without a closed form, which follows from the value where it is the only one."""
    unknown = sorted(closed.free_symbols - sizes.keys())
    factor = closed.terms.get(((unknown[0], 1),), 0) if len(unknown) == 1 else 0
    return {unknown[0]: (value - closed.at({**sizes, unknown[0]: 0})) // factor} if factor else {}


def _exactly(sizes: Mapping[str, Num]) -> dict[str, int]:
    return {letter: exact(size) for letter, size in sizes.items() if not isinstance(size, Polynomial)}


def _matrices(
    target: str,
    of: str,
    model: Model,
    run: Workload,
    by: Conventions,
    training: Training | None,
    *,
    general: bool,
) -> tuple[Factors, ...]:
    tree = to_open(with_some_vocabulary(model, target), of, run, by, training=training, general=general)
    return tuple(line.symbols for line in opened(target, of, tree).lines)


def _own_letters(
    others: Mapping[str, str], meanings: Mapping[str, str], model: Model, run: Workload, *, notation: str
) -> dict[str, str]:
    """The user's letters. Raises UsageError where one has another meaning in this formula already."""
    own = own_letters(others, model, run, notation=notation)
    taken = {spelled(letter, notation): meanings[letter] for letter in meanings if letter not in own}
    for other in own.values():
        if other in taken:
            raise UsageError(f"{quoted(other)} is {taken[other]} here", f"give that a letter of its own: {other}=…")
    return own
