"""``tfcalc solve``: the sizes at which a condition on parameters, FLOPs or memory holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfcalc.analysis.common import check_arguments, check_plans, model_of
from tfcalc.core.traced import at_most
from tfcalc.errors import TfcalcError, UsageError, nearest
from tfcalc.expressions import Condition, read_conditions
from tfcalc.expressions.nodes import Name, NumberNode, walk
from tfcalc.model import asked_run, legend, own_run
from tfcalc.printable import quoted
from tfcalc.report.style import Style
from tfcalc.solving.answer import Solved
from tfcalc.solving.closed_form import Steps, TooLarge, over, solved
from tfcalc.solving.conditions import CARD, QUANTITIES, Evaluator, Meant, parts_named
from tfcalc.solving.solver import Solver
from tfcalc.solving.unknown import Setting, UnknownSize, unknown_size, with_feasible_start
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfcalc.core.polynomial import Polynomial
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training

COMPARISON = re.compile(r"<=|>=|==|=<|=>|[=<>≤≥]")


def solve(
    condition: str,
    unknown: str,
    model: Model | str | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    of: str | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    tokens: int | None = None,
    symbolic: bool = False,
    notation: str = "lbhn",
) -> Solved:
    """The sizes at which a condition holds, each end proven by the size behind it.

    Args:
        condition: two formulas that are compared, or three: ``"attention = ffn"``, ``"memory <= 80GiB"``,
            ``"1B <= params < 2B"``; or the memory with a card, ``"memory <= h100"``, by the rule of verdicts. Names are
            params, flops, memory, active_params and trainable_params of the whole model; a part by kind or path,
            ``ffn`` or ``model.layers.mlp``, with its quantity in front or behind (``ffn.params``); a term of memory
            (``memory.weights``); and sizes (``d_ff``).
        unknown: the size to solve for, by its option or its letter (``seq``, ``d_model``, ``layers``, ``tokens``,
            ``gpus``).
        model: as in :func:`tfcalc.params`; by default the classic Transformer.
        workload: phase, sequences and their lengths in tokens.
        conventions: which operations are counted, and the number format of weights.
        of: the quantity of parts that say none: ``params``, ``flops`` or ``memory``. By default flops where sequences
            or their lengths are solved for, else params.
        training: the plan of the training step whose memory is meant, or what of the model it trains.
        serving: how the model is served, where that memory is meant.
        weights: the format of the weights of a model at rest.
        tokens: of a whole training run, whose FLOPs are meant.
        symbolic: show how the closed form follows, step by step.
        notation: letters of the closed form: ``lbhn``, ``bsld`` or ``names``.

    Returns:
        The answer: ``value`` is the size, ``ranges`` all that meet the condition, ``rows`` what both sides are at the
        ends and next to them, ``equal`` the closed form. ``exit_code`` is 1 where no size meets it.

    Raises:
        UsageError: the condition cannot be read, or compares what cannot be; the size changes nothing in it; several
            sizes are given, which :func:`tfcalc.design` finds.
        InvalidModel: as in :func:`tfcalc.params`.

    >>> found = solve("attention = ffn", "seq")
    >>> found.value, found.closed
    (342, 'l = 2h/3')
    >>> solve("params <= 125M", "layers").value
    16
    """
    chosen = Transformer() if model is None else model_of(model)
    check_arguments(chosen, workload, conventions)
    check_plans(training, serving)
    by = conventions or Conventions()
    conditions = read_conditions(parts_named(condition))
    run = asked_run(chosen, own_run(chosen, workload))
    run = run.replaced(phase="train") if training is not None and not run.training and serving is None else run
    setting = Setting(chosen, run, training, serving, tokens)
    one, setting = with_feasible_start(
        unknown_size(one_size(unknown if isinstance(unknown, str) else ",".join(unknown)), setting), setting
    )
    names = frozenset[str]().union(*(each.names for each in conditions))
    if not names:
        raise UsageError(f"{quoted(condition)} compares numbers alone", "name a quantity: params, flops or memory")
    chosen_of = of or ("flops" if one.owner in ("run", "tokens") else "params")
    if chosen_of not in QUANTITIES:
        raise UsageError(f"quantity {quoted(chosen_of)} is not known", nearest(chosen_of, QUANTITIES))
    evaluator = Evaluator(setting, by, names, chosen_of, weights)
    _check_units(conditions, evaluator)
    texts = tuple(text.strip() for text in COMPARISON.split(condition))
    style = Style(notation=notation)
    with at_most(MOST_UNITS_ON_A_CARD if evaluator.card else MOST_UNITS, *_spent(condition, one)):
        one, evaluator = _trained(one, evaluator)
        evaluator.values(evaluator.setting)
        found = Solver(evaluator, conditions, one, evaluator.forms(one)).found()
    steps = _steps(conditions, found.forms, one, style)
    if symbolic and (steps is None or not (steps.equal or steps.never)):
        why = (
            "the memory of training and serving has none"
            if evaluator.memory_runs
            else "it has a degree above 2, or a floor"
        )
        raise UsageError(f"no closed form of {one.word} in {quoted(condition)}; {why}", "leave out --symbolic")
    used = frozenset[str]().union(*(form.free_symbols for form in (found.forms or {}).values()))
    return Solved(
        condition=condition,
        of=chosen_of,
        evaluator=evaluator,
        unknown=one,
        found=found,
        texts=texts,
        conditions=conditions,
        steps=steps,
        symbolic=symbolic,
        style=style,
        legend=legend(used, chosen, run) if steps and (steps.equal or symbolic) else {},
    )


def one_size(text: str) -> str:
    """The word of the size to solve for. Raises UsageError where it names none, or several."""
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise UsageError("no size to solve for", "add --for seq, or another size")
    if len(words) > 1:
        fact = f"solve finds one size, and {quoted(text)} names {len(words)}"
        raise UsageError(fact, "keep one of them, or let tfcalc design --params 125M find whole shapes")
    return words[0]


def _trained(one: UnknownSize, evaluator: Evaluator) -> tuple[UnknownSize, Evaluator]:
    """Replace GPUs, stages or groups on which the plan of training makes no sense by a number on which it does."""
    if one.owner == "training":
        for size in dict.fromkeys([one.value or 1, *STARTS]):
            setting = evaluator.setting.at(one, size)
            try:
                evaluator.values(setting)
            except TfcalcError:
                continue
            return one._replace(value=size), evaluator.with_setting(setting)
    return one, evaluator


MOST_UNITS, MOST_UNITS_ON_A_CARD = 300_000, 500_000
"""What may be spent (:mod:`tfcalc.core.traced`) on a search: some seconds. On a card the verdict's own search is tried,
too."""


def _spent(condition: str, one: UnknownSize) -> tuple[str, str]:
    """Return the fact and the remedy to tell where that is too little."""
    fact = f"solving {quoted(condition)} for {one.word} takes too many runs of the model"
    return fact, "ask for the number at a few sizes instead"


FEW = 10**6
"""Bytes: whoever writes less means another unit."""
STARTS = (2, 4, 8, 16, 32, 64)


def _steps(
    conditions: Sequence[Condition], forms: Mapping[str, Polynomial] | None, one: UnknownSize, style: Style
) -> Steps | None:
    """Solve one comparison in letters, step by step, where its names have closed forms."""
    if forms is None or len(conditions) > 1:
        return None
    (condition,) = conditions
    try:
        sides = (over(condition.left, forms), over(condition.right, forms))
        return solved(*sides, condition.operator, one.letter, style)
    except (TooLarge, UsageError):
        return None


def _check_card(condition: Condition, evaluator: Evaluator) -> None:
    """Raise UsageError where a card is compared otherwise than as the most that memory may be."""
    cards = [name for name in sorted(condition.names) if evaluator.meant[name].quantity == CARD]
    if not cards:
        return
    left, right = condition.left, condition.right
    if condition.operator in (">=", ">"):
        left, right = right, left
    sides = [evaluator.meant[side.name] if isinstance(side, Name) else None for side in (left, right)]
    if sides != [Meant("memory"), Meant(CARD, cards[0])] or condition.operator == "=":
        shown = cards[0].replace("_", "-")
        raise UsageError(f"{shown} is a card, which the whole memory may fit into", f"write memory <= {shown}")


def _check_units(conditions: Sequence[Condition], evaluator: Evaluator) -> None:
    """Memory is compared with amounts that have a unit, and these with memory alone. Raises UsageError."""
    for each in conditions:
        _check_card(each, evaluator)
        numbers = [part for side in (each.left, each.right) for part in walk(side) if isinstance(part, NumberNode)]
        quantities = {evaluator.meant[name].quantity for name in each.names}
        amounts = [number for number in numbers if number.unit]
        if amounts and "memory" not in quantities:
            others = ", ".join(sorted(each.names)) or "nothing"
            raise UsageError(f"{amounts[0].text} is an amount of memory, {others} is none", "compare memory with it")
        for side, other in ((each.left, each.right), (each.right, each.left)):
            bare = isinstance(side, NumberNode) and not side.unit and 0 < side.value < FEW
            if bare and quantities == {"memory"} and isinstance(other, Name):
                text = getattr(side, "text", "")
                remedy = f"say {text}GiB or {text}GB" if text.isdigit() else "say 80GiB or 80GB"
                raise UsageError(f"{text} has no unit", remedy)
