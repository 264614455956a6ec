"""``tfcalc MODEL``, and ``tfcalc overview``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tfcalc.cli.commands import Command
from tfcalc.cli.options import (
    EDITS,
    MODEL_ARGUMENT,
    MODEL_FIELDS,
    MODEL_OPTIONS,
    READ_AS,
    SHOW,
    UNITS,
    Option,
    of_fields,
)
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.model import default_run
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.answers.overview import Overview


GPU = Option(
    "gpu",
    ("--gpu",),
    "does it fit on this GPU: a verdict in the place of GPUs that hold it: h100",
    group="gpus",
    front=True,
    offers="gpus",
)


def answer(settings: Settings) -> Overview:
    """Everything at a glance."""
    from tfcalc.answers.overview import overview  # other commands ask for the options alone

    model = settings.model()
    workload = settings.fill(default_run(model))
    return overview(model, workload, settings.conventions(), asked=as_typed(settings), gpu=settings.get("gpu"))


def as_typed(settings: Settings) -> str:
    """The model and its options, as they are written in the commands that an overview names."""
    words = [settings.model_name] if settings.model_name else []
    for option in (*READ_AS, *MODEL_FIELDS, *EDITS):
        given = settings.given.get(option.name)
        if given and given.source == FLAG:
            words += (
                [option.flags[0].split("/")[given.value is False]]
                if option.switch
                else [given.called, f"{given.value}"]
            )
    return shlex.join(words)


COMMAND = Command(
    answer,
    (
        MODEL_ARGUMENT,
        *MODEL_OPTIONS,
        *of_fields(Workload, "batch_size", "seq_len", "recompute"),
        GPU,
        *UNITS,
        *(option for option in SHOW if option.name != "formulas"),
    ),
    (
        "tfcalc llama-3-8b",
        "tfcalc llama-3-8b --layers 16 --seq 8k",
        "tfcalc gpt2 --gpu t4",
        "tfcalc deepseek-v3 --json",
    ),
)
