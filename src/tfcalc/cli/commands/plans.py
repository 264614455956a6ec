"""The options of training and of serving, for the commands that ask about their memory."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.common import default_run
from tfcalc.analysis.effects import TRAINING as STEP
from tfcalc.cli.options import DTYPE, RUN, TUNING, Option, serving, training
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.footprint.plans import Serving, Training
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.model import Model

TRAINING, SERVING = training(), serving()
SERVE = Option("serve", ("--serve",), "serving: weights, KV cache, and temporary buffers", switch=True)
PLANS = (*TRAINING, SERVE, *SERVING)

INSTEAD = {
    "batch_size": "give --concurrency",
    "seq_len": "give --context",
    "cached": "give --context",
}
"""What to give of serving instead; anything else of a workload is left out."""
IN_SERVING = ("source_len", "kernel")
"""What serving takes of a workload."""


def sound(model: Model) -> None:
    """Raise InvalidModel, marked as the model's own fault, where the model makes no sense whatever is asked of it."""
    try:
        run = default_run(model)
        model.check(run)
        model.tree(run)
    except InvalidModel as error:
        error.of_model = True
        raise


class Plans(NamedTuple):
    """A ``workload`` whose memory is asked for, with the plan of its training or serving; none of a model at rest."""

    workload: Workload | None = None
    training: Training | None = None
    serving: Serving | None = None

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs."""
        return self.workload is None


def memory_plans(settings: Settings, model: Model, workload: Workload) -> Plans:
    """The workload and the plan that was asked for; nothing of a model at rest. Options without effect are refused."""
    if workload.training and settings.get("serve") and len(settings.choose("serve", "phase")) == 1:
        workload = settings.workload(model)
    if settings.get("serve"):
        if workload.training:
            raise UsageError("--train and --serve cannot be combined", "choose one")
        named = (option.name for option in RUN if option.name not in IN_SERVING)
        settings.refuse(named, "with --serve", INSTEAD)
        workload = settings.workload(model)
        if settings.get("cache", "paged") != "paged":
            settings.refuse(("block", "batched"), f"with --cache {settings.get('cache')}", {})
        settings.refuse((option.name for option in TRAINING), "without --train", {}, "add --train")
        sound(model)
        return Plans(workload, serving=settings.fill(Serving()))
    if workload.training:
        settings.refuse((option.name for option in SERVING), "without --serve", {}, "add --serve")
        settings.refuse(("dtype",), "with --train", {"dtype": "give --precision"})
        settings.forget(item.name for item in fields(Workload) if item.name not in STEP)
        workload = settings.workload(model).replaced(phase="train")
        sound(model)
        return Plans(workload, settings.fill(Training()))
    settings.refuse((option.name for option in TRAINING), "without --train", {}, "add --train")
    settings.refuse((o.name for o in SERVING if o.name != "weights"), "without --serve", {}, "add --serve")
    settings.refuse((option.name for option in RUN), "on a model at rest", {}, "add --train or --serve")
    return Plans()


def plans_for(settings: Settings, of: str, model: Model, workload: Workload) -> Plans:
    """The same where memory is one of several quantities; options that have no effect on this one are refused."""
    if of == "memory":
        return memory_plans(settings, model, workload)
    decide = {option.name for option in TUNING} if of != "time" else set()
    others = (option.name for option in (*PLANS, *DTYPE) if option.name not in decide)
    settings.refuse(others, f"on {of}", {}, "add --of memory, or leave it out")
    if of in ("params", "trainable"):
        settings.refuse((option.name for option in RUN), f"on {of}", {}, "add --of flops, or leave it out")
    return Plans(training=settings.tuning() if decide else None)
