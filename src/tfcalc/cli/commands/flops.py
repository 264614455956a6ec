"""``tfcalc flops``."""

from __future__ import annotations

from tfcalc.cli.commands import Command
from tfcalc.cli.options import COUNT, DEPTH, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.questions.flops import flops


def run(settings: Settings) -> int:
    """Answer it."""
    model = settings.model()
    report = flops(model, settings.workload(model), settings.definitions(), depth=settings.get("depth"))
    show(report, settings)
    return 0


COMMAND = Command(
    run,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *RUN, *COUNT, DEPTH, *SHOW),
    (
        "tfcalc flops --seq 1024 --batch 8",
        "tfcalc flops --train --seq 1024 --batch 8 --attention causal",
        "tfcalc flops transformer-base --seq 20 --source-seq 10 --batch 32 --json",
    ),
)
