"""The options of training and of serving, for the commands that ask about their memory."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from tfcalc.analysis.common import TRAINING as STEP
from tfcalc.cli.options import COUNT, DTYPE, OF_LAYOUT, OF_STACK, RANK, RUN, TUNING, Option, serving, training
from tfcalc.cli.settings import FLAG
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.model import default_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import COMPUTED, FLOATS_ELSEWHERE
from tfcalc.plans import GRPO, PPO, Serving, Training
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfcalc.cli.settings import Settings
    from tfcalc.model import Model

TRAINING, SERVING = training(), serving()
SERVE = Option(
    "serve", ("--serve",), "serving: weights, KV cache, and temporary buffers", switch=True, group="serving", front=True
)
IN_BOTH = {option.name for option in TRAINING} & {option.name for option in SERVING}
PLANS = (*TRAINING, SERVE, *(option for option in SERVING if option.name not in IN_BOTH))

SHARED_OPTIONS = ("weights", *IN_BOTH)
"""Options of both modes, or of a model at rest: none says which is meant."""
OF_TRAINING = tuple(option.name for option in TRAINING if option.name not in SHARED_OPTIONS)
OF_SERVING = tuple(option.name for option in SERVING if option.name not in SHARED_OPTIONS)
CHECKPOINTING = ("recompute", "recompute_modules", "early_stop")
"""What else only training has."""
LAID_OUT = (OF_STACK.name, *(option.name for option in OF_LAYOUT))
"""What says how GPUs share a model that is trained; with them are two options that serving has, too."""
SHARED_AXES = ("expert_parallel", "data_parallel")
OVER_A_STEP = "timeline"
"""The picture of what memory holds over a training step, which implies one."""

INSTEAD = {
    "batch_size": "give --concurrency",
    "seq_len": "give --context",
    "cached": "give --context",
}
"""What to give of serving instead; anything else of a workload is left out."""
IN_TRAINING = {
    "expert_parallel": "memory, ranks and plan share experts out in training: tfcalc memory MODEL --train --ep 8",
    "data_parallel": "of training type --gpus N, all of them together, or say whose code runs: --stack fsdp",
}
"""What to type of training in the place of what is serving's here."""
BY_OF = {of: f"add --of {of}, or leave it out" for of in ("flops", "memory", "trainable")}
"""How most commands are asked for another quantity, on which an option has an effect."""
IN_SERVING = ("source_len", "kernel")
"""What serving takes of a workload."""


def imply_mode(settings: Settings) -> None:
    """Take it for training where only training has what was typed, such as --lora, and for serving as --context.

    Raises UsageError where something of both was typed, and neither --train nor --serve.
    """
    if settings.get("serve") or "phase" in settings.given:
        return
    typed = {name: given for name, given in settings.given.items() if given.source == FLAG}
    trains = [typed[name] for name in (*OF_TRAINING, *CHECKPOINTING, OVER_A_STEP, *LAID_OUT) if name in typed]
    of_layout = SHARED_AXES if any(name in typed for name in LAID_OUT) else ()
    serves = [typed[name] for name in OF_SERVING if name in typed and name not in of_layout]
    if trains and serves:
        fact = f"{trains[0].words} is of training, and {serves[0].words} of serving"
        raise UsageError(fact, "add --train or --serve, and leave the other out")
    if trains:
        settings.given["phase"] = trains[0]._replace(value="train", short=trains[0].words)
    elif serves:
        settings.given["serve"] = serves[0]._replace(value=True, short=serves[0].words)


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
    """A ``workload`` whose memory or FLOPs are asked for, and its plan of training or serving; none at rest."""

    workload: Workload | None = None
    training: Training | None = None
    serving: Serving | None = None

    @property
    def at_rest(self) -> bool:
        """True if the model is at rest: nothing runs."""
        return self.workload is None


AS_SERVED = {"seq_len": "context", "batch_size": "concurrency"}
"""What a size of the workload means in serving."""


