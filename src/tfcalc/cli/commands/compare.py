"""``tfcalc compare A B …``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tfcalc.answers.compare import compare
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.operands import EACH, beside, operand, own_settings, refuse_unknown
from tfcalc.cli.options import SHOW, UNITS, Option
from tfcalc.cli.output import is_page, show

if TYPE_CHECKING:
    from tfcalc.answers.compare import Comparison
    from tfcalc.cli.settings import Settings

MODELS = Option(
    "models",
    (),
    "models to compare: names, config.json, REF:PATH, Hub ids; with options in quotes",
    argument=True,
    several=True,
    offers="models",
)
ONLY = Option("only_differences", ("--only-differences",), "leave out what is the same in all", switch=True, front=True)

GPU = Option(
    "gpu",
    ("--gpu",),
    "does each fit on this GPU: served and fine-tuned, or as --train or --serve say: h100",
    group="gpus",
    front=True,
    offers="gpus",
)


def answer(settings: Settings) -> Comparison:
    """The models side by side."""
    texts = settings.get("models") or ()
    own = [own_settings(text) for text in texts]
    found = compare(
        *(operand(text, beside(settings, its)) for text, its in zip(texts, own, strict=True)),
        conventions=settings.conventions(),
        only_differences=settings.get("only_differences", False),
        gpu=settings.get("gpu"),
    )
    refuse_unknown(found.table, found.operands, found.workloads, settings, own)
    return found


def write(found: Comparison, settings: Settings) -> None:
    """Write a page, which has curves of all models, where the file's name asks for one; else as any other answer."""
    if is_page(settings):
        import_module("tfcalc.cli.commands.report").deliver_compared(found, settings)  # few ask for a page
    else:
        show(found, settings)


COMMAND = Command(
    answer,
    (MODELS, *EACH, GPU, ONLY, *UNITS, *(option for option in SHOW if option.name != "formulas")),
    (
        "tfcalc compare llama-3-8b qwen3-8b",
        "tfcalc compare llama-3.1-8b gemma-2-27b --gpu h100",
        "tfcalc compare llama-3-8b 'llama-3-8b --kv-heads 32' --only-differences",
        "tfcalc compare gpt2 gpt2-medium gpt2-large --train --format markdown",
        "tfcalc compare llama-3-8b 'llama-3-8b --qlora' --train --seq 4k",
        "tfcalc compare llama-3-8b qwen3-8b -o compared.html",
    ),
    write=write,
)
