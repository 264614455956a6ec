"""``tfcalc explain``."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tfcalc.analysis.explain import COUNTS, explain
from tfcalc.analysis.quantities import OTHER_WORDS
from tfcalc.analysis.targets import TARGETS
from tfcalc.budgets.metric import COMMANDS, NUMBERS, reach, split
from tfcalc.cli.commands import Command, command
from tfcalc.cli.commands.formula import TARGET, WITH_BATCH, aimed
from tfcalc.cli.commands.plans import PLANS, Plans, memory_plans, plans_for
from tfcalc.cli.options import COUNT, DEPTH, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.settings import Settings

if TYPE_CHECKING:
    from tfcalc.report.answer import Answer

QUANTITIES = {"params": "params", "time": "flops", "trainable": "params", "flops": "flops", "memory": "memory"}
"""The command that answers each quantity, for keys that several commands have."""


def answer(settings: Settings) -> Answer:
    """How one number is computed: that of a part, or any number of an answer."""
    settings = aimed(settings)
    if (asked := _of_an_answer(settings)) is not None:
        return _number(settings, *asked)
    settings.refuse((option.name for option in NUMBERS_ONLY), "on a part", {}, "name a number, such as total_flops")
    model = settings.model()
    of, run = settings.get("of", "params"), settings.workload(model)
    asked_for = plans_for(settings, of, model, run)
    return explain(
        settings.get("target"),
        model,
        of,
        asked_for.workload or run,
        settings.conventions(),
        training=asked_for.training,
        serving=asked_for.serving,
        steps=settings.get("steps", False),
        with_batch=settings.get("with_batch", False),
    )


def _of_an_answer(settings: Settings) -> tuple[str, tuple[str, ...]] | None:
    """The command and the keys of a number, where the target is the path of one; None of a part."""
    target, of = str(settings.get("target")), settings.get("of", "")
    first = target.partition(".")[0]
    known = {key: name for name in reversed(NUMBERS) for key in NUMBERS[name]}
    if target in (*TARGETS, *COMMANDS) or first not in (*known, *COMMANDS, "components", "conventions"):
        return None
    named, keys = split(target)
    if named == of == "memory" and keys[0] not in _keys(named):
        return None  # a term by its path
    quantity = QUANTITIES.get(of, "")
    if named is None and quantity and (first in NUMBERS[quantity] or first not in known):
        named = quantity
    return named or known.get(first, "params"), keys


def _keys(name: str) -> Collection[str]:
    """The keys at the top of a command's answer."""
    from tfcalc.schemas import schema

    return set(schema(name)["properties"])


def _number(settings: Settings, name: str, keys: tuple[str, ...]) -> Answer:
    from tfcalc.analysis.opened_numbers import Asked, open_number

    settings = Settings({key: given for key, given in settings.given.items() if key != "of"}, settings.named)
    of_command = command(name)
    own = {option.name for option in (*of_command.options, *PART[:2])}
    settings.refuse((key for key in settings.given if key not in own), f"on {name}", {})
    if keys[0] == "components" and not settings.choose("budget", "gpu"):
        settings = settings.with_values(depth=len(keys))
    said = of_command.answer(settings).to_dict()
    model = settings.model()
    run = settings.workload(model)
    plans = memory_plans(settings, model, run) if name == "memory" else Plans(run, settings.tuning())
    asked = Asked(
        name,
        said,
        lambda path: reach(said, path),
        model,
        plans.workload or run,
        settings.conventions(),
        plans.training,
        plans.serving,
        {key: given.called for key, given in settings.given.items()},
        settings.model_name or "",
    )
    return open_number(keys, asked)


PART = (
    TARGET,
    MODEL_ARGUMENT,
    Option("of", ("--of",), "quantity [default: params]", tuple(COUNTS), spellings=OTHER_WORDS),
    Option("steps", ("--steps",), "of a training step's FLOPs: X W, dX and dW by themselves", switch=True),
    WITH_BATCH,
    *MODEL_OPTIONS,
    *RUN,
    *PLANS,
    *COUNT,
    *DTYPE,
)
NUMBERS_ONLY = tuple(
    {
        option.name: option
        for name in ("flops", "memory")
        for option in command(name).options
        if option.name not in {"timeline", "compare", *(known.name for known in (*PART, *SHOW, DEPTH))}
    }.values()
)
"""Options of the commands whose numbers are opened, which a part has no use for."""

COMMAND = Command(
    answer,
    (*PART, *NUMBERS_ONLY, *SHOW),
    (
        "tfcalc explain attention --d-model 768 --heads 12",
        "tfcalc explain attention gpt2",
        "tfcalc explain encoder-layer --of flops --seq 1024",
        "tfcalc explain activations.transformer.h.attn gpt2 --of memory --train",
        "tfcalc explain output --model transformer-base --of flops --format plain",
        "tfcalc explain ffn --of flops --train --steps",
        "tfcalc explain mha --of time",
        "tfcalc explain flops_per_token llama-3-8b --train --seq 4k",
        "tfcalc explain memory.peak_bytes gpt2 --train --batch 8",
    ),
)
