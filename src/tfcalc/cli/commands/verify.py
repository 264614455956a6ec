"""``tfcalc verify``."""

from __future__ import annotations

from tfcalc.cli.commands import Command
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, SHOW
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.verify.count import verify


def run(settings: Settings) -> int:
    """Answer it; 1 where the counts differ."""
    answer = verify(settings.model())
    show(answer, settings)
    return 0 if answer.agrees else 1


COMMAND = Command(
    run,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *SHOW),
    (
        "tfcalc verify --d-model 512 --layers 6",
        "tfcalc verify transformer-base --json",
        "tfcalc verify --kind decoder --norm rmsnorm --kv-heads 2 --no-attention-bias",
    ),
)
