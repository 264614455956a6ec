"""``tfcalc explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.explain import COUNTS, explain
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.formula import TARGET, aimed
from tfcalc.cli.commands.plans import PLANS, plans_for
from tfcalc.cli.options import COUNT, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.settings import Settings

if TYPE_CHECKING:
    from tfcalc.report.answer import Answer


def answer(settings: Settings) -> Answer:
    """How one number is computed."""
    settings = aimed(settings)
    model = settings.model()
    of, run = settings.get("of", "params"), settings.workload(model)
    asked = plans_for(settings, of, model, run)
    return explain(
        settings.get("target"),
        model,
        of,
        asked.workload or run,
        settings.conventions(),
        training=asked.training,
        serving=asked.serving,
    )


COMMAND = Command(
    answer,
    (
        TARGET,
        MODEL_ARGUMENT,
        Option("of", ("--of",), "quantity [default: params]", tuple(COUNTS)),
        *MODEL_OPTIONS,
        *RUN,
        *PLANS,
        *COUNT,
        *DTYPE,
        *SHOW,
    ),
    (
        "tfcalc explain attention --d-model 768 --heads 12",
        "tfcalc explain attention gpt2",
        "tfcalc explain encoder-layer --of flops --seq 1024",
        "tfcalc explain activations.transformer.h.attn --model gpt2 --of memory --train --batch 8 --seq 1024",
        "tfcalc explain output --model transformer-base --of flops --format plain",
    ),
)
