"""Operands of a comparison: arguments that name a model, or a model with its options in quotes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tfcalc.answers.compared import SERVED, TRAINED, Operand
from tfcalc.answers.memory import memory_of
from tfcalc.catalog import is_path
from tfcalc.cli.app import settings_of
from tfcalc.cli.commands.plans import IN_BOTH, PLANS, SERVING, TRAINING, sound
from tfcalc.cli.options import EDITS, MODEL_ARGUMENT, MODEL_FIELDS, READ_AS, RUN, Option, of_fields
from tfcalc.cli.settings import FILE, FLAG, MODEL_NAMES, Settings
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.plans import Serving, Training
from tfcalc.printable import quoted
from tfcalc.report.declared import Unknown
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.answers.compared import Row

TRAIN = Option("train", ("--train",), "the memory of a training step, too", switch=True, group="training", front=True)
SIZES = tuple(of_fields(Workload, "batch_size", "seq_len", "source_len"))
IN_TRAINING = (
    *of_fields(Workload, "kernel", "recompute", "dropout"),
    *(option for option in RUN if option.name == "gradient_checkpointing"),
)
"""What changes the memory of training alone."""
OF_MODELS = (*READ_AS, *MODEL_FIELDS, *EDITS)
EACH = (*OF_MODELS, *SIZES, *IN_TRAINING, TRAIN, *PLANS)
"""What may be different for each model, or the same for all."""


def own_settings(text: str) -> Settings:
    """The model and the options that one argument holds. Raises UsageError."""
    if is_path(text):
        return settings_of([text], (MODEL_ARGUMENT, *EACH))
    try:
        words = shlex.split(text)
    except ValueError:
        raise UsageError(f"{quoted(text)} has a quotation mark that is not closed", "close it") from None
    return settings_of(words, (MODEL_ARGUMENT, *EACH))


def beside(settings: Settings, own: Settings) -> Settings:
    """The settings of all, with those of one argument in their place."""
    return Settings(settings.given | {name: each for name, each in own.given.items() if each.source == FLAG})


def operand(text: str, settings: Settings) -> Operand:
    """The model of these settings, with its workload and its plans. Raises InvalidModel, UsageError."""
    try:
        model = settings.model()
        sound(model)
    except InvalidModel as error:
        if not error.of_file and any(
            settings.given[name].source != FILE for name in MODEL_NAMES if name in settings.given
        ):
            raise UsageError(error.message, error.hint) from None
        error.of_file = True
        raise
    trains, serves = settings.get("train", False), settings.get("serve", False)
    if not trains:
        of_step = (option.name for option in (*TRAINING, *IN_TRAINING) if not (serves and option.name in IN_BOTH))
        settings.refuse(of_step, "without --train", {}, "add --train")
    if not serves:
        of_request = (option.name for option in SERVING if not (trains and option.name in IN_BOTH))
        settings.refuse(of_request, "without --serve", {}, "add --serve")
    return Operand(
        " ".join(text.split()),
        model,
        settings.fill(Workload()) if any(option.name in settings.given for option in (*SIZES, *IN_TRAINING)) else None,
        settings.fill(Training()) if trains else None,
        settings.fill(Serving()) if serves else None,
    )


def refuse_unknown(
    rows: Iterable[Row],
    operands: Sequence[Operand],
    workloads: Sequence[Workload],
    settings: Settings,
    own: Sequence[Settings] = (),
    enough: Callable[[Iterable[bool]], bool] = all,
) -> None:
    """Raise what ``memory`` raises, where options of training or serving were typed, and that memory is not known.

    They have no effect then: a wrong value among them, or what such a model does not have, is told as an error. Those
    for all of the models have none where it is known of none of them (or of one of them, if that is ``enough``); those
    of its ``own`` where it is not known of that.
    """
    options = {TRAINED.key: (*TRAINING, *IN_TRAINING), SERVED.key: SERVING}
    for row in rows:
        names = {option.name for option in options.get(row.key, ())}
        unknown = [isinstance(value, Unknown) for value in row.values]
        for place in [place for place, none in enumerate(unknown) if names and none]:
            if (enough(unknown) and _typed(settings, names)) or (own and _typed(own[place], names)):
                operand = operands[place]
                step = {"workload": workloads[place], "training": operand.training}
                asked: dict[str, Any] = step if row.key == TRAINED.key else {"serving": operand.serving}
                assert memory_of(operand.model, **asked).whole  # what cannot be counted is refused here


def _typed(settings: Settings, names: Collection[str]) -> bool:
    return any(name in names and given.source == FLAG for name, given in settings.given.items())
