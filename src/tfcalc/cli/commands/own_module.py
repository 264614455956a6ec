"""``tfcalc verify --module``: its options, and what they ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfcalc.analysis.targets import TARGETS
from tfcalc.catalog import is_known
from tfcalc.cli.options import EDITS, MODEL_FIELDS, RUN, Option
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError
from tfcalc.verify.module_file import examined, read_arguments, read_inputs, split_place
from tfcalc.verify.module_sizes import sizes
from tfcalc.verify.own_module import compared
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.verify.module_answer import ModuleCheck

MODULE = Option(
    "module",
    ("--module",),
    "your own class, file.py:Class: its file is run, in a process of its own",
    typed="--module FILE.py:CLASS",
    variable=False,
    front=True,
)
ARGS = Option(
    "args", ("--args",), "arguments of the class: 512,8 or d_model=512,heads=8", typed="--args 512,8", front=True
)
INPUTS = Option(
    "inputs",
    ("--inputs",),
    "arguments of forward: 2x5x512 (vectors), 2x5:ids, 5x5:mask, none",
    typed="--inputs 2x5x512",
    front=True,
)
AGAINST = Option(
    "against",
    ("--against",),
    f"what it should be: {', '.join(TARGETS)}, a path, or a model's name",
    typed="--against TARGET",
    front=True,
)
OPTIONS = (MODULE, ARGS, AGAINST, INPUTS)
BATCH, SEQ = 2, 5
"""Sequences and tokens of the pass: small, and unlike any size of a model."""
OF_PASS = ("batch_size", "seq_len")


def answer(settings: Settings, others: Iterable[str]) -> ModuleCheck:
    """The class beside tfcalc's part; ``others`` are options of the command that have no effect on it.

    Raises UsageError, BadModule where the class cannot be loaded or run, Unavailable without PyTorch.
    """
    _refuse(settings, others)
    of = settings.get("of", "params")
    place, against = str(settings.get("module")), settings.get("against", "")
    arguments = read_arguments(settings.get("args", ""))
    inputs = read_inputs(settings.get("inputs")) if "inputs" in settings.given else None
    settings, target = _aimed(settings, against)
    if of != "params" and target:
        raise UsageError(
            f"--of {of} of a class is compared with nothing", f"leave --of {of} out, or what it is against"
        )
    sized = settings.model_name is not None
    if sized:
        settings.model()  # a name that no model has is found before the file is run
    split_place(place)
    said = examined(
        place,
        arguments,
        inputs,
        batch=settings.get("batch_size", BATCH),
        seq=settings.get("seq_len", SEQ),
        width=settings.get("d_model"),
        of=of,
    )
    model = settings.model() if sized else _by_arguments(settings, said["arguments"], target)
    called = settings.model_name or "the whole model" if target == "complete" else target
    return compared(place, said, model, target, called, of)


def refuse_without(settings: Settings) -> None:
    """Raise UsageError for an option of a module where there is none."""
    settings.refuse((option.name for option in OPTIONS), "without --module", {}, "add --module file.py:Class")


def _refuse(settings: Settings, others: Iterable[str]) -> None:
    idle = [*others, *(option.name for option in RUN if option.name not in OF_PASS)]
    settings.refuse(idle, "with --module", {}, "leave it out")
    if "inputs" in settings.given:
        settings.refuse(OF_PASS, "beside --inputs", {})
    if not settings.get("against") and settings.model_name is None:
        settings.refuse(
            (option.name for option in (*MODEL_FIELDS, *EDITS) if option.name != "d_model"),
            "without --against",
            {},
            "add it",
        )


def _aimed(settings: Settings, against: str) -> tuple[Settings, str]:
    """The settings with the model that is meant, and which part of it; ``""`` where nothing is compared."""
    if against and against not in TARGETS and settings.model_name is None and is_known(against):
        return settings.with_values(model=against), "complete"
    return settings, against or ("complete" if settings.model_name is not None else "")


def _by_arguments(settings: Settings, arguments: dict[str, object], target: str) -> Model:
    """The classic Transformer with the sizes that the class was given, those that were typed in their place."""
    return settings.fill(Transformer().replaced(**sizes(arguments, target))) if target else Transformer()
