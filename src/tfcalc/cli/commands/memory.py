"""``tfcalc memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.cli.commands import Command
from tfcalc.cli.commands.plans import SERVE, SERVING, TRAINING
from tfcalc.cli.options import DEPTH, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, UNITS, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.held.plans import Serving, Training
from tfcalc.questions.memory import at_rest, memory

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.report.answer import Answer
    from tfcalc.workload import Workload

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
        run = settings.workload(model)
        run = with_kernel(settings, model, run, None)
        dtype = by.dtype if "dtype" in settings.given else None
        return memory(model, by, run=run, serving=settings.fill(Serving()), dtype=dtype, depth=depth)
    _only(settings, [option for option in SERVING if option.name not in AT_REST], "--serve")
    run = settings.workload(model)
    if not run.training:
        _only(settings, (*TRAINING, TIMELINE), "--train")
        return at_rest(model, by, weights=settings.get("weights", ""), depth=depth)
    plan = settings.fill(Training())
    report = memory(model, by, run=with_kernel(settings, model, run, plan), training=plan, depth=depth)
    if not settings.get("timeline"):
        return report
    from tfcalc.questions.timeline import Timeline

    return Timeline(report)


def with_kernel(settings: Settings, model: Model, run: Workload, plan: Training | None) -> Workload:
    """The kernel that was asked for, or what PyTorch would choose."""
    if "kernel" in settings.given:
        return run
    if plan is None:
        return run.replaced(kernel="flash")
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
        "tfcalc memory llama-3-8b --train --batch 8 --seq 4096 --recipe mixed --optimizer adamw --recompute full",
        "tfcalc memory gpt2 --train --batch 8 --seq 1024 --timeline",
        "tfcalc memory llama-3-8b --serve --context 32k --concurrency 16 --weights int4 --kv fp8 --cache paged",
        "tfcalc memory llama-3-8b --weights nf4",
        "tfcalc memory --dtype int4 --json",
    ),
)
