"""``tfcalc solve CONDITION --for SIZE``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.common import OF_FLOPS
from tfcalc.catalog import is_known
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.flops import TOKENS
from tfcalc.cli.commands.plans import AS_SERVED, BY_OF, PLANS, SERVING, TRAINING, memory_plans, plans_for
from tfcalc.cli.idle import refuse_idle
from tfcalc.cli.options import COUNT, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.solving.conditions import TRAINED, meaning, names_in, refuse_measured
from tfcalc.solving.solve import one_size, solve

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.solving.answer import Solved
    from tfcalc.solving.conditions import Evaluator
    from tfcalc.workload import Workload

CONDITION = Option(
    "condition",
    (),
    "two formulas that are compared by =, <=, >=, < or >, of params, flops, memory, their parts and sizes",
    argument=True,
)
FOR = Option("sought", ("--for",), "the size to solve for: seq, batch, d_model, layers, tokens, gpus …", front=True)
OF = Option(
    "of",
    ("--of",),
    "quantity of parts that name none [default: flops where a workload's size is solved for, else params]",
    ("params", "flops", "memory"),
    front=True,
)
INSTEAD = BY_OF | {"trainable": f"compare {TRAINED}, or leave it out"}
"""How to ask for what an option has an effect on."""
SYMBOLIC = Option("symbolic", ("--symbolic",), "the closed form, step by step", switch=True, front=True)


def answer(settings: Settings) -> Solved:
    """The sizes that meet the condition, with the ends proven."""
    text, sought = settings.get("condition"), settings.get("sought")
    if not text:
        raise UsageError("no condition given", "write one in quotes: tfcalc solve 'params <= 125M' --for layers")
    if not any(sign in text for sign in "=<>≤≥") and is_known(text):
        raise UsageError(f"{quoted(text)} is a model, and no condition", "name the condition first")
    if not sought:
        refuse_measured(names_in(text))
    if not sought:
        raise UsageError("no size to solve for", "add --for seq, or another size")
    sought = one_size(str(sought))
    _refuse_given(settings, sought)
    of = settings.get("of")
    counted = _quantities(text, of)
    if not (settings.get("serve") or settings.get("phase") == "train") and _of_serving(sought):
        if "memory" not in counted:
            what = f"{sought} is a size of serving, whose memory is asked for"
            raise UsageError(what, f"write 'memory <= 24GiB' or 'kv_cache <= 10GB' --for {sought}, or --for seq")
        settings = settings.with_values(serve=True)
    model, workload = settings.model(), None
    run = settings.workload(model)
    if "memory" in counted and not ("flops" in counted and not (run.training or settings.get("serve"))):
        asked = memory_plans(settings, model, run)
        workload = asked.workload
    else:
        asked = plans_for(settings, "flops" if counted & {"flops", ""} else "params", model, run, instead=INSTEAD)
        workload = settings.workload(model)
    tokens = settings.get("tokens")
    if tokens is not None and not run.training:
        raise UsageError(f"--tokens {tokens:,} needs a training step", "add --train")
    found = solve(
        text,
        sought,
        model,
        workload,
        settings.conventions(),
        of=of,
        training=asked.training,
        serving=asked.serving,
        weights=settings.get("weights") if asked.serving is None else None,
        tokens=tokens,
        symbolic=settings.get("symbolic", False),
        notation="lbhn" if settings.wants_json else settings.get("notation", "lbhn"),
    )
    _refuse_idle(settings, found.evaluator, model, run)
    return found


def _refuse_idle(settings: Settings, evaluator: Evaluator, model: Model, run: Workload) -> None:
    """Refuse what has no effect on any quantity that the condition turned out to compare."""
    counted = evaluator.counted
    if not counted & {"flops", "memory", "size"}:
        of = "trainable" if TRAINED in counted else "params"
        plans_for(settings, of, model, run, instead=INSTEAD)
    elif "flops" not in counted:
        of = " and ".join(sorted(counted - {"size"})) or "sizes"
        others = () if "size" in counted else (TOKENS.name,)
        settings.refuse((*(option.name for option in COUNT), *others), f"on {of}", {})
    elif "memory" not in counted:

        def compared(other: Settings) -> dict[str, int]:
            way = other.workload(model)
            now = evaluator.setting.run.replaced(**{name: getattr(way, name) for name in OF_FLOPS})
            return evaluator.values(evaluator.setting._replace(run=now))

        options = (option for option in RUN if option.name in OF_FLOPS)
        refuse_idle(settings, options, compared, "on what is compared")


def _quantities(text: str, of: str | None) -> set[str]:
    """Quantities that the condition counts; "" for a part that does not say it."""
    return {meaning(name, of or "", ()).quantity for name in names_in(text)}


def _of_serving(sought: str) -> bool:
    """Return whether a size that is solved for is one of serving alone, as ``--serve`` need not be given then."""
    return sought.replace("-", "_") in {key for option in SERVING if option.number for key in option.keys}


def _refuse_given(settings: Settings, sought: str) -> None:
    """A size that is solved for cannot be given, too, by its own name or by what means the same in serving."""
    size = sought.replace("-", "_")
    for option in (*MODEL_OPTIONS, *RUN, *TRAINING, *SERVING, TOKENS):
        given = settings.given.get(option.name)
        if given is None or not option.number or size not in (*option.keys, AS_SERVED.get(option.name)):
            continue
        if given.source == FLAG:
            raise UsageError(f"{given.called} {given.value} is what --for solves for", "leave it out")
        settings.forget([option.name])


COMMAND = Command(
    answer,
    (CONDITION, MODEL_ARGUMENT, FOR, OF, SYMBOLIC, *MODEL_OPTIONS, *RUN, TOKENS, *PLANS, *COUNT, *DTYPE, *SHOW),
    (
        "tfcalc solve 'attention = ffn' --for seq",
        "tfcalc solve 'attention = ffn' --for seq --symbolic --kind encoder",
        "tfcalc solve 'params = 125M' --for d_model --kind decoder --heads 12",
        "tfcalc solve 'memory <= 80GiB' --for batch llama-3-8b --train --seq 4096",
        "tfcalc solve 'attention / total = 1/2' llama-3-8b --for seq",
        "tfcalc solve 'memory <= 24GiB' llama-3-8b --for context",
        "tfcalc solve 'kv_cache <= 4GiB' llama-3-8b --for concurrency --serve",
        "tfcalc solve 'flops <= 1e24' llama-3-8b --for tokens --train --seq 4k",
    ),
    lambda found: found.exit_code,  # type: ignore[attr-defined]  # of the answers that it has
)
