"""``tfcalc flops``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.common import OF_FLOPS
from tfcalc.answers.flops import flops
from tfcalc.cli.commands import Command, command
from tfcalc.cli.options import COUNT, DEPTH, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, STEP_TIME, TUNING, Option
from tfcalc.cli.output import at_most, code, within
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.core.traced import value_of
from tfcalc.errors import UsageError
from tfcalc.number_formats import MULTIPLIED

if TYPE_CHECKING:
    from tfcalc.answers.train import Train
    from tfcalc.model import Model
    from tfcalc.report import Report
    from tfcalc.report.answer import Answered
    from tfcalc.workload import Workload

TOKENS = Option(
    "tokens", ("--tokens",), "a whole training run on this many tokens", number=True, most=10**18, front=True
)
MFU = Option(
    "mfu",
    ("--mfu",),
    "utilisation of the peak, from --tokens-per-second and --gpu or --peak",
    switch=True,
    short_for=(("phase", "train"),),
    front=True,
)
MAX = at_most("FLOPs", "2T, 1e23")
COMPARE = Option(
    "compare", ("--compare-conventions",), "the same workload counted by every convention", switch=True, front=True
)
RATE = Option("rate", ("--tokens-per-second",), "measured training throughput, of all GPUs together", amount=True)
GPU = Option(
    "gpu",
    ("--gpu",),
    "accelerator whose dense peak is used, such as h100; with --tokens: hours on it",
    front=True,
    offers="gpus",
)
MACHINES = (
    RATE,
    STEP_TIME._replace(help="measured seconds of a step of --batch x --seq tokens, in the place of a rate"),
    Option("per_gpu", ("--per-gpu",), "--tokens-per-second is per GPU", switch=True),
    GPU,
    Option("peak", ("--peak",), "dense FLOP/s of one GPU, such as 989e12 or 989T", amount=True),
    Option("gpus", ("--gpus",), "number of GPUs [default: 1]", number=True),
    Option(
        "precision",
        ("--precision",),
        "precision of the matrix products [default: bf16]",
        MULTIPLIED,
    ),
)


def answer(settings: Settings) -> Answered:
    """A run, its utilisation, a comparison; or else the breakdown of a single pass or step."""
    tokens = settings.given.get("tokens")
    if tokens and tokens.source == FLAG:
        settings.given.setdefault("phase", tokens._replace(value="train", short=tokens.words))
    if settings.get("phase") != "train":
        settings.forget(("tokens",))
    chosen = settings.choose(*(one.name for one in (TOKENS, MFU, COMPARE)))
    asked = [one for one in (TOKENS, MFU, COMPARE) if one.name in chosen]
    if len(asked) > 1:
        raise UsageError(f"{asked[0].flags[0]} and {asked[1].flags[0]} cannot be combined", "choose one")
    if MFU not in asked:
        _only(settings, tuple(one for one in MACHINES if one is not GPU or TOKENS not in asked), "without --mfu")
    if asked:
        _only(settings, (DEPTH,), f"with {asked[0].flags[0]}")
    if asked and asked[0] is not TOKENS:
        tuned = asked[0] is MFU
        _only(settings, (*(() if tuned else TUNING), MAX), f"with {asked[0].flags[0]}")
    match asked:
        case [option] if option is TOKENS:
            return within(_run(settings), settings)
        case [option] if option is MFU:
            return _utilisation(settings)
        case [_]:
            return _comparison(settings)
        case _:
            return within(_breakdown(settings), settings)


def _only(settings: Settings, options: tuple[Option, ...], where: str) -> None:
    """Refuse what was typed and has no effect here."""
    for option in options:
        given = settings.given.get(option.name)
        if given and given.source == FLAG:
            value = "" if option.switch else f" {given.value}"
            remedy = "add --mfu" if option in MACHINES else "leave it out"
            if option in MACHINES and settings.get("tokens") is not None:
                remedy = "train MODEL --tokens N --gpu NAME tells hours and money"
            elif option in MACHINES and settings.get("phase") in ("prefill", "decode"):
                remedy = "serve MODEL --gpu NAME tells how long tokens take"
            raise UsageError(f"{option.flags[0]}{value} has no effect {where}", remedy)


def _breakdown(settings: Settings) -> Report:
    model, workload = _asked(settings)
    return flops(model, workload, settings.conventions(), depth=settings.get("depth"), training=settings.tuning())


def _asked(settings: Settings) -> tuple[Model, Workload]:
    """The model and what is run; options that change none of its FLOPs are refused."""
    model = settings.model()
    if any(name in settings.given for name in OF_FLOPS):
        from tfcalc.cli.idle import refuse_idle_in_flops  # few questions say one of these

        refuse_idle_in_flops(settings, model, everything=True)
    return model, settings.workload(model)


def _run(settings: Settings) -> Report:
    from tfcalc.answers.flops_of_run import flops_of_run

    if settings.get("phase") != "train":
        raise UsageError(f"--tokens {settings.get('tokens'):,} needs a training step", "add --train")
    settings.refuse(("convolutions",), "with --tokens, which counts what runs", {})
    timed = _timed(settings)
    model, workload = _asked(settings)
    if timed is not None:
        step = timed.only.ran[0]
        sizes = {name: getattr(step, name) for name in ("seq_len", "batch_size") if name not in settings.given}
        workload = workload.replaced(**sizes)
    return flops_of_run(
        model, settings.get("tokens"), workload, settings.conventions(), plan=settings.tuning(), train=timed
    )


def _timed(settings: Settings) -> Train | None:
    """Return what ``train`` answers of the run on the GPU that was typed; None without one."""
    gpu = settings.given.get("gpu")
    if gpu is None or gpu.source != FLAG:
        return None
    train = command("train")
    known = {option.name for option in train.options}
    same = {name: value for name, value in settings.given.items() if name in known and name != "mfu"}
    found: Train = train.answer(Settings(same, settings.named))  # type: ignore[assignment]  # it is that command's
    return found


def _utilisation(settings: Settings) -> Answered:
    from tfcalc.answers.utilisation import Machines, machines_of, utilisation

    rate, seconds = settings.get("rate"), settings.get("step_time")
    if rate is not None and seconds is not None:
        both = f"{settings.given['rate'].words} and {settings.given['step_time'].words}"
        raise UsageError(f"{both} both say how fast it runs", "give one of them")
    if rate is None and seconds is None:
        raise UsageError(
            "--mfu needs a measured throughput",
            "add --tokens-per-second, of all GPUs together or --per-gpu, or --step-time",
        )
    peak, said = _peak(settings), (settings.get("gpus", 1), settings.get("precision", "bf16"))
    machines = machines_of(peak, *said) if isinstance(peak, str) else Machines(peak, *said)
    settings.refuse(("convolutions",), "with --mfu, which counts what runs", {})
    model, run = _asked(settings)
    if seconds is not None:
        if "batch_size" not in settings.given:
            raise UsageError("--step-time needs the sequences of a step", "add --batch N, of all GPUs together")
        rate = value_of(run.batch_size * run.seq_len) / seconds
    by_gpu = settings.get("per_gpu", False)
    plan = settings.tuning()
    return utilisation(model, rate, machines, run, settings.conventions(), per_gpu=by_gpu, training=plan)


def _peak(settings: Settings) -> str | float:
    """The name of a GPU, or the peak of one as a number."""
    settings.choose("gpu", "peak")
    gpu, peak = settings.get("gpu"), settings.get("peak")
    if gpu is not None and peak is not None:
        raise UsageError(f"--peak {peak:g} and --gpu {gpu[:80]} both set the peak", "leave one of them out")
    if gpu is None and peak is None:
        raise UsageError("--mfu needs a peak", "add --gpu h100 or --peak 989e12")
    return float(peak) if gpu is None else str(gpu)


def _comparison(settings: Settings) -> Answered:
    from tfcalc.answers.flops_by_convention import compare_conventions

    for name in ("attention", "count", "convolutions"):
        given = settings.given.get(name)
        if given and given.source == FLAG:
            raise UsageError(f"{given.words} is one of the rows of --compare-conventions", "leave it out")
    return compare_conventions(*_asked(settings))


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *RUN, *TUNING, MAX, TOKENS, MFU, *MACHINES, COMPARE, *COUNT, DEPTH, *SHOW),
    (
        "tfcalc flops gpt2 --seq 1024 --batch 8",
        "tfcalc flops gpt-3 --train --tokens 300B --seq 2048",
        "tfcalc flops llama-3-8b --train --tokens 100M --gpu h100",
        "tfcalc flops --train --seq 1024 --batch 8 --attention causal",
        "tfcalc flops transformer-base --seq 20 --source-seq 10 --batch 32 --json",
        "tfcalc flops llama-3-8b --mfu --tokens-per-second 9500 --gpu h100 --seq 8192",
        "tfcalc flops gpt2 --train --compare-conventions",
        "tfcalc flops llama-3-8b --train --seq 4k --lora 16",
        "tfcalc flops gpt2 --seq 1k --max 500G",
    ),
    code,
)