def memory_plans(settings: Settings, model: Model, workload: Workload) -> Plans:
    """The workload and the plan that was asked for; nothing of a model at rest. Options without effect are refused."""
    imply_mode(settings)
    if settings.get("phase") == "train" != workload.phase:
        workload = settings.workload(model)
    if workload.training and settings.get("serve") and len(settings.choose("serve", "phase")) == 1:
        workload = settings.workload(model)
    if settings.get("serve"):
        if workload.training:
            raise UsageError("--train and --serve cannot be combined", "choose one")
        for name, served in AS_SERVED.items():
            _take_for(settings, name, served)
        named = (option.name for option in RUN if option.name not in IN_SERVING)
        settings.refuse(named, "with --serve", INSTEAD)
        workload = settings.workload(model)
        if settings.get("cache", "paged") != "paged":
            settings.refuse(("block", "batched"), f"with --cache {settings.get('cache')}", {})
        settings.refuse((o.name for o in TRAINING if o.name not in IN_BOTH), "without --train", {}, "add --train")
        sound(model)
        return Plans(workload, serving=settings.fill(Serving()))
    if workload.training:
        _imply_adapters(settings)
        if settings.get("lora"):
            stored = settings.given.get("base_weights")
            if stored and stored.called == "--qlora" and "weights" in settings.given:
                del settings.given["base_weights"]  # its own format gives way to one that is typed
            _take_for(settings, "weights", "base_weights")
        if settings.get("weights") in COMPUTED:
            _take_for(settings, "weights", "precision")
        settings.refuse(("weights",), "with --train", {}, "give --precision, or --base-weights beside --lora 16")
        of_serving = (o.name for o in SERVING if o.name not in IN_BOTH)
        settings.refuse(of_serving, "without --serve", IN_TRAINING, "add --serve")
        if settings.get("dtype") in COMPUTED:
            _take_for(settings, "dtype", "precision")
        settings.refuse(("dtype",), "with --train", {"dtype": "give --precision"})
        if settings.get("method") in (GRPO, PPO):
            lengths = "it is --max-prompt-length 512 and --max-completion-length 256, or others that add up to it"
            settings.refuse(("seq_len",), f"with --method {settings.get('method')}", {"seq_len": lengths})
        settings.forget(item.name for item in fields(Workload) if item.name not in STEP)
        workload = settings.workload(model).replaced(phase="train")
        sound(model)
        return Plans(workload, settings.fill(Training()))
    settings.refuse((o.name for o in TRAINING if o.name not in IN_BOTH), "without --train", {}, "add --train")
    settings.refuse(sorted(IN_BOTH), "on a model at rest", {}, "add --serve or --train")
    settings.refuse((o.name for o in SERVING if o.name not in SHARED_OPTIONS), "without --serve", {}, "add --serve")
    settings.refuse((option.name for option in RUN), "on a model at rest", {}, "add --train or --serve")
    return Plans()


def _imply_adapters(settings: Settings) -> None:
    """Take it for LoRA where weights are typed in a format that nobody trains: what is quantized is frozen."""
    if "lora" in settings.given:
        return
    for name in ("base_weights", "weights"):
        typed = settings.given.get(name)
        if typed and typed.source == FLAG and str(typed.value).lower() not in (*COMPUTED, *FLOATS_ELSEWHERE):
            settings.given["lora"] = typed._replace(value=int(RANK), short=typed.words)


def _take_for(settings: Settings, name: str, meant: str) -> None:
    """Take what was typed for this option as the value of the one that the mode has for it, unless that is given."""
    typed = settings.given.get(name)
    if typed and typed.source == FLAG and meant not in settings.given:
        settings.given[meant] = settings.given.pop(name)


def plans_for(
    settings: Settings,
    of: str,
    model: Model,
    workload: Workload,
    *,
    tunes: bool = True,
    instead: Mapping[str, str] = BY_OF,
) -> Plans:
    """Return the plans where memory is one of several quantities; options that have no effect on this one are refused.

    So are those that say what is trained, where nothing asks for it (``tunes``). ``instead`` is how the command is
    asked for another quantity.
    """
    if of != "flops":
        settings.refuse((option.name for option in COUNT), f"on {of}", {}, instead["flops"])
    if of == "memory":
        return memory_plans(settings, model, workload)
    decide = {option.name for option in TUNING if tunes and of != "time"}
    others = (option.name for option in (*PLANS, *DTYPE) if option.name not in decide)
    settings.refuse(others, f"on {of}", {}, instead["memory"])
    if of in ("params", "trainable"):
        settings.refuse((option.name for option in RUN), f"on {of}", {}, instead["flops"])
    if of == "params":
        settings.refuse(("freeze",), f"on {of}", {}, instead["trainable"])
    if of == "flops":
        from tfcalc.cli.idle import refuse_idle_in_flops

        refuse_idle_in_flops(settings, model, everything=settings.get("count") == "all")
    run = settings.workload(model) if of == "flops" else None
    return Plans(run, settings.tuning() if decide else None)
