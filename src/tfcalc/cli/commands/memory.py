"""``tfcalc memory``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.cli.commands import Command
from tfcalc.cli.commands.plans import SERVE, SERVING, TRAINING, memory_plans
from tfcalc.cli.options import DEPTH, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, UNITS, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.questions.memory import at_rest, memory

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.report.answer import Answer

TIMELINE = Option("timeline", ("--timeline",), "the phases of a training step, each at its highest moment", switch=True)
INSTEAD = {
    "batch_size": "say --concurrency",
    "cached": "say --context",
    "train": "leave one of them out",
    "phase": "leave it out",
    "recompute": "leave it out",
    "logits": "leave it out",
}
"""What is said otherwise of serving, or not at all."""
RUNS = {option.name: "add --train or --serve" for option in RUN if option.name not in ("seq_len", "source_len")}
AT_REST = ("weights",)
"""What may be asked of a model at rest, too."""


BUDGET = (
    Option("budget", ("--budget",), "does it fit in so much memory: 80GB, 79.2GiB"),
    Option("gpu", ("--gpu",), "does it fit in an accelerator of this name, such as h100"),
)


def run(settings: Settings) -> int:
    """Answer it; 1 where it does not fit."""
    if settings.get("budget") or settings.get("gpu"):
        return _fits(settings)
    show(_answer(settings), settings)
    return 0


def _fits(settings: Settings) -> int:
    from tfcalc.questions.budget import of_card
    from tfcalc.questions.fits import fits

    if settings.get("budget") and settings.get("gpu"):
        raise UsageError("--budget and --gpu both say how much there is", "leave one of them out")
    _only_at(settings, (TIMELINE,), "--budget or --gpu")
    model, asked = _asked(settings)
    budget = settings.get("budget") or of_card(settings.get("gpu"))
    dtype = settings.definitions().dtype if "dtype" in settings.given else None
    answer = fits(model, budget, settings.definitions(), dtype=dtype, weights=_stored(settings, model), **asked)
    show(answer, settings)
    return 0 if answer.fits else 1


def _asked(settings: Settings) -> tuple[Model, dict[str, Any]]:
    """The model, and the plan that it is trained or served by; options that say nothing in this case are refused."""
    model = settings.model()
    run = settings.workload(model)
    if settings.get("serve"):
        _refuse(settings, INSTEAD, "with --serve")
    asked = memory_plans(settings, model, run)
    if not asked:
        _refuse(settings, RUNS, "of a model at rest")
    if "serving" in asked and asked["serving"].cache != "paged":
        _refuse(settings, {"block": "add --cache paged", "batched": "add --cache paged"}, "without --cache paged")
    if not run.training:
        _only(settings, (*TRAINING, TIMELINE), "--train")
    if "serving" not in asked:
        _only(settings, [option for option in SERVING if asked or option.name not in AT_REST], "--serve")
    return model, asked


def _answer(settings: Settings) -> Answer:
    model, asked = _asked(settings)
    by, depth = settings.definitions(), settings.get("depth")
    if not asked:
        return at_rest(model, by, weights=_stored(settings, model), depth=depth)
    report = memory(model, by, dtype=by.dtype if "dtype" in settings.given else None, depth=depth, **asked)
    if not settings.get("timeline"):
        return report
    from tfcalc.questions.timeline import Timeline

    return Timeline(report)


def _stored(settings: Settings, model: Model) -> str | None:
    """The format that was asked for; an empty one where the config states how it is quantized; else None."""
    if settings.get("weights"):
        return str(settings.get("weights"))
    data = getattr(model, "data", {})
    return "" if "dtype" not in settings.given and data.get("quantization_config") else None


def _only_at(settings: Settings, options: tuple[Option, ...], where: str) -> None:
    for option in options:
        if option.name in settings.given:
            raise UsageError(f"{option.flags[0]} says nothing beside {where}", "leave it out")


def _refuse(settings: Settings, options: Mapping[str, str], where: str) -> None:
    for name, remedy in options.items():
        given = settings.given.get(name)
        if given and given.source == FLAG:
            raise UsageError(f"{given.called} says nothing {where}", remedy)


def _only(settings: Settings, options: tuple[Option, ...] | list[Option], needed: str) -> None:
    """Refuse what was typed and says nothing here."""
    for option in options:
        given = settings.given.get(option.name)
        if given and given.source == FLAG:
            raise UsageError(f"{given.called} says nothing without {needed}", f"add {needed}")


COMMAND = Command(
    run,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *RUN, *TRAINING, TIMELINE, SERVE, *SERVING, *BUDGET, *DTYPE, *UNITS, DEPTH, *SHOW),
    (
        "tfcalc memory --d-model 512 --layers 6",
        "tfcalc memory transformer-big --dtype bf16 --units si",
        "tfcalc memory llama-3-8b --train --batch 8 --seq 4096 --recipe mixed --optimizer adamw --recompute full",
        "tfcalc memory gpt2 --train --batch 8 --seq 1024 --timeline",
        "tfcalc memory llama-3-8b --serve --context 32k --concurrency 16 --weights int4 --kv fp8 --cache paged",
        "tfcalc memory llama-3-8b --serve --context 8k --concurrency 4 --gpu h100",
        "tfcalc memory llama-3-8b --weights nf4",
        "tfcalc memory --dtype int4 --json",
    ),
)
