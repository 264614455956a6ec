"""``tfcalc design``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.design.design import design
from tfcalc.analysis.design.family import MULTIPLE, Constraints, vocabulary_of
from tfcalc.analysis.design.optimum import compute_optimal
from tfcalc.analysis.design.pretraining import PRECISION, Cluster
from tfcalc.analysis.design.spending import spending
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.plans import BY_OF, PLANS, plans_for
from tfcalc.cli.commands.train import GPU, PACE, RATES, TOKENS, rates_of_file, share
from tfcalc.cli.options import (
    COUNT,
    DTYPE,
    EDITS,
    MODEL_ARGUMENT,
    MODEL_FIELDS,
    MODEL_OPTIONS,
    READ_AS,
    RUN,
    SHOW,
    Option,
    spreading,
)
from tfcalc.cli.prices import PRICE, prices_of
from tfcalc.cli.settings import FLAG, Given, Settings
from tfcalc.errors import UsageError
from tfcalc.hardware import named, parse_gpu
from tfcalc.printable import quoted
from tfcalc.units import parse_bytes, parse_count

if TYPE_CHECKING:
    from tfcalc.analysis.design.answer import Designed
    from tfcalc.analysis.design.optimum import Optimum
    from tfcalc.model import Model

CLUSTER = ("gpu", "gpus", "mfu")
"""Options of the days of a training."""
DECODER = "llama-3-8b"
SMALL_DECODER, SMALL = "tinyllama-1.1b", 10**9
"""The families of shapes where none is named, of which the second has heads and a vocabulary for fewer parameters."""
SIZE = re.compile(r"\d[\d_.]*\s?[kKmMbBtT]?")
HOURS_OF_A_DAY = 24
MOST_FLOPS = 10**30
MOST_WITHIN = 50
"""Per cent: beyond, every shape is near the budget."""
LEAST_MULTIPLE = 8
"""Widths are tried in steps of it."""
BUDGETS = (
    Option("of_params", ("--params",), "budget: parameters, such as 125M or 7B", number=True, front=True),
    Option(
        "of_flops",
        ("--flops",),
        "budget: FLOPs of the workload, such as 1e12",
        number=True,
        most=MOST_FLOPS,
        front=True,
    ),
    Option(
        "of_flops_per_token",
        ("--flops-per-token",),
        "budget: FLOPs of the workload per token",
        number=True,
        most=MOST_FLOPS,
    ),
    Option(
        "of_memory",
        ("--memory",),
        "budget: memory at most, such as 24GiB; with --train or --serve, of that",
        front=True,
    ),
    Option(
        "of_compute",
        ("--compute",),
        "FLOPs of a whole training: the best size and tokens, by published fits",
        amount=True,
        front=True,
    ),
    Option(
        "of_usd",
        ("--budget-usd",),
        "US dollars of a whole training on --gpu: the best size and tokens",
        amount=True,
        front=True,
    ),
    Option("of_gpu_hours", ("--budget-gpu-hours",), "or GPU hours of it, of all GPUs together", amount=True),
)
DAYS = Option("days", ("--days",), "days of a training on --gpus of --gpu: the best size and tokens", amount=True)
ON = (
    GPU._replace(help="the GPU of --tokens, --days, or a budget in dollars or hours, or several: h100, 64xh100"),
    *PACE[:1],
    PRICE,
    RATES,
)
"""Options of a budget in dollars or hours."""
CALLED = {
    "d_model": "d_model",
    "n_layers": "layers",
    "n_heads": "heads",
    "n_kv_heads": "kv_heads",
    "head_dim": "head_dim",
    "d_ff": "d_ff",
}
"""The sizes that a design varies, and the constraints that they are."""
SIZES = spreading(option for option in MODEL_FIELDS if option.name in CALLED)
GROUPS, *_ = spreading([Option("groups", ("--groups",), "attention heads per key and value head", number=True)])
FURTHER = (
    GROUPS,
    Option(
        "d_ff_ratio", ("--d-ff-ratio",), "d_ff over d_model, rounded to a multiple: 4 or 8/3,4 [default: the family's]"
    ),
    Option(
        "multiple_of",
        ("--multiple-of",),
        f"d_model and d_ff are multiples of it [default: {MULTIPLE}; {4 * MULTIPLE} with --memory]",
        number=True,
        least=LEAST_MULTIPLE,
    ),
    Option("aspect", ("--aspect",), "d_model over layers, from..to [default: 16..256]"),
    Option(
        "within", ("--within",), "per cent of the budget within which practice ranks first [default: 5]", amount=True
    ),
    Option("pad_vocab", ("--pad-vocab",), "pad the vocabulary to a multiple of it", number=True),
)
INSTEAD = BY_OF | {
    of: f"give the budget as --{of} {such}, or leave it out" for of, such in (("flops", "1e12"), ("memory", "80GB"))
}
"""How to ask for what an option has an effect on."""
OPTIONS = tuple(
    option._replace(flags=("--like", *option.flags)) if option.name == "model_name" else option
    for option in MODEL_OPTIONS
    if option.name not in CALLED
)


def answer(settings: Settings) -> Designed | Optimum:
    """Shapes for a budget, or the best size for the FLOPs of a training."""
    settings = _in_gpu_hours(_with_budget(settings))
    chosen = settings.choose(*(option.name for option in BUDGETS))
    if len(chosen) != 1:
        flags = [settings.given[name].called for name in chosen]
        raise UsageError(
            f"{' and '.join(flags)} are two budgets" if flags else "no budget given",
            "leave one of them out"
            if flags
            else "write tfcalc design 3B, or add --params, --flops, --flops-per-token, --memory, --compute, --days or "
            "--budget-usd",
        )
    if chosen == ["of_compute"]:
        return _optimum(settings)
    if chosen[0] in ("of_usd", "of_gpu_hours"):
        return _affordable(settings, chosen[0])
    tokens = _tokens(settings, chosen[0])
    cluster = _cluster(settings) if tokens is not None else None
    if cluster is not None:
        settings = Settings({key: each for key, each in settings.given.items() if key not in CLUSTER}, settings.named)
    settings.refuse((option.name for option in ON), "without --tokens, --days or --budget-usd", {})
    settings = _like_a_decoder(settings)
    constraints = _constraints(settings)
    settings = Settings({name: given for name, given in settings.given.items() if name not in CALLED}, settings.named)
    model = _padded(settings)
    name = settings.model_name or ""
    run = settings.workload(model)
    if chosen == ["of_memory"]:
        plans = plans_for(settings, "memory", model, run, instead=INSTEAD)
        if "multiple_of" not in settings.given:
            constraints = replace(constraints, multiple_of=4 * MULTIPLE)
        return design(
            parse_bytes(settings.get("of_memory")),
            "memory",
            model,
            constraints,
            plans.workload,
            settings.conventions(),
            training=plans.training,
            serving=plans.serving,
            weights=settings.get("weights") if plans.at_rest else None,
            name=name,
        )
    of = "params" if chosen == ["of_params"] else "flops"
    plans_for(settings, of, model, run, tunes=False, instead=INSTEAD)
    if of == "params":
        return design(settings.get("of_params"), of, model, constraints, name=name, tokens=tokens, cluster=cluster)
    run = settings.workload(model)
    tokens = cast("int", run.target.tokens)
    budget = settings.get("of_flops") or settings.get("of_flops_per_token") * tokens
    return design(budget, of, model, constraints, run, settings.conventions(), name=name)


def _with_budget(settings: Settings) -> Settings:
    """The settings with a number in the place of a model as the budget: ``design 3B``."""
    words = settings.get("model")
    if words is None or not SIZE.fullmatch(str(words)) or any(settings.get(option.name) for option in BUDGETS):
        return settings
    rest = settings.without("model")
    return Settings(rest.given | {"of_params": Given(parse_count(str(words)), FLAG, str(words))}, rest.named)


def _in_gpu_hours(settings: Settings) -> Settings:
    """The settings with days on GPUs as GPU hours."""
    days = settings.get("days")
    if days is None:
        return settings
    gpu, gpus = settings.get("gpu"), settings.get("gpus")
    if gpu is None:
        raise UsageError(f"{settings.given['days'].words} needs a GPU", "add --gpu h100 --gpus 1024")
    if "of_gpu_hours" in settings.given:
        raise UsageError("--days and --budget-gpu-hours are two budgets", "leave one of them out")
    many, card = _gpus(gpu, gpus)
    hours = HOURS_OF_A_DAY * days * many
    given = {key: each for key, each in settings.given.items() if key not in ("days", "gpus")}
    given["of_gpu_hours"] = Given(hours, FLAG, "--days")
    given["gpu"] = given["gpu"]._replace(value=f"{many}x{card}" if many > 1 else card)
    return Settings(given, settings.named)


def _gpus(gpu: str, gpus: int | None) -> tuple[int, str]:
    """Number of GPUs, and the card. Raises UsageError where two numbers are given."""
    many, card = parse_gpu(gpu)
    if gpus is not None and many not in (1, gpus):
        raise UsageError(f"--gpu {gpu} and --gpus {gpus} are two numbers of GPUs", "leave one of them out")
    return gpus or many, card


def _tokens(settings: Settings, budget: str) -> int | None:
    """The tokens of a training of the best shape, of a budget of parameters alone."""
    if budget != "of_params":
        settings.refuse(("tokens",), f"with {settings.given[budget].called}", {}, "give --params")
    found: int | None = settings.get("tokens")
    return found


def _cluster(settings: Settings) -> Cluster | None:
    """The GPUs of that training, which are forgotten then. Raises UsageError for some without the others."""
    gpu, gpus, mfu = settings.get("gpu"), settings.get("gpus"), settings.get("mfu")
    if gpu is None:
        settings.refuse(("gpus", "mfu"), "without --gpu", {}, "add --gpu h100")
        return None
    if mfu is None:
        raise UsageError("days need an MFU", "add --mfu 0.4; tfcalc train estimates the time of a step")
    many, name = _gpus(gpu, gpus)
    card, reached = named(name)[0], share(mfu)
    if PRECISION not in card.peaks:
        raise UsageError(f"{card.name} has no {PRECISION} products", "take another GPU")
    if not 0 < reached <= 1:
        raise UsageError(f"an MFU of {reached:g} is not from 0 to 1", "write 40% or 0.4")
    return Cluster(card, many, reached)


def _like_a_decoder(settings: Settings) -> Settings:
    """The settings with a decoder of today as the family, where no model is named, nor a part of the classic one."""
    also = (*CALLED, "vocab_size", "offline")
    classic = (option.name for option in (*READ_AS, *MODEL_FIELDS, *EDITS) if option.name not in also)
    given = [settings.given[name] for name in (*CALLED, "vocab_size") if name in settings.given]
    if settings.model_name or any(name in settings.given for name in classic):
        return settings
    if any(each.source != FLAG for each in given):
        return settings
    small = settings.get("of_params", SMALL) < SMALL
    return settings.with_values(model=SMALL_DECODER if small else DECODER)


def _optimum(settings: Settings) -> Optimum:
    _alone(settings, "of_compute", "--compute")
    return compute_optimal(settings.get("of_compute"))


def _affordable(settings: Settings, of: str) -> Optimum:
    """The best size for dollars or GPU hours."""
    _alone(settings, of, settings.given[of].called, *(option.name for option in ON))
    gpu, mfu = settings.get("gpu"), settings.get("mfu")
    if gpu is None:
        raise UsageError(f"{settings.given[of].words} needs a GPU", "add --gpu h100")
    return compute_optimal(
        spend=spending(
            gpu,
            gpu_hours=settings.get("of_gpu_hours"),
            usd=settings.get("of_usd"),
            price=settings.get("price"),
            prices=prices_of(settings),
            mfu=None if mfu is None else share(mfu),
            rates=rates_of_file(settings),
        )
    )


def _alone(settings: Settings, of: str, called: str, *further: str) -> None:
    """Raise UsageError for an option that has no effect beside this budget."""
    known = {of, *further, *(option.name for option in SHOW)}
    others = [name for name in settings.given if name not in known]
    settings.refuse(others, f"with {called}", {}, "leave it out, then ask for shapes with --params")


def _padded(settings: Settings) -> Model:
    """The model, with a vocabulary that is a multiple of what was asked for."""
    step = settings.get("pad_vocab")
    model = settings.model()
    if step is None:
        return model
    vocabulary = vocabulary_of(model)
    if vocabulary is None:
        raise UsageError(f"--pad-vocab {step} has no effect on a model without a vocabulary", "add --vocab-size")
    padded = -(-vocabulary // step) * step
    return model if padded == vocabulary else model.replaced(vocab_size=padded)


def _constraints(settings: Settings) -> Constraints:
    """Constraints on the shapes: sizes of a file or a variable describe the classic model alone."""
    named = settings.model_name is not None
    given: dict[str, object] = {}
    for name, field in (*CALLED.items(), ("groups", "groups")):
        value = settings.given.get(name)
        if value is not None and not (named and value.source != FLAG and name != "groups"):
            given[field] = (value.value,) if isinstance(value.value, int) else value.value
    for one, other in (("d_ff", "d_ff_ratio"), ("n_kv_heads", "groups")):
        if one in settings.given and other in settings.given:
            flags = settings.given[one].called, settings.given[other].called
            raise UsageError(f"{flags[0]} and {flags[1]} decide the same", "leave one of them out")
    if "d_ff_ratio" in settings.given:
        given["d_ff_ratio"] = tuple(_ratio(each, "--d-ff-ratio") for each in settings.get("d_ff_ratio").split(","))
    if "aspect" in settings.given:
        given["aspect"] = _range(settings.get("aspect"))
    if "within" in settings.given:
        within = settings.get("within")
        if within > MOST_WITHIN:
            raise UsageError(f"--within {within:g} is too wide", f"give at most {MOST_WITHIN} per cent")
        given["within"] = Fraction(str(settings.get("within"))) / 100
    if "multiple_of" in settings.given:
        given["multiple_of"] = settings.get("multiple_of")
    return Constraints(**given)  # type: ignore[arg-type]  # by name


def _range(text: str) -> tuple[Fraction, Fraction]:
    low, dots, high = text.partition("..")
    if not dots:
        raise UsageError(f"--aspect {quoted(text)} is not a range", "write 30..150")
    least, most = _ratio(low, "--aspect"), _ratio(high, "--aspect")
    if least > most:
        raise UsageError(f"--aspect {quoted(text)} has no values: {quoted(low)} is above {quoted(high)}", "swap them")
    return least, most


def _ratio(text: str, called: str) -> Fraction:
    """``4``, ``2.5``, ``8/3``."""
    top, slash, bottom = text.strip().partition("/")
    try:
        found: Sequence[Fraction] = [_number(each) for each in ((top, bottom) if slash else (top,))]
        return found[0] / found[1] if slash else found[0]
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{called} {quoted(text)} is not a number above 0", "write 4, 2.5 or 8/3") from None


def _number(text: str) -> Fraction:
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12) or not Fraction(text):
        raise ValueError(text)
    return Fraction(text)


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, *BUDGETS, DAYS, TOKENS, *ON, *OPTIONS, *SIZES, *FURTHER, *RUN, *PLANS, *COUNT, *DTYPE, *SHOW),
    (
        "tfcalc design 3B --tokens 3T --gpu 1024xh100 --mfu 0.4",
        "tfcalc design --gpus 1024 --gpu h100 --days 14 --mfu 0.4",
        "tfcalc design --params 125M --vocab-size 50257 --kind decoder",
        "tfcalc design --params 7B --like llama-3-8b --head-dim 64,128",
        "tfcalc design --params 1B --like llama-3-8b --groups 4 --multiple-of 128",
        "tfcalc design --flops-per-token 2e9 gpt2 --train --seq 1024",
        "tfcalc design --memory 24GiB --like llama-3-8b --train --seq 2048",
        "tfcalc design --compute 1e21",
        "tfcalc design --budget-usd 10000 --gpu h100",
    ),
    lambda found: getattr(found, "exit_code", 0),
)
