"""``tfcalc gpus``."""

from __future__ import annotations

from tfcalc.answers.gpus import ListOfGpus, gpus
from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.settings import Settings

NAME = Option(
    "name",
    (),
    "list only these GPUs: h100, rtx, a maker, an amount of memory such as 24GB, or several: h100,4090",
    argument=True,
)


def answer(settings: Settings) -> ListOfGpus:
    """The accelerators, or those that were asked for."""
    return gpus(settings.get("name", ""))


COMMAND = Command(
    answer,
    (NAME, *(option for option in SHOW if option.name not in ("formulas", "notation"))),
    (
        "tfcalc gpus",
        "tfcalc gpus h100",
        "tfcalc gpus 24GB",
        "tfcalc gpus --format csv",
    ),
)
