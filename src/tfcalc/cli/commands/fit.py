"""``tfcalc fit``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.answers.fit import FitQuestion, FitTable
from tfcalc.cli.commands import Command, memory
from tfcalc.cli.commands.plans import PLANS, imply_mode, memory_plans
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, OF_PLANS, SHOW, UNITS, Option
from tfcalc.cli.settings import FLAG, Given, Settings
from tfcalc.defaults import in_llama_cpp
from tfcalc.search.gpus import Capacity, of_card

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tfcalc.report.answer import Answered

GPU = Option(
    "gpu",
    ("--gpu",),
    "one GPU, or several: h100, 8xh100; or kinds of them: h100,l40s [default: common GPUs]",
    group="gpus",
    front=True,
    offers="gpus",
)
ALL_GPUS = "all"
OF_VERDICT = tuple(option for option in memory.BUDGET if option.name not in ("budget", "gpu"))
"""What is asked of one GPU alone."""


def answer(settings: Settings) -> Answered:
    """The verdict on the GPUs that were named, or a line for each common one."""
    _imply(settings)
    return memory.answer(settings) if _one(settings) else table(settings)


def entries(settings: Settings) -> Mapping[str, Any]:
    """The JSON object."""
    _imply(settings)
    return memory.entries(settings) if _one(settings) else table(settings).entries()


def table(settings: Settings) -> FitTable:
    """A line for each common GPU."""
    named = (option.name for option in OF_VERDICT)
    settings.refuse(named, "without a GPU", {}, "add --gpu NAME")
    model = settings.model()
    plans = memory_plans(settings, model, settings.workload(model))
    units, cards = settings.conventions().units, cards_named(settings.get("gpu"))
    return FitTable(FitQuestion(model, plans.workload, plans.training, plans.serving, units, cards))


def _one(settings: Settings) -> bool:
    """Return whether GPUs of one kind are asked about."""
    gpu = str(settings.get("gpu", ALL_GPUS))
    return gpu.lower() != ALL_GPUS and "," not in gpu


def cards_named(text: str | None) -> tuple[Capacity, ...]:
    """Read the GPUs of a list, ``h100,a100-80``: none of ``all``. Raises UsageError."""
    names = "" if text is None or text.lower() == ALL_GPUS else text
    return tuple(of_card(name, instead="") for name in names.split(",") if name.strip())


def _imply(settings: Settings) -> None:
    """Training is asked about, unless something of serving was typed, or a file of llama.cpp, which serves alone."""
    imply_mode(settings)
    if settings.get("serve") or "phase" in settings.given:
        return
    if in_llama_cpp(settings.model()):
        settings.given["serve"] = Given(True, FLAG, "fit", "fit")
    else:
        settings.given["phase"] = Given("train", FLAG, "fit", "fit")


def code(found: Answered) -> int:
    """0 where it fits, on one GPU of a table at least; 1 where it does not."""
    judged = getattr(found, "judge", None)
    holds = getattr(found, "succeeded", True) if judged is None else judged.holds
    return 0 if holds else 1


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *OF_PLANS, *PLANS, GPU, *OF_VERDICT, *UNITS, *SHOW),
    (
        "tfcalc fit llama-3-8b --lora",
        "tfcalc fit llama-3-8b --qlora --seq 8k --batch 2",
        "tfcalc fit llama-3-8b --lora --gpu rtx-4090",
        "tfcalc fit llama-3-8b --serve --context 32k",
    ),
    code,
    entries=entries,
)
