"""The typer application, made of the commands: of the one that is called, where one is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from itertools import zip_longest
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from tfcalc.cli.commands import COMMANDS, Command, command
from tfcalc.cli.options import VERSUS, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings, settle
from tfcalc.core.traced import at_most
from tfcalc.errors import TfcalcError

if TYPE_CHECKING:
    from tfcalc.report.answer import Answered


def application(called: str | None, meant: Command | None = None, words: Sequence[str] = ()) -> typer.Typer:
    """The application: the command that is ``called`` by itself, which starts sooner, or all of them in a group.

    ``meant`` is what the words of the command line make of it. Of the group's commands only those have options that
    these ``words`` ask for.
    """
    app = typer.Typer(
        rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}, add_completion=called is None
    )
    if called is None:
        app.callback()(_about)
    typed = _completion().needed(words) if called is None else None
    for name in COMMANDS if called is None else [called]:
        if typed in (None, name):
            asked = meant or command(name)
            completes = _completion().completer if typed else _nothing
            app.command(name, help=COMMANDS[name])(_typed(partial(run, asked), asked.options, completes))
        else:
            app.command(name, help=COMMANDS[name])(_not_typed)
    return app


def run(command: Command, settings: Settings) -> int:
    """Answer a command, write the answer, and return the exit code."""
    with at_most(command.most, "this takes too many runs of layers", "give fewer layers, or ask for less at once"):
        found = command.answer(settings)
        if not _TAKEN.get()(found, settings):
            (command.write or show)(found, settings)
    return command.code(found)


Take = Callable[["Answered", Settings], bool]
"""Takes an answer, and says whether it did: if so, the answer is not written."""
_TAKEN: ContextVar[Take] = ContextVar("_TAKEN", default=lambda _answer, _settings: False)


@contextmanager
def taken_by(take: Take) -> Iterator[None]:
    """Within it, answers are offered to ``take`` before they are written: to a page that shows them in its own way."""
    before = _TAKEN.set(take)
    try:
        yield
    finally:
        _TAKEN.reset(before)


LINE: ContextVar[tuple[str, ...]] = ContextVar("LINE", default=())
"""The words of the command that ran last: those of a question are the command that it asks for."""


def _not_typed() -> None:
    """A command whose words are not completed: only its name is asked for."""


def _about(
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version.", is_eager=True)] = False,
) -> None:
    """``--version`` is answered before typer is imported; it is declared here for the help."""


Completer = Callable[[str], list[str]]


def _completion() -> ModuleType:
    """The file on completion, which only shells need."""
    return import_module("tfcalc.cli.completion")


def _nothing(_: Option) -> Completer | None:
    """Complete no value."""
    return None


def _typed(
    run: Callable[..., int], options: tuple[Option, ...], completes: Callable[[Option], Completer | None] = _nothing
) -> Callable[..., int]:
    """The function that typer sees: a parameter per option."""

    def called(**flags: object) -> int:
        settings = settle(options, flags)
        try:
            return run(settings)
        except TfcalcError as error:
            from tfcalc.cli.blame import blamed

            refusal = blamed(settings, error)
            refusal.as_json = settings.wants_json
            raise refusal from None

    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # how inspect lets one state it
        [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_parameter(option, completes(option)),
                annotation=bool if option.switch else list[str] if option.several else str,
            )
            for option in options
        ]
    )
    return called


def settings_of(words: Sequence[str], options: tuple[Option, ...]) -> Settings:
    """Return the settings that the words in one argument of a command line give; errors are raised as by the whole."""
    found: list[Settings] = []

    def keep(settings: Settings) -> int:
        found.append(settings)
        return 0

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(add_help_option=False)(_typed(keep, options))
    app(with_values(words, options), standalone_mode=False)
    return found[0]


def words_for(asked: Sequence[str], meant: Command | None) -> list[str]:
    """The words for typer: those behind the command that is ``meant``, or those of the program where there is none."""
    return with_values(asked[1:], meant.options) if meant else list[str](_completion().with_shell(asked))


OF_BOTH = ("--experts", "--attention")
"""Beginnings of flags that say something of a workload or, by their value, of a model."""


def with_values(words: Sequence[str], options: tuple[Option, ...]) -> list[str]:
    """The words with a value behind each option that is alone and has one for that: ``--lora`` is ``--lora 16``.

    The two words behind an option of a pair are one value: ``--why A B`` is ``--why 'A vs B'``. Flags of engines and
    trainers are replaced by those that they stand for.
    """
    flags = {part: option for option in options for flag in option.flags for part in flag.split("/")}
    if any(word.startswith(OF_BOTH) for word in words):
        words = other_names().of_the_model(words, flags)
    if any(_is_of_others(word, flags) for word in words):
        switches = {part: _opposite(part, option) for part, option in flags.items() if option.switch or option.alone}
        words = list(other_names().in_our_words(words, flags, switches))
    alone = {flag: option for option in options if option.alone for flag in option.flags}
    pairs = {flag for option in options if option.pair for flag in option.flags}
    words, found = _paired(words, pairs) if pairs else words, list[str]()
    for word, following in zip_longest(words, words[1:]):
        found.append(word)
        if word in alone and not is_value(following, alone[word]):
            found.append(alone[word].alone)
    return found


def is_value(word: str | None, option: Option) -> bool:
    """Return whether a word behind an option is its value: a number, or of one with words anything but an option.

    An empty text is a value, too, which the option refuses; None is no word.
    """
    if word is None:
        return False
    return not word or word[0].isdigit() if option.number else not word.startswith("-")


def other_names() -> ModuleType:
    """The file on flags of other programs, which few lines need."""
    return import_module("tfcalc.cli.other_names")


def _is_of_others(word: str, flags: Collection[str]) -> bool:
    """Return whether a word may be a flag of another program, or a value of a switch as its trainer has it."""
    name, equals, _ = word.partition("=")
    return (
        word.lower() in ("true", "false")
        or word.startswith("full_shard")
        or (word.startswith("-") and (name not in flags or (bool(equals) and word.endswith(("rue", "alse")))))
    )


def _opposite(flag: str, switch: Option) -> str:
    """The flag that says the opposite of this one of a switch; empty where there is none."""
    pair = next(one.split("/") for one in switch.flags if flag in one.split("/"))
    return pair[1 - pair.index(flag)] if len(pair) == 2 else ""


def _paired(words: Sequence[str], flags: set[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        if found[-2:-1] and found[-2] in flags and VERSUS not in found[-1] and not word.startswith("-"):
            found[-1] += VERSUS + word
        else:
            found.append(word)
    return found


def _parameter(option: Option, completer: Completer | None) -> object:
    """Return typer's declaration of an option. None is the default of all, so that settings can fill the gaps."""
    if option.argument:
        return typer.Argument(None, autocompletion=completer)
    return typer.Option(None, *option.flags, help=option.help, autocompletion=completer)
