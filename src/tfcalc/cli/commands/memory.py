"""``tfcalc memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.answers.memory import memory_of
from tfcalc.answers.memory_base import Memory
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.plans import (
    IN_BOTH,
    LAID_OUT,
    PLANS,
    SERVING,
    SHARED_AXES,
    TRAINING,
    Plans,
    imply_mode,
    memory_plans,
)
from tfcalc.cli.options import (
    DEPTH,
    DTYPE,
    MODEL_ARGUMENT,
    MODEL_OPTIONS,
    OF_LAYOUT,
    OF_PLANS,
    OF_STACK,
    SHOW,
    UNITS,
    UTILIZATION,
    Option,
)
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfcalc.model import Model
    from tfcalc.report.answer import Answered
    from tfcalc.serving.engine_rules import Profile

TIMELINE = Option(
    "timeline",
    ("--timeline", "--chart"),
    "the phases of a training step at their peaks, and a chart; -o FILE.svg, .png or .vl.json draws one",
    answers_to="timeline",
    switch=True,
    front=True,
)
BUDGET = (
    Option("budget", ("--budget",), "does it fit in this much memory: 80GB, 79.2GiB; in one line", front=True),
    Option(
        "gpu",
        ("--gpu",),
        "the GPU, or several: h100, 8xh100, 24GB; does it fit, and if not, what would",
        group="gpus",
        front=True,
        offers="gpus",
    ),
    Option(
        "margin",
        ("--margin",),
        "per cent of the memory to leave free; less is reported as tight [default: 5]",
        number=True,
        least=0,
        group="gpus",
    ),
    Option("strict", ("--strict",), "exit with 1 where it fits tightly, too", switch=True, group="gpus"),
)
ENGINE = (
    UTILIZATION,
    Option(
        "engine",
        ("--engine",),
        "the engine whose rules apply: vllm, vllm@0.10, sglang, trtllm, llama.cpp",
        offers="engines",
        group="serving",
        front=True,
    ),
    Option(
        "profiled", ("--profiled",), "peak of the engine's profile run, as its log says it: 1.26GiB", group="serving"
    ),
    Option("nontorch", ("--nontorch",), "memory outside PyTorch, as the engine's log says it: 0.9GiB", group="serving"),
    Option("graphs", ("--graphs",), "CUDA graphs, as the engine's log estimates them [default: 0]", group="serving"),
)
OF_ENGINE = (UTILIZATION.name, "engine", "profiled", "nontorch", "graphs")


def answer(settings: Settings) -> Answered:
    """The memory, or whether it fits."""
    found = _asked_of(settings)
    if settings.wants_json and not settings.get("quiet"):
        assert found.whole  # all that is asked next comes out of what finds it
    return found


def entries(settings: Settings) -> Mapping[str, Any]:
    """The JSON object, of which most numbers are found sooner than what they are made of."""
    return _asked_of(settings).entries()


def _asked_of(settings: Settings) -> Memory:
    imply_mode(settings)
    if _laid_out(settings):
        return _shown(settings, _of_layout(settings))
    settings.refuse(LAID_OUT, "with --serve", {})
    if settings.choose("budget", "gpu"):
        from tfcalc.answers.verdict import memory_within

        model, question = _room(settings)
        return _shown(settings, memory_within(model, **question))
    settings.refuse(("margin", "strict", *OF_ENGINE), "without --gpu or --budget", {}, "add --gpu NAME")
    model, question = _question(settings)
    return _shown(settings, memory_of(model, **question, depth=settings.get("depth")))


def _shown(settings: Settings, found: Memory) -> Memory:
    """Return the memory as it is to be told."""
    found.over_time = bool(settings.get("timeline"))
    if found.judge is not None:
        in_a_line = settings.get("budget") or settings.get("quiet")  # nobody is shown what else would fit
        found.judge.in_a_line = bool(in_a_line) and not found.over_time
        found.judge.strict = bool(settings.get("strict"))
    return found


def _room(settings: Settings) -> tuple[Model, dict[str, Any]]:
    """Return the model and the question of ``_question`` with the budget, in the words of :func:`~tfcalc.fits`."""
    budget = _budget(settings)
    if settings.get("budget") or not settings.get("serve"):
        settings.refuse(OF_ENGINE, "but in serving on a card", {}, "add --serve --gpu NAME, or leave it out")
    model, question = _question(settings)
    return model, {
        **question,
        **budget,
        UTILIZATION.name: settings.get(UTILIZATION.name),
        "engine": settings.get("engine", ""),
        "profile": _profile(settings),
    }


def _budget(settings: Settings) -> dict[str, Any]:
    """The memory that there is, and the margin of it, in the words of :func:`~tfcalc.fits`."""
    from tfcalc.search.gpus import of_card

    if settings.get("budget") and settings.get("gpu"):
        raise UsageError("--budget and --gpu both set the budget", "leave one of them out")
    settings.refuse(("depth",), "with --budget or --gpu", {})
    margin = settings.get("margin")
    return {
        "budget": settings.get("budget") or of_card(settings.get("gpu")),
        **({} if margin is None else {"margin": margin}),
    }


def _profile(settings: Settings) -> Profile | None:
    """The profile run by an engine's own log. Raises UsageError where a part of it is missing, or no engine is."""
    given = [name for name in ("profiled", "nontorch", "graphs") if settings.get(name)]
    if not given:
        return None
    from tfcalc.serving.engine_rules import Profile

    if not settings.get("engine"):
        settings.refuse(given, "without --engine", {}, "add --engine vllm")
    if not (settings.get("profiled") and settings.get("nontorch")):
        raise UsageError("an engine's cache follows from both --profiled and --nontorch", "give both, or neither")
    peak, outside, *graphs = (parse_bytes(settings.get(name)) for name in given)
    return Profile(peak, outside, *graphs)


