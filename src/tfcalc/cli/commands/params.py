"""``tfcalc params``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.answers.params import params
from tfcalc.cli.commands import Command
from tfcalc.cli.options import DEPTH, MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, TUNING, Option
from tfcalc.cli.output import at_most, code, within
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.report import Report

if TYPE_CHECKING:
    from tfcalc.report.answer import Answered

MAX = at_most("parameters", "1.4B")
APPROX = Option("approx", ("--approx",), "also without biases and norms", switch=True, front=True)
VIA = Option(
    "via",
    ("--via",),
    "count by transformers, for a model type that tfcalc does not support: torch",
    ("torch",),
    typed="--via torch",
    front=True,
)


def answer(settings: Settings) -> Answered:
    """Count them, by formulas or through transformers."""
    return within(_through(settings) if settings.get("via") else _counted(settings), settings)


def _counted(settings: Settings) -> Report:
    depth, approx = settings.get("depth"), settings.get("approx", False)
    return params(settings.model(), depth=depth, approx=approx, training=settings.tuning())


def _through(settings: Settings) -> Report:
    from tfcalc.catalog import config_of
    from tfcalc.verify.through import params_through

    if settings.model_name is None:
        raise UsageError("--via torch needs a config", "give one: a config.json, a preset, or a Hub id")
    settings.refuse((option.name for option in TUNING), "with --via torch", {})
    config = config_of(settings.model_name, offline=settings.offline)
    return params_through(config, depth=settings.get("depth"))


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *TUNING, MAX, DEPTH, APPROX, VIA, *SHOW),
    (
        "tfcalc params llama-3-8b",
        "tfcalc params --d-model 512 --layers 6",
        "tfcalc params deepseek-v3 --json",
        "tfcalc params llama-3-8b --layers 16 -q",
        "tfcalc params llama-3-8b --lora 16 --lora-targets q_proj,v_proj",
        "tfcalc params llama-3.2-1b --max 1.4B",
    ),
    code,
)
