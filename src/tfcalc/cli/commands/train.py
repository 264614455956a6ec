"""``tfcalc train``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.answers.memory_base import tokens_of_step
from tfcalc.answers.verdict import on_gpus
from tfcalc.cli.commands import Command, fit
from tfcalc.cli.commands.plans import SERVING, TRAINING, memory_plans
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, OF_STEPS, SHOW, STEP_TIME, Option
from tfcalc.cli.prices import PRICE, prices_of
from tfcalc.cli.settings import FLAG, Given, Settings
from tfcalc.errors import UsageError
from tfcalc.model import default_run
from tfcalc.printable import quoted
from tfcalc.report import exact
from tfcalc.timing.estimate import Pace
from tfcalc.timing.rates_file import RatesFile, read_rates
from tfcalc.training.methods import WRITES, step_run, with_method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfcalc.plans import Training
    from tfcalc.report.answer import Answered
    from tfcalc.search.gpus import Capacity
    from tfcalc.workload import Workload

GPU = Option(
    "gpu",
    ("--gpu",),
    "the GPU, or several: h100, 8xh100, or a table: h100,l40s [default: common GPUs]",
    group="gpus",
    front=True,
    offers="gpus",
)
TOKENS = Option(
    "tokens",
    ("--tokens",),
    "tokens of the whole run, such as 100M [default: only whether it fits]",
    number=True,
    most=10**18,
    front=True,
)
LENGTH = (
    TOKENS,
    Option(
        "max_steps",
        ("--max-steps",),
        "optimizer steps of the whole run, in the place of its tokens",
        number=True,
        most=10**12,
    ),
    Option(
        "samples",
        ("--samples",),
        "sequences of the data, each as long as --seq, in the place of tokens",
        number=True,
        most=10**12,
    ),
    Option("epochs", ("--epochs",), "passes over the samples [default: 1]", number=True, most=10**6),
)
"""How much a run reads: one of tokens, steps, and samples."""
PACE = (
    Option(
        "mfu",
        ("--mfu",),
        "share of the peak that the run reaches, such as 40%, with all pairs of attention counted",
        front=True,
    ),
    Option(
        "rate", ("--tokens-per-second",), "measured tokens per second, of all GPUs together", amount=True, front=True
    ),
    STEP_TIME,
)
DAYS = Option("days", ("--days",), "days within which the run is to end: how many of --gpu that takes", amount=True)
RATES = Option(
    "rates",
    ("--rates",),
    "rates of your own runs, as calibrate writes them [default: those of published runs]",
    typed="--rates FILE",
)
WEIGHTS = tuple(
    option._replace(
        help="number format of the frozen weights, as --base-weights (adapters are implied), or of all, as --precision",
        front=False,
    )
    for option in SERVING
    if option.name == "weights"
)
OF_RUN = ("days", "mfu", "rate", "step_time", "price", "rates")
"""What is told of a run of so many tokens alone."""


def answer(settings: Settings) -> Answered:
    """The run on the GPUs that were named, or on each common one; without its tokens, whether it fits there."""
    from tfcalc.answers import train, train_run

    length = _length(settings)
    if not length:
        settings.refuse(OF_RUN, "without the tokens of a run", {}, "add --tokens 100M")
        found = fit.answer(settings)
        if judge := getattr(found, "judge", None):  # of one kind of GPU; a table says it by itself
            judge.further = ("--tokens 100M (hours, cost)",)
        return found
    settings.given.setdefault("phase", Given("train", FLAG, "train", "train"))
    model = settings.model()
    plans = memory_plans(settings, model, settings.workload(model))
    assert plans.training is not None
    cards = fit.cards_named(settings.get("gpu"))
    if len(cards) != 1:
        settings.refuse(("days",), "on a table of GPUs", {}, "name one of them: --gpu h100")
    run = plans.workload or default_run(model).replaced(phase="train")
    tokens = _tokens(settings, length, run, plans.training, cards)
    return train.trained(
        train_run.TrainQuestion(
            model,
            plans.workload,
            plans.training,
            tokens,
            cards[0] if len(cards) == 1 else None,
            _pace(settings),
            settings.get("price"),
            rates_of_file(settings),
            prices_of(settings),
            cards,
            days=settings.get("days"),
        )
    )


def _length(settings: Settings) -> str:
    """The option that says how much the run reads; "" where none was typed. Raises UsageError for two."""
    typed = [name for name in ("tokens", "max_steps", "samples") if settings.get(name) is not None]
    if len(typed) > 1:
        said = " and ".join(settings.given[name].words for name in typed)
        raise UsageError(f"{said} both say how much a run reads", "give one of them")
    if "samples" not in typed:
        settings.refuse(("epochs",), "without the samples of the data", {}, "add --samples 10k")
    return "".join(typed)


def _tokens(settings: Settings, length: str, run: Workload, plan: Training, cards: Sequence[Capacity]) -> int:
    """Tokens of the whole run, two sequences of each pair.

    Raises UsageError for steps of different numbers of GPUs, and for samples of which a method makes sequences.
    """
    said, step = exact(settings.get(length)), step_run(run, with_method(plan))
    if length == "tokens":
        return said
    if length == "samples":
        if plan.method in WRITES:
            raise UsageError(f"--method {plan.method} writes its sequences itself", "give --max-steps, or --tokens")
        return (
            said * exact(settings.get("epochs") or 1) * exact(step.batch_size * step.seq_len) // exact(run.batch_size)
        )
    if len({card.gpus for card in cards}) > 1:
        raise UsageError("a step has other tokens on other numbers of GPUs", "give --tokens, or as many of each")
    return said * exact(tokens_of_step(step, on_gpus(plan, cards[0]) if cards else plan))


def rates_of_file(settings: Settings) -> RatesFile | None:
    """The rates of the file that was typed, if one was."""
    place = settings.get("rates")
    return None if place is None else read_rates(place)


def _pace(settings: Settings) -> Pace:
    """Speed as it was said, by one of three options."""
    names = ("mfu", "rate", "step_time")
    typed = [name for name in names if settings.get(name) is not None]
    if len(typed) > 1:
        said = " and ".join(settings.given[name].words for name in typed)
        raise UsageError(f"{said} both say how fast it runs", "give one of them")
    mfu = settings.get("mfu")
    return Pace(None if mfu is None else share(mfu), settings.get("rate"), settings.get("step_time"))


def share(text: str) -> float:
    """``40%`` or ``0.4``."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UsageError(f"--mfu {quoted(text)} is no share", "write 40% or 0.4") from None


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, *LENGTH, GPU, DAYS, *PACE, PRICE, RATES, *MODEL_OPTIONS, *OF_STEPS, *TRAINING, *WEIGHTS, *SHOW),
    (
        "tfcalc train llama-3-8b --lora 16 --tokens 100M --gpu h100",
        "tfcalc train llama-3-8b --tokens 1B --gpu 8xh100 --fsdp --price 2.50",
        "tfcalc train qwen3-8b --qlora 16 --tokens 50M",
        "tfcalc train gpt2 --tokens 10B --gpu a100 --batch 8 --seq 1k --checkpointing none",
        "tfcalc train gpt2 --lora 8 --gpu t4",
    ),
    fit.code,
)
