"""``tfcalc memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.cli.commands import Command
from tfcalc.cli.options import DEPTH, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, UNITS, Option, of_fields
from tfcalc.cli.output import show
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.held.plans import Serving, Training
from tfcalc.questions.memory import memory

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.report.answer import Answer
    from tfcalc.workload import Workload

TRAINING = tuple(of_fields(Training))
SERVE = Option(
    "serve", ("--serve",), "the memory of serving: weights, cache, and what is live beside them", switch=True
)
SERVING = tuple(of_fields(Serving))
TIMELINE = Option("timeline", ("--timeline",), "the phases of a training step, each at its highest moment", switch=True)
AT_REST = ("weights",)
"""What may be asked of a model at rest, too."""


def run(settings: Settings) -> int:
    """Answer it."""
    answer = _answer(settings)
    show(answer, settings)
    return 0


def _answer(settings: Settings) -> Answer:
    model = settings.model()
    by, depth = settings.definitions(), settings.get("depth")
    if settings.get("serve"):
        _only(settings, TRAINING, "--train")
        return memory(model, by, run=settings.workload(model), serving=settings.fill(Serving()), depth=depth)
    _only(settings, [option for option in SERVING if option.name not in AT_REST], "--serve")
    run = settings.workload(model)
    if not run.training:
        _only(settings, (*TRAINING, TIMELINE), "--train")
        return memory(model, by, serving=settings.fill(Serving()) if settings.get("weights") else None, depth=depth)
    plan = settings.fill(Training())
    report = memory(model, by, run=_with_kernel(settings, model, run, plan), training=plan, depth=depth)
    if not settings.get("timeline"):
        return report
    from tfcalc.questions.timeline import Timeline

    return Timeline(report)


def _with_kernel(settings: Settings, model: Model, run: Workload, plan: Training) -> Workload:
    """The kernel that was asked for, or what PyTorch would choose."""
    if "kernel" in settings.given:
        return run
    from tfcalc.questions.kernels import chosen

    return run.replaced(kernel=chosen(model, run, plan))


def _only(settings: Settings, options: tuple[Option, ...] | list[Option], needed: str) -> None:
    """Refuse what was typed and says nothing here."""
    for option in options:
        given = settings.given.get(option.name)
        if given and given.source == FLAG:
            raise UsageError(f"{given.called} says nothing without {needed}", f"add {needed}")


COMMAND = Command(
    run,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *RUN, *TRAINING, TIMELINE, SERVE, *SERVING, *DTYPE, *UNITS, DEPTH, *SHOW),
    (
        "tfcalc memory --d-model 512 --layers 6",
        "tfcalc memory transformer-big --dtype bf16 --units si",
        "tfcalc memory llama-3-8b --train --batch 8 --seq 4096 --recipe mixed --attention-kernel flash --recompute full",
        "tfcalc memory gpt2 --train --batch 8 --seq 1024 --timeline",
        "tfcalc memory --dtype int4 --json",
    ),
)
