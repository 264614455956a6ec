"""``tfcalc verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.quantities import QUANTITIES
from tfcalc.cli.commands import Command, own_module
from tfcalc.cli.commands.plans import TRAINING, memory_plans
from tfcalc.cli.idle import refuse_idle_in_flops
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.verify.checkpoint import verify_checkpoint
from tfcalc.verify.count import verify
from tfcalc.verify.flop_count import verify_flops
from tfcalc.verify.memory_count import verify_memory

if TYPE_CHECKING:
    from tfcalc.report.answer import Answered

CHECKPOINT = Option(
    "checkpoint", ("--checkpoint",), "compare with this file's header: .safetensors, its index, or .gguf", front=True
)

OF = Option("of", ("--of",), "quantity to verify [default: params]", ("params", "flops", "memory"), front=True)


def answer(settings: Settings) -> Answered:
    """Return both counts; raise Unavailable (exit 4) where there is nothing to compare."""
    if settings.get("module"):
        return own_module.answer(settings, (CHECKPOINT.name, *(option.name for option in TRAINING)))
    own_module.refuse_without(settings)
    if settings.get("of", "params") != "params":
        settings.choose("checkpoint", "of")
    model, checkpoint, of = settings.model(), settings.get("checkpoint"), settings.get("of", "params")
    if checkpoint and of != "params":
        raise UsageError(f"--checkpoint has no effect with --of {of}", "leave one of them out")
    if of == "params":
        settings.refuse((option.name for option in RUN), "on parameters", {}, "add --of flops or --of memory")
    if of != "memory":
        settings.refuse((option.name for option in TRAINING), f"on {QUANTITIES[of]}", {}, "add --of memory")
    if checkpoint:
        return verify_checkpoint(model, checkpoint)
    if of == "flops":
        refuse_idle_in_flops(settings, model)
        return verify_flops(model, settings.workload(model))
    if of == "memory":
        run = settings.workload(model).replaced(phase="train")
        asked = memory_plans(settings, model, run)
        return verify_memory(model, asked.workload, asked.training)
    return verify(model)


def code(answer: Answered) -> int:
    """1 where the counts differ."""
    return 0 if getattr(answer, "agrees", True) else 1


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, OF, *RUN, *TRAINING, CHECKPOINT, *own_module.OPTIONS, *SHOW),
    (
        "tfcalc verify --d-model 512 --layers 6",
        "tfcalc verify --of flops --train --seq 128 --batch 2",
        "tfcalc verify --module attention.py:Attention --args 512,8 --against mha",
        "tfcalc verify transformer-base --json",
        "tfcalc verify --kind decoder --norm rmsnorm --kv-heads 2 --no-attention-bias",
    ),
    code,
)
