"""``tfcalc explain COMMAND.PATH WORDS``: a number of any answer, by the words of the command that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from tfcalc.cli.commands import ALIASES, COMMANDS, Command, command
from tfcalc.cli.options import SHOW, Option
from tfcalc.errors import UsageError
from tfcalc.report.opened import open_answer
from tfcalc.report.paths import dotted, reach

if TYPE_CHECKING:
    from tfcalc.analysis.opened_numbers import Asked
    from tfcalc.cli.settings import Settings
    from tfcalc.report.answer import Answer
    from tfcalc.report.opening import Openable

PATH = Option(
    "path", (), "COMMAND.PATH of a number of an answer, followed by all that was said to that command", argument=True
)
WRITTEN = ("latex", "sympy", "chart", "shares", "answers", "update", "reason")
"""What decides how another answer is written, or writes a file."""
NO_NUMBERS = ("schema",)


class Path(NamedTuple):
    """A number: the command whose answer has it, its keys, and the place among the words of a command line."""

    command: str
    keys: tuple[str, ...]
    place: int


def path_among(words: Sequence[str], options: Sequence[Option]) -> Path | None:
    """The first word that is no option, nor the value of one, where it is the path of a number; None of others."""
    valued = {flag for option in options if not option.switch for flag in option.flags}
    for place, word in enumerate(words):
        if not word.startswith("-") and (not place or words[place - 1] not in valued):
            name, *keys = dotted(word).split(".")
            named = ALIASES.get(name, name)
            return Path(named, tuple(keys), place) if keys and named in COMMANDS else None
    return None


def of_answer(path: Path, words: Sequence[str]) -> Command:
    """The command that opens this number of an answer, and takes the other words of the command that gave it."""
    name, keys, place = path
    if name in NO_NUMBERS or not all(keys):
        raise UsageError(f"{name}.{'.'.join(keys)} is no number", f"write one as {name}.KEY.KEY")
    own = command(name).meant([*words[:place], *words[place + 1 :]])
    options = {option.name: option for option in (PATH, *own.options, *SHOW) if option.name not in WRITTEN}
    return Command(partial(_opened, own, keys), tuple(options.values()), command("explain").examples)


def asked_about(name: str, settings: Settings) -> Asked:
    """A question about one model, with its answer."""
    from tfcalc.analysis.opened_numbers import Asked
    from tfcalc.cli.commands.plans import Plans, memory_plans

    said = command(name).answer(settings).to_dict()
    model = settings.model()
    run = settings.workload(model)
    plans = memory_plans(settings, model, run) if name == "memory" else Plans(run, settings.tuning())
    return Asked(
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


def _opened(asked: Command, keys: Sequence[str], settings: Settings) -> Answer:
    by = {name: given.called for name, given in settings.given.items()}
    found = asked.answer(settings)
    if not hasattr(found, "opener"):
        raise UsageError(f"numbers of {found.to_dict()['command']} cannot be opened", "ask about one model")
    return cast("Answer", open_answer(cast("Openable", found), keys, by))
