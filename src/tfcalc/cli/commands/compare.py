"""``tfcalc compare A B …``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.analysis.side_by_side import compare
from tfcalc.analysis.totals import Operand
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.plans import PLANS, SERVING, TRAINING
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_FIELDS, READ_AS, RUN, SHOW, UNITS, Option, of_fields
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.footprint.plans import Serving, Training
from tfcalc.printable import quoted
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.side_by_side import Comparison

MODELS = Option(
    "models", (), "models to compare: names, config.json, Hub ids; with options in quotes", argument=True, several=True
)
ONLY = Option("only_differences", ("--only-differences",), "leave out what is the same in all", switch=True)
TRAIN = Option("train", ("--train",), "the memory of a training step, too", switch=True)
SIZES = tuple(of_fields(Workload, "batch_size", "seq_len", "source_len"))
IN_TRAINING = (
    *of_fields(Workload, "kernel", "recompute", "dropout"),
    *(option for option in RUN if option.name == "gradient_checkpointing"),
)
"""What changes the memory of training alone."""
EACH = (*READ_AS, *MODEL_FIELDS, *SIZES, *IN_TRAINING, TRAIN, *PLANS)
"""What may be different for each model, or the same for all."""


def answer(settings: Settings) -> Comparison:
    """The models side by side."""
    operands = list(_operands(settings))
    return compare(
        *operands,
        conventions=settings.conventions(),
        only_differences=settings.get("only_differences", False),
    )


def _operands(settings: Settings) -> Iterator[Operand]:
    for text in settings.get("models") or ():
        own = _own(text)
        given = settings.given | {name: each for name, each in own.given.items() if each.source == FLAG}
        yield _operand(text, Settings(given))


def _own(text: str) -> Settings:
    """The model and the options that one argument holds. Raises UsageError."""
    from tfcalc.catalog import is_path
    from tfcalc.cli.app import settings_of

    if is_path(text):
        return settings_of([text], (MODEL_ARGUMENT, *EACH))
    try:
        words = shlex.split(text)
    except ValueError:
        raise UsageError(f"{quoted(text)} has a quotation mark that is not closed", "close it") from None
    return settings_of(words, (MODEL_ARGUMENT, *EACH))


def _operand(text: str, settings: Settings) -> Operand:
    model = settings.model()
    trains, serves = settings.get("train", False), settings.get("serve", False)
    if not trains:
        settings.refuse((option.name for option in (*TRAINING, *IN_TRAINING)), "without --train", {}, "add --train")
    if not serves:
        settings.refuse((option.name for option in SERVING), "without --serve", {}, "add --serve")
    return Operand(
        " ".join(text.split()),
        model,
        settings.fill(Workload()) if any(option.name in settings.given for option in (*SIZES, *IN_TRAINING)) else None,
        settings.fill(Training()) if trains else None,
        settings.fill(Serving()) if serves else None,
    )


COMMAND = Command(
    answer,
    (MODELS, *EACH, ONLY, *UNITS, *(option for option in SHOW if option.name != "formulas")),
    (
        "tfcalc compare llama-3-8b qwen3-8b",
        "tfcalc compare llama-3-8b 'llama-3-8b --kv-heads 32' --only-differences",
        "tfcalc compare gpt2 gpt2-medium gpt2-large --train --seq 1k --format markdown",
        "tfcalc compare llama-3-8b 'llama-3-8b --qlora --checkpointing full' --train --seq 4k",
    ),
)
