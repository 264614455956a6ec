"""``tfcalc check``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.check import check
from tfcalc.analysis.check_causes import NEVER
from tfcalc.analysis.check_reading import by_thumb, said_of
from tfcalc.analysis.quantities import OTHER_WORDS, QUANTITIES
from tfcalc.analysis.targets import TARGETS
from tfcalc.catalog import is_known
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.flops import TOKENS
from tfcalc.cli.commands.formula import GENERAL, LETTERS, TARGET, aimed, letters_of, refuse_idle_on_part
from tfcalc.cli.commands.meant import FORMULA as FORMULA_ALONE
from tfcalc.cli.commands.meant import as_meant
from tfcalc.cli.commands.plans import PLANS, plans_for
from tfcalc.cli.idle import OF_FORM
from tfcalc.cli.options import COUNT, DTYPE, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option
from tfcalc.cli.settings import Settings
from tfcalc.core.notation import write
from tfcalc.errors import InvalidModel, TfcalcError, UsageError

if TYPE_CHECKING:
    from tfcalc.analysis.check import FormulaCheck
    from tfcalc.report.answer import Answered

NEGATIVE = 1
FORMULA = Option(
    "formula", (), "the formula or the number to check, in quotes: '4h^2 + 4h', 44.14M, 6ND", argument=True
)
OF = Option("of", ("--of",), "quantity [default: params]", tuple(QUANTITIES), spellings=OTHER_WORDS, front=True)
APPROX = Option("approx", ("--approx",), "compare with the formula without biases and norms", switch=True, front=True)


def answer(settings: Settings) -> FormulaCheck:
    """Return whether a formula is right, and what differs."""
    settings = as_meant(aimed(settings))
    target, text = settings.get("target"), settings.get("formula")
    alone = bool(FORMULA_ALONE.fullmatch(target)) and (not text or is_known(text))
    if alone:
        settings = _with_part(settings.with_values(formula=target, **({"model": text} if text else {})))
        text = target
    if not text:
        raise UsageError("no formula given", "write tfcalc check mha '4h^2 + 4h'")
    of_a_run = "tokens" in settings.given
    if "of" not in settings.given and (of := "flops" if of_a_run else said_of(str(text))):
        settings = settings.with_values(of=of)
    trains = of_a_run or by_thumb(text) == "6"  # 2ND are of a forward pass
    if trains and settings.get("of") == "flops" and "phase" not in settings.given:
        settings = settings.with_values(phase="train")
    if settings.get("of") == "time":
        settings.refuse(("batch_size",), "on growth", {})
    refuse_idle_on_part(settings, _checked, (*OF_FORM, GENERAL))
    found = _checked(settings)
    if not found.correct:
        found = _as_meant(settings) or found
    return replace(found, notes=(f"compared with {settings.get('target')}", *found.notes)) if alone else found


def _as_meant(settings: Settings) -> FormulaCheck | None:
    """The check of what else may be meant, where that is right: a cache without blocks, or what LoRA trains."""
    if settings.get("serve") and "cache" not in settings.given:
        try:
            of_tokens = _checked(settings.with_values(cache="dynamic"))
        except InvalidModel:  # of several GPUs, over which engines share a model, and these store it in blocks
            return None
        in_blocks = write(_checked(settings).right.top, letters=of_tokens.letters)
        note = f"token by token, as --cache dynamic; in whole blocks, as vLLM stores it, it is {in_blocks}"
        return replace(of_tokens, notes=(note, *of_tokens.notes)) if of_tokens.correct else None
    if "lora" in settings.given and "of" not in settings.given:
        trained = _checked(settings.with_values(of="trainable"))
        return (
            replace(trained, notes=("of what is trained: --of trainable", *trained.notes)) if trained.correct else None
        )
    return None


def _with_part(settings: Settings) -> Settings:
    """The settings of a formula alone: of the part that has it, or lacks the fewest others; or of the whole model."""
    near: list[tuple[int, float, Settings]] = []
    for part in TARGETS:
        of_part = settings.with_values(target=part)
        with suppress(TfcalcError):
            found = _checked(of_part)
            if found.correct:
                return of_part
            parts = found.missed if found.yours.top.free_symbols else ()  # numbers add up to any other by chance
            if parts and all(cause.times == NEVER and not cause.is_all for cause in parts):
                near.append((len(parts), sum(cause.cost for cause in parts), of_part))
    return min(near, key=lambda one: one[:2])[2] if near else settings.with_values(target="complete")


def _checked(settings: Settings) -> FormulaCheck:
    model = settings.model()
    of, run = settings.get("of", "params"), settings.workload(model)
    asked = plans_for(settings, of, model, run)
    return check(
        settings.get("target"),
        settings.get("formula"),
        of,
        model,
        asked.workload or run,
        settings.conventions(),
        approx=settings.get("approx", False),
        general=settings.get("general", False),
        notation=settings.get("notation", "lbhn"),
        letters=letters_of(settings.get("letters")),
        training=asked.training,
        serving=asked.serving,
        tokens=settings.get("tokens"),
    )


def _code(answer: Answered) -> int:
    return 0 if cast("FormulaCheck", answer).correct else NEGATIVE


COMMAND = Command(
    answer,
    (
        TARGET,
        FORMULA,
        MODEL_ARGUMENT,
        OF,
        APPROX,
        GENERAL,
        LETTERS,
        *MODEL_OPTIONS,
        *RUN,
        *PLANS,
        TOKENS,
        *COUNT,
        *DTYPE,
        *SHOW,
    ),
    (
        "tfcalc check mha '4h^2 + 4h'",
        "tfcalc check mha '3*d**2 + 4*d' --notation bsld",
        "tfcalc check encoder-layer '24lbh² + 4l²bh' --of flops",
        "tfcalc check mha '4d² + 4d' --letters h=d",
        "tfcalc check layer '(2ad + 2gd + 3f + 2)h' llama-3-8b",
        "tfcalc check mha 1,050,624",
        "tfcalc check core 168.4MiB --of memory",
        "tfcalc check core 'O(n(lh² + l²h))' --of time",
    ),
    code=_code,
)
