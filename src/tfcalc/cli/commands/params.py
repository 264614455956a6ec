"""``tfcalc params``."""

from __future__ import annotations

from tfcalc.cli.commands import Command
from tfcalc.cli.options import DEPTH, MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.questions.params import params

APPROX = Option("approx", ("--approx",), "also without biases and norms", switch=True)


def run(settings: Settings) -> int:
    """Answer it."""
    report = params(settings.model(), depth=settings.get("depth"), approx=settings.get("approx", False))
    show(report, settings)
    return 0


COMMAND = Command(
    run,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, DEPTH, APPROX, *SHOW),
    (
        "tfcalc params --d-model 512 --layers 6",
        "tfcalc params transformer-big --json",
        "tfcalc params --kind decoder --d-model 768 --heads 12 --layers 12 --vocab-size 50257 -q",
    ),
)