def _asked(settings: Settings) -> tuple[Model, Plans]:
    """The model, and the plan that it is trained or served by; options that have no effect are refused."""
    model = settings.model()
    workload = settings.workload(model)
    if not workload.training:
        settings.refuse(("timeline",), "without --train", {}, "add --train")
    return model, memory_plans(settings, model, workload)


def _question(settings: Settings) -> tuple[Model, dict[str, Any]]:
    """The model, and what is asked of it, in the words of :func:`~tfcalc.memory`."""
    model, asked = _asked(settings)
    return model, {
        "workload": asked.workload,
        "conventions": settings.conventions(),
        "training": asked.training,
        "serving": asked.serving,
        "weights": settings.get("weights") if asked.at_rest else None,
    }


def _laid_out(settings: Settings) -> bool:
    """Return whether a layout of training was asked for that is Megatron-core's, FSDP2's or DeepSpeed's."""
    if settings.get("serve") or settings.get("phase") != "train":  # which what is typed of a layout implies
        return False
    experts = settings.given.get("expert_parallel")
    shares_experts = experts is not None and experts.source == FLAG
    return shares_experts or any(name in settings.given for name in LAID_OUT)


def _of_layout(settings: Settings) -> Memory:
    """The memory of a GPU of a layout; options that have no effect on it are refused."""
    from tfcalc.answers.layout_verdict import memory_of_layout
    from tfcalc.cli.commands.ranks import OF_RUN, OF_TRAINING, asked, stack_of

    where = "on a GPU of a layout"
    stack = stack_of(settings)
    if settings.get("backend") == stack:  # which says it once more
        del settings.given["backend"]
    others = (one.name for one in TRAINING if one.name not in OF_TRAINING)
    settings.refuse(others, where, {"layout": "leave it out, and take --stack fsdp"})
    of_serving = (one.name for one in SERVING if one.name not in (*IN_BOTH, *SHARED_AXES))
    settings.refuse(of_serving, "without --serve", {}, "add --serve")
    own = {*OF_RUN, *SHORT_OR_SAID} - {"attention"}  # which moves FLOPs alone
    settings.refuse((one.name for one in OF_PLANS if one.name not in own), where, {})
    settings.refuse(("weights", "dtype"), "with --train", {}, "give --precision")
    settings.refuse(OF_ENGINE, "but in serving on a card", {})
    settings.refuse(("timeline",), where, {}, "leave it out; --json has the peak of the fullest stage")
    room: dict[str, Any] = {}
    if settings.choose("budget", "gpu"):
        room = _budget(settings)
    else:
        settings.refuse(("margin", "strict"), "without --gpu or --budget", {}, "add --gpu NAME")
    gpus = getattr(room.get("budget"), "gpus", 1)
    found = asked(settings, None if gpus == 1 else gpus)
    return memory_of_layout(found, settings.conventions(), depth=settings.get("depth"), **room)


SHORT_OR_SAID = ("phase", "train", "gradient_checkpointing")
"""What says of a run that it trains, and what is short for other options."""


def _code(answer: Answered) -> int:
    """1 where it does not fit, or may not; with --strict also where it fits tightly."""
    judge = getattr(answer, "judge", None)
    return int(judge is not None and not judge.holds)


COMMAND = Command(
    answer,
    (
        *(MODEL_ARGUMENT, *BUDGET, TIMELINE, *MODEL_OPTIONS, *OF_PLANS, *PLANS, OF_STACK, *OF_LAYOUT),
        *(*ENGINE, *DTYPE, *UNITS, DEPTH, *SHOW),
    ),
    (
        "tfcalc memory llama-3-8b --train --batch 8 --seq 4k --checkpointing full",
        "tfcalc memory llama-3-8b --serve --context 8k --concurrency 4 --gpu h100",
        "tfcalc memory llama-3-8b --weights nf4",
        "tfcalc memory gpt2 --train --batch 8 --seq 1024 --timeline",
        "tfcalc memory mixtral-8x7b --train --ep 8 --gpus 64 --seq 2k --gpu h100",
        "tfcalc memory llama-3-8b --serve --context 32k --weights int4 --kv fp8",
        "tfcalc memory llama-3-8b --serve --context 8k --budget 24GB",
        "tfcalc memory --d-model 512 --layers 6",
        "tfcalc memory transformer-big --dtype bf16 --units si",
        "tfcalc memory --dtype int4 --json",
    ),
    _code,
    entries=entries,
)
