"""``tfcalc memory``."""

from __future__ import annotations

from tfcalc.cli.commands import Command
from tfcalc.cli.options import DEPTH, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, UNITS
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.questions.memory import memory


def run(settings: Settings) -> int:
    """Answer it."""
    report = memory(settings.model(), settings.definitions(), depth=settings.get("depth"))
    show(report, settings)
    return 0


COMMAND = Command(
    run,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *DTYPE, *UNITS, DEPTH, *SHOW),
    (
        "tfcalc memory --d-model 512 --layers 6",
        "tfcalc memory transformer-big --dtype bf16 --units si",
        "tfcalc memory --dtype int4 --json",
    ),
)
