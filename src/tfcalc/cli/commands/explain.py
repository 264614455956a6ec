"""``tfcalc explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.cli.commands import Command
from tfcalc.cli.commands.formula import TARGET, named
from tfcalc.cli.commands.plans import PLANS
from tfcalc.cli.options import COUNT, DTYPE, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.questions.explain import COUNTS, explain

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def run(settings: Settings) -> int:
    """Answer it."""
    model = settings.model()
    of, run = settings.get("of", "params"), settings.workload(model)
    if of == "memory" and (run.training or settings.get("serve")):
        return _memory(settings, model, run)
    answer = explain(
        named(settings),
        model,
        of,
        run,
        settings.definitions(),
    )
    show(answer, settings)
    return 0


def _memory(settings: Settings, model: Model, run: Workload) -> int:
    """A term of training's or serving's memory."""
    from tfcalc.cli.commands.memory import with_kernel
    from tfcalc.held.plans import Serving, Training

    training = settings.fill(Training()) if run.training else None
    serving = None if training else settings.fill(Serving())
    run = with_kernel(settings, model, run, training)
    answer = explain(
        named(settings), model, "memory", run, settings.definitions(), training=training, serving=serving
    )
    show(answer, settings)
    return 0


COMMAND = Command(
    run,
    (
        TARGET,
        Option("of", ("--of",), "which quantity [default: params]", tuple(COUNTS)),
        *MODEL_OPTIONS,
        *RUN,
        *PLANS,
        *COUNT,
        *DTYPE,
        *SHOW,
    ),
    (
        "tfcalc explain attention --d-model 768 --heads 12",
        "tfcalc explain encoder-layer --of flops --seq 1024",
        "tfcalc explain activations.transformer.h.attn --model gpt2 --of memory --train --batch 8 --seq 1024",
        "tfcalc explain output --model transformer-base --of flops --format plain",
    ),
)
