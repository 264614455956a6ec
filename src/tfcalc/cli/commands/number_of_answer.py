"""``tfcalc explain COMMAND.PATH WORDS``: a number of any answer, by the words of the command that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from tfcalc.answers.question import levels
from tfcalc.cli.commands import COMMANDS, Command, command
from tfcalc.cli.options import SHOW, Option
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.number import open_answer
from tfcalc.report.paths import ABOUT_ONE_MODEL, dotted

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.report.answer import Answered
    from tfcalc.report.number import Openable

PATH = Option(
    "path", (), "COMMAND.PATH of a number of an answer, followed by all that was said to that command", argument=True
)
WRITTEN = ("latex", "sympy", "chart", "answers", "update", "reason")
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
            return Path(name, tuple(keys), place) if keys and name in COMMANDS else None
    return None


def of_answer(path: Path, words: Sequence[str]) -> Command:
    """The command that opens this number of an answer, and takes the other words of the command that gave it."""
    name, keys, place = path
    if name in NO_NUMBERS or not all(keys):
        raise UsageError(f"{name}.{'.'.join(keys)} is no number", f"write one as {name}.KEY.KEY")
    own = command(name).meant([*words[:place], *words[place + 1 :]])
    first = PATH._replace(name=f"path{len(own.options)}")  # the words may begin with a path of their own
    options = {option.name: option for option in (first, *own.options) if option.name not in WRITTEN}
    options |= {option.name: option for option in SHOW if option.name not in options}  # serve's --output is no file
    opened = partial(of_one_model, name, keys) if name in ABOUT_ONE_MODEL else partial(_opened, own, keys)

    def answer(settings: Settings) -> Answered:
        """Open the number, with the settings except the path."""
        rest = {key: given for key, given in settings.given.items() if key != first.name}
        return opened(type(settings)(rest, settings.named))

    return Command(answer, tuple(options.values()), command("explain").examples)


def of_one_model(name: str, keys: Sequence[str], settings: Settings) -> Answered:
    """A number of the answer about a model, as deep in its breakdown as the keys go."""
    if (depth := levels(keys)) is not None and not settings.choose("budget", "gpu"):
        settings = settings.with_values(depth=depth)
    return _opened(command(name), keys, settings)


def _opened(asked: Command, keys: Sequence[str], settings: Settings) -> Answered:
    by = {name: given.called for name, given in settings.given.items()}
    return open_answer(cast("Openable", asked.answer(settings)), keys, by)
