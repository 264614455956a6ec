"""``tfcalc diff A B``, ``tfcalc diff REF:PATH``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.answers.diff import diff
from tfcalc.catalog import revision
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.operands import EACH, OF_MODELS, TRAIN, beside, operand, own_settings, refuse_unknown
from tfcalc.cli.commands.plans import SERVE, SERVING
from tfcalc.cli.options import SHOW, UNITS, Option
from tfcalc.cli.output import deliver, show
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.revisions import path_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfcalc.answers.compared import Operand
    from tfcalc.answers.diff import Diff
    from tfcalc.cli.settings import Settings

MODELS = Option(
    "models",
    (),
    "two models: names, config.json, REF:PATH, Hub ids; with options in quotes; or one REF:PATH: then and now",
    argument=True,
    several=True,
    offers="models",
)
REVISIONS = ("HEAD", "origin/")
"""How git's revisions begin that people type."""
FOR_BOTH = tuple(option for option in EACH if option not in (TRAIN, SERVE, *SERVING))


def answer(settings: Settings) -> Diff:
    """Return what differs in the second model."""
    settings = settings.with_values(train=True)
    first, second = (_operand(text, settings) for text in _sides(settings.get("models") or ()))
    found = diff(first, second, workload=first.workload, conventions=settings.conventions())
    both = [found.workload] * len(found.operands)
    refuse_unknown(found.table, found.operands, both, settings, enough=any)
    return found


def _sides(texts: Sequence[str]) -> Sequence[str]:
    """Return both texts; for a single path at a revision, that and the same path today. Raises UsageError.

    The file at the revision is found wherever it was then.
    """
    found = revision(texts[0]) if len(texts) == 1 else None
    if found:
        ref, path = found
        return f"{ref}:{path_at(ref, path, Path())}", path
    if len(texts) != 2:
        told = f"1 model to compare: {quoted(texts[0])}" if len(texts) == 1 else f"{len(texts)} models to compare"
        raise UsageError(told, "name two, or one file at a git revision: HEAD~1:config.json")
    if texts[0].startswith(REVISIONS) and ":" not in texts[0]:
        raise UsageError(f"{quoted(texts[0])} is a git revision and no model", f"write {texts[0]}:{texts[1]}")
    return texts


def _operand(text: str, settings: Settings) -> Operand:
    own = own_settings(text)
    of_runs = (option.name for option in EACH if option not in OF_MODELS)
    own.refuse(of_runs, f"on one of both: {quoted(text)}", {}, "put it outside of the quotes")
    return operand(text, beside(settings, own))


def write(found: Diff, settings: Settings) -> None:
    """Write the differences as other answers; write nothing where nothing changed, unless it is for a program."""
    if found.changed or settings.wants_json or settings.get("quiet"):
        show(found, settings)
    elif settings.get("output", "-") != "-":
        deliver("", settings)


COMMAND = Command(
    answer,
    (MODELS, *FOR_BOTH, *UNITS, *(option for option in SHOW if option.name != "formulas")),
    (
        "tfcalc diff llama-3-8b 'llama-3-8b --kv-heads 16'",
        "tfcalc diff gpt2 gpt2-medium --seq 1k --checkpointing full",
        "tfcalc diff llama-3-8b 'llama-3-8b --kv-heads 16' --format markdown",
    ),
    write=write,
)
