"""Options that were typed and change nothing: what is said is the same with their other values, and without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.common import IN_BACKWARD, OF_FLOPS, run_tree
from tfcalc.cli.options import COUNT, RUN, TUNING
from tfcalc.cli.settings import FLAG
from tfcalc.core.measure import flops_of
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.model import asked_run
from tfcalc.training.adapters import OF_ADAPTERS
from tfcalc.workload import AUTO, Conventions, Workload, check_phase

if TYPE_CHECKING:
    from tfcalc.cli.options import Option
    from tfcalc.cli.settings import Given, Settings
    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.report.answer import Answered

WORDS = 3
"""Other words of an option that are tried, at most."""
OF_PART = tuple(option for option in (*RUN, *COUNT, *TUNING) if not option.short_for and option.name != "phase")
"""What may change the count of the whole model, and not that of a part."""
OF_FORM = tuple(option for option in OF_PART if option in TUNING or not option.number)
"""The same of a closed form, in which the sizes of a run are letters."""


def refuse_idle_in_flops(settings: Settings, model: Model, *, everything: bool = False) -> None:
    """Raise UsageError for an option of the workload that was typed and changes no FLOPs of this model.

    One that is not typed is forgotten then: a variable or a file sets it for other questions. ``everything`` counts all
    operations, where matrix products are not the only ones that the answer tells of.
    """
    training = settings.workload(model).training
    if not training:
        settings.refuse(IN_BACKWARD, "without --train", {}, "add --train")
    given = [option for option in RUN if option.name in OF_FLOPS and option.name in settings.given]
    if not given:
        return
    check_phase(settings.workload(model))  # what another phase needs says more

    def said(other: Settings) -> list[Num]:
        run = asked_run(model, other.workload(model))
        probe = run if run.decoding else run.replaced(seq_len=run.seq_len + 1)  # one token attends to itself alone
        tree = run_tree(model, probe, other.tuning())
        return [tree.total(flops_of(training, all_of_them)) for all_of_them in {False, everything}]

    refuse_idle(settings, given, said, f"on the FLOPs of {model.summary}")
    settings.forget(option.name for option in given if _is_idle(settings, option, said, said(settings)))


def refuse_idle_on(
    settings: Settings, options: Iterable[Option], answer: Callable[[Settings], Answered], where: str
) -> None:
    """Raise UsageError for one of these ``options`` that was typed and changes nothing of an answer.

    Its conventions, which repeat what was asked, do not count. It is found once more for each of the options: it is to
    be one of those that are found quickly.
    """

    def said(other: Settings) -> object:
        return {key: value for key, value in answer(other).to_dict().items() if key != "conventions"}

    refuse_idle(settings, options, said, where)


def refuse_idle(
    settings: Settings, options: Iterable[Option], said: Callable[[Settings], object], where: str, remedy: str = ""
) -> None:
    """Raise UsageError for one of these ``options`` that was typed and changes nothing of what is ``said``.

    At its default it is accepted. So is one whose default is decided elsewhere, and which says what that is, where
    another value of it has an effect (``--dtype bf16`` of a checkpoint in bf16).
    """
    typed = [option for option in options if _was_typed(option, settings.given.get(option.name))]
    if not typed:
        return
    now = said(settings)
    for option in typed:
        if _is_idle(settings, option, said, now):
            raise UsageError(f"{settings.given[option.name].words} has no effect {where}", remedy or "leave it out")


def _was_typed(option: Option, given: Given | None) -> bool:
    """Return whether the option was typed with another value than its default.

    It may have been typed by one of its own names or by what is short for it.
    """
    if given is None or given.source != FLAG or given.value in (DEFAULTS.get(option.name), AUTO):
        return False
    return given.called in option.flags or bool(given.short)


def _is_idle(settings: Settings, option: Option, said: Callable[[Settings], object], now: object) -> bool:
    """Return whether the answer is equal without it, and with other values of it where that may be so by chance.

    An option has an effect on what cannot be asked without it.
    """
    try:
        if said(settings.without(option.name)) != now:
            return False
    except TfcalcError:
        return False
    for other in _others(settings, option):
        with suppress(TfcalcError):
            if said(other) != now:
                return False
    return True


def _others(settings: Settings, option: Option) -> Iterator[Settings]:
    """The settings with other values of an option, where its default may say the same by chance.

    So it may where it is decided elsewhere, and where a length is padded to a window.
    """
    value, default = settings.get(option.name), DEFAULTS.get(option.name)
    if option.number and isinstance(value, int):
        beyond = value if default in FOLLOWING else 2 * max(value, cast("int", default))
        yield settings.with_values(**{option.name: beyond + 1})
    if default in FOLLOWING:
        for word in islice((word for word in option.known if word != value and ":" not in word), WORDS):
            yield settings.with_values(**{option.name: word})


DEFAULTS = {
    **{item.name: item.default for kind in (Workload, Conventions) for item in fields(kind)},
    **OF_ADAPTERS,
    "recompute": "none",  # which auto stands for, of FLOPs
}
FOLLOWING = (None, "auto")
"""Defaults that are decided by the model, or by what else is asked for."""
