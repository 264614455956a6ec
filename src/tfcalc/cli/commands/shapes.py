"""``tfcalc shapes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.answers.shapes import shapes
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.formula import TARGET, aimed
from tfcalc.cli.idle import OF_PART, refuse_idle_in_flops, refuse_idle_on
from tfcalc.cli.options import COUNT, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW
from tfcalc.cli.settings import Settings
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.answers.shapes import Shapes
    from tfcalc.report.answer import Answered


def answer(settings: Settings) -> Answered:
    """Return the shapes of the tensors that a part computes on the way."""
    settings = aimed(settings)
    model = settings.model()
    refuse_idle_in_flops(settings, model, everything=settings.get("count") == "all")
    refuse_idle_on(settings, OF_PART, _found, f"on {quoted(settings.get('target'))}")
    return _found(settings)


def _found(settings: Settings) -> Shapes:
    model = settings.model()
    return shapes(settings.get("target"), model, settings.workload(model), settings.conventions())


COMMAND = Command(
    answer,
    (TARGET, MODEL_ARGUMENT, *MODEL_OPTIONS, *RUN, *COUNT, *SHOW),
    (
        "tfcalc shapes mha --batch 2 --seq 5",
        "tfcalc shapes layer llama-3-8b --seq 4k",
        "tfcalc shapes attention gpt2 --phase decode --cached 1k",
        "tfcalc shapes encoder-layer --batch 8 --seq 128 --notation bsld",
    ),
)
