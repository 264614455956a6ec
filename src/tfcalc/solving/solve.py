"""``tfcalc solve``: the sizes at which a condition on parameters, FLOPs or memory holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfcalc.analysis.common import asked_run, check_arguments, check_plans, default_run
from tfcalc.conventions import Conventions
from tfcalc.core.effort import at_most
from tfcalc.errors import TfcalcError, UsageError, nearest
from tfcalc.expressions import Condition, read_conditions
from tfcalc.expressions.nodes import Name, Number, walk
from tfcalc.printable import quoted
from tfcalc.report.style import Style
from tfcalc.solving.answer import Solved
from tfcalc.solving.asked import Asked
from tfcalc.solving.closed import Steps, TooLarge, over, solved
from tfcalc.solving.family import Family, family
from tfcalc.solving.names import QUANTITIES
from tfcalc.solving.single import Single
from tfcalc.solving.unknowns import Setting, Unknown, settled, unknown
from tfcalc.symbols import legend
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfcalc.core.polynomial import Polynomial
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.model import Model

MOST_UNKNOWNS = 3
COMPARISON = re.compile(r"<=|>=|==|=<|=>|[=<>≤≥]")


def solve(
    condition: str,
    unknowns: str | Sequence[str],
    model: Model | None = None,
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
) -> Solved | Family:
    """The sizes at which a condition holds, each end proven by the size behind it.

    Args:
        condition: two formulas that are compared, or three: ``"attention = ffn"``, ``"memory <= 80GiB"``,
            ``"1B <= params < 2B"``. Names are params, flops, memory, active_params and trainable_params of the whole
            model; a part by kind or path, ``ffn`` or ``model.layers.mlp``, with its quantity in front or behind
            (``ffn.params``); a term of memory (``memory.weights``); and sizes (``d_ff``).
        unknowns: the size to solve for, by its option or its letter (``seq``, ``d_model``, ``layers``, ``tokens``,
            ``gpus``), or several.
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
        UsageError: the condition cannot be read, or compares what cannot be; a size changes nothing in it.
        InvalidModel: as in :func:`tfcalc.params`.

    >>> found = solve("attention = ffn", "seq")
    >>> found.value, found.closed
    (342, 'l = 2h/3')
    >>> solve("params <= 125M", "layers").value
    16
    """
    from tfcalc.zoo.transformer import Transformer

    chosen = Transformer() if model is None else model
    check_arguments(chosen, workload, conventions)
    check_plans(training, serving)
    by = conventions or Conventions()
    conditions = read_conditions(condition)
    run = asked_run(chosen, workload or default_run(chosen))
    run = run.replaced(phase="train") if training is not None and not run.training and serving is None else run
    setting = Setting(chosen, run, training, serving, tokens)
    words = [unknowns] if isinstance(unknowns, str) else list(unknowns)
    sought = _unknowns([word.strip() for each in words for word in each.split(",")], setting)
    sought, setting = settled(sought, setting)
    names = frozenset[str]().union(*(each.names for each in conditions))
    if not names:
        raise UsageError(f"{quoted(condition)} compares numbers alone", "name a quantity: params, flops or memory")
    chosen_of = of or ("flops" if all(each.owner in ("run", "tokens") for each in sought) else "params")
    if chosen_of not in QUANTITIES:
        raise UsageError(f"quantity {quoted(chosen_of)} is not known", nearest(chosen_of, QUANTITIES))
    asked = Asked(setting, by, names, chosen_of, weights)
    _check_units(conditions, asked)
    if symbolic and len(sought) > 1:
        raise UsageError("--symbolic solves for one size", "leave out the others")
    texts = tuple(text.strip() for text in COMPARISON.split(condition))
    style = Style(notation=notation)
    with at_most(MOST_UNITS_OF_MEMORY if asked.memory_runs else MOST_UNITS, *_spent(condition, sought)):
        sought, asked = _trained(sought, asked)
        asked.values(asked.setting)
        if len(sought) > 1:
            return family(asked, conditions, sought, condition, texts)
        (one,) = sought
        found = Single(asked, conditions, one, asked.forms(sought)).found()
    steps = _steps(conditions, found.forms, one, style)
    if symbolic and (steps is None or not (steps.equal or steps.never)):
        why = (
            "the memory of training and serving has none"
            if asked.memory_runs
            else "it has a degree above 2, or a floor"
        )
        raise UsageError(f"no closed form of {one.word} in {quoted(condition)}; {why}", "leave out --symbolic")
    used = frozenset[str]().union(*(form.free_symbols for form in (found.forms or {}).values()))
    return Solved(
        condition=condition,
        of=chosen_of,
        asked=asked,
        unknowns=sought,
        found=found,
        texts=texts,
        conditions=conditions,
        steps=steps,
        symbolic=symbolic,
        style=style,
        legend=legend(used, chosen, run) if steps and (steps.equal or symbolic) else {},
    )


def _unknowns(words: Sequence[str], setting: Setting) -> tuple[Unknown, ...]:
    if not any(words):
        raise UsageError("no size to solve for", "add --for seq, or another size")
    if len(words) > MOST_UNKNOWNS:
        raise UsageError(f"{len(words)} sizes to solve for", f"give at most {MOST_UNKNOWNS}")
    found = tuple(unknown(word, setting) for word in words)
    for place, each in enumerate(found):
        if any((each.owner, each.name) == (other.owner, other.name) for other in found[:place]):
            raise UsageError(f"{quoted(each.word)} is the same size as one before it", "give each once")
    return found


def _trained(sought: tuple[Unknown, ...], asked: Asked) -> tuple[tuple[Unknown, ...], Asked]:
    """The same with GPUs, stages or groups on which the plan of training makes sense, where those it has do not."""
    found = []
    for each in sought:
        if each.owner == "training":
            for size in dict.fromkeys([each.value or 1, *STARTS]):
                setting = asked.setting.at(each, size)
                try:
                    asked.values(setting)
                except TfcalcError:
                    continue
                each, asked = each._replace(value=size), asked.with_setting(setting)
                break
        found.append(each)
    return tuple(found), asked


MOST_UNITS, MOST_UNITS_OF_MEMORY = 240_000, 140_000
"""What may be spent (:mod:`tfcalc.core.effort`) on a search, and on one for the memory of a step: some seconds."""


def _spent(condition: str, sought: Sequence[Unknown]) -> tuple[str, str]:
    """What to say where that is too little, and what to do."""
    words = ", ".join(each.word for each in sought)
    fact = f"solving {quoted(condition)} for {words} takes too many runs of the model"
    return fact, "solve for one of them" if len(sought) > 1 else "ask for the number at a few sizes instead"


FEW = 10**6
"""Bytes: whoever writes less means another unit."""
STARTS = (2, 4, 8, 16, 32, 64)


def _steps(
    conditions: Sequence[Condition], forms: Mapping[str, Polynomial] | None, one: Unknown, style: Style
) -> Steps | None:
    """How one comparison is solved in letters, where its names have closed forms."""
    if forms is None or len(conditions) > 1:
        return None
    (condition,) = conditions
    try:
        sides = (over(condition.left, forms), over(condition.right, forms))
        return solved(*sides, condition.operator, one.letter, style)
    except (TooLarge, UsageError):
        return None


def _check_units(conditions: Sequence[Condition], asked: Asked) -> None:
    """Memory is compared with amounts that have a unit, and these with memory alone. Raises UsageError."""
    for each in conditions:
        numbers = [part for side in (each.left, each.right) for part in walk(side) if isinstance(part, Number)]
        quantities = {asked.meant[name].quantity for name in each.names}
        amounts = [number for number in numbers if number.unit]
        if amounts and "memory" not in quantities:
            others = ", ".join(sorted(each.names)) or "nothing"
            raise UsageError(f"{amounts[0].text} is an amount of memory, {others} is none", "compare memory with it")
        for side, other in ((each.left, each.right), (each.right, each.left)):
            bare = isinstance(side, Number) and not side.unit and 0 < side.value < FEW
            if bare and quantities == {"memory"} and isinstance(other, Name):
                text = getattr(side, "text", "")
                remedy = f"say {text}GiB or {text}GB" if text.isdigit() else "say 80GiB or 80GB"
                raise UsageError(f"{text} has no unit", remedy)
