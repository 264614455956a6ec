"""The program: what it is asked, and the exit code it leaves with."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from types import ModuleType
from typing import cast

from tfcalc import __version__
from tfcalc.cli.commands import (
    ALIASES,
    ASKING,
    COMMANDS,
    KV,
    OF_SERVERS,
    OVERVIEW,
    PREPOSITIONS,
    as_meant,
    behind,
    command,
    compared,
    with_context,
)
from tfcalc.cli.messages import say, standard_output, tell
from tfcalc.errors import Bug, TfcalcError, UnknownModel, UsageError, nearest
from tfcalc.printable import quoted

INTERRUPTED = 130
HELP = ("-h", "--help")
NAMED = 4
"""Commands that an error names at most."""
ASKED_MOST = (*dict.fromkeys(("memory", "fit", "train", "serve", "params", "flops", *COMMANDS)),)
"""Commands, those first that people ask most."""
REPORT = "please report it with the command that you typed; --debug shows the traceback"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Nothing but the answer goes to stdout."""
    asked = list(sys.argv[1:] if arguments is None else arguments)
    with standard_output():
        try:
            return _run(asked)
        except TfcalcError as error:
            return _refuse(error, asked)
        except KeyboardInterrupt:
            return INTERRUPTED
        except SystemExit as stop:  # so typer ends where it completes a word
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception as error:
            if "--debug" in asked or os.environ.get("TFCALC_DEBUG"):
                raise
            text = f"internal error: {type(error).__name__}: {_one_line(str(error))}"
            return _refuse(Bug(text, REPORT), asked)


def _version() -> int:
    say(f"tfcalc {__version__}\n")
    return 0


def _run(asked: list[str]) -> int:
    typed = _apart(asked)
    asked = as_meant(typed)
    if asked[:1] in (["--version"], ["-V"]):
        return _version()
    completes = "_TFCALC_COMPLETE" in os.environ
    if asked[:1] == ["help"]:
        asked = [*as_meant(asked[1:2])[:1], "-h", *asked[2:3]]
    place = next((place for place, word in enumerate(takewhile("--".__ne__, asked)) if word in HELP), None)
    if not completes and (not asked or place is not None):
        from tfcalc.cli import help_text

        return help_text.answer(asked[: place or 0], asked[(place or 0) + 1 :])
    named = asked and asked[0] not in COMMANDS and (asked[0] == "-" or not asked[0].startswith("-"))
    if named and not completes:
        return _overview(asked)
    called = asked[0] if asked and asked[0] in COMMANDS else None
    if called and not completes and (line := _question_of(asked, typed)) is not None:
        return _typer(line, line[0]) if line[0] in COMMANDS else _overview(line)
    if not (completes or called) and asked[0].startswith("--") and _is_sized(asked):
        return _typed_as(_knowing(asked) or OVERVIEW, asked)
    return _typer(asked, None if completes else called)


def _overview(asked: list[str]) -> int:
    """``tfcalc MODEL``: what is no command is a model, a question in words, or a slip of any."""
    if len(asked) > 1 and not asked[1].startswith("-"):
        known = _catalog().is_known(asked[0])
        asked = asked if known else _words().joined(asked)
        said = list(takewhile(_is_word, asked))
        if said[0].lower() in ASKING or (len(said) >= OF_A_SENTENCE and not known) or PREPOSITIONS.intersection(said):
            return _asked_in_words(asked)
    several = compared(asked)
    last = several[2] if several else ""
    opened = [last] if last in COMMANDS or last.lower() in ALIASES else _opened_by(asked[0], last)
    if opened:
        first = " ".join((*opened, asked[0]))
        raise UsageError(f"{quoted(last)} follows {quoted(asked[0])}", f"the command comes first: tfcalc {first}")
    if several and _catalog().is_known(asked[0]):
        if not _catalog().is_known(last) and (option := _words().beside(last)):
            planned = any(word.startswith(OF_A_PLAN) for word in asked)
            called = "memory" if "--gpu" not in option else "fit" if planned else OVERVIEW
            return _typer([called, asked[0], *option, *several[3:]], called)
        return _typer(several, several[0])
    known = asked[0] == "-" or _catalog().is_known(asked[0])
    knowing = _knowing(asked) if known else None
    if knowing is not None:
        return _typed_as(knowing, asked)
    try:
        if not known:
            _catalog().preset(asked[0])
    except UnknownModel as error:
        if words := _words().of_no_model(asked[0]):
            return (_run if words[0] == "explain" else _asked_in_words)([*words, *asked[1:]])
        raise _slip(asked[0], error) from None
    try:
        return _typed_as(OVERVIEW, asked)
    except (UnknownModel, UsageError) as error:
        raise _slip(asked[0], error) from None


def _opened_by(model: str, word: str) -> list[str]:
    """The words that explain a part or a concept which is typed behind a model; none where it is something else."""
    if not word or not _catalog().is_known(model) or _catalog().is_known(word) or _words().beside(word):
        return []
    opened = _words().of_no_model(word)
    return opened if opened[:1] == ["explain"] else []


OF_A_SENTENCE = 4
"""Words before the first option that are a question, whatever the first of them is."""
PATH_OF_A_NUMBER = r"[A-Za-z_]+(\.[\w\[\],-]+)+"
"""A number of an answer, or a part, by its path, which is no word of a question."""
MOST_LETTERS = 400
"""Letters of a question; what is longer was pasted, and is none."""
OF_A_QUESTION = frozenset(("is", "are", "was", "does", "do", "did", "has", "have", "the", "my"))
"""Words behind ``why`` that begin a question, and no line of a log."""
COMPARISON = r"[=<>≤≥]"
"""What a condition has."""
ABOUT_A_MODEL = ("params", "flops", "memory", "fit", "train", "serve", "plan", "ranks", OVERVIEW, "gpus", "design")
"""Commands with one word behind them, a model, a card or a size: further words are a question."""


def _is_word(word: str) -> bool:
    return not word.startswith("-")


def _is_pasted(said: Sequence[str]) -> bool:
    """Return whether words have more letters than a question: to find models and amounts among them takes long."""
    return sum(map(len, said)) > MOST_LETTERS


def _asked_in_words(asked: Sequence[str]) -> int:
    """Answer a question by the command that it asks for, or explain the concept that it names."""
    words = list(takewhile(_is_word, asked))
    options = asked[len(words) :]
    said = " ".join(words)
    if _is_pasted(words):
        fact = f"{quoted(said)} has {len(said):,} letters, a question at most {MOST_LETTERS}"
        raise UsageError(fact, "ask it in fewer words, or type a command: tfcalc -h lists them")
    line = _line_of(words, options)
    if line is None:
        try:
            return _typer(["explain", said, *options], "explain")
        except UsageError as error:
            if "is not known" not in error.message:
                raise
            fact = f"{quoted(said)} names neither one model nor a concept"
            raise UsageError(fact, "tfcalc models lists the models; a concept is KV cache, MFU, LoRA, …") from None
    return _run([*line, *options])


def _question_of(asked: Sequence[str], typed: Sequence[str]) -> list[str] | None:
    """The command line of a question whose first word is a command, or stands for one; None of any other line."""
    called, words = asked[0], list(takewhile(_is_word, typed))
    options = typed[len(words) :]
    first, *said = words or [""]
    said = " ".join(said).split()
    if not said or _is_pasted(said):
        return None
    if called == "gpus" and all(map(_catalog().is_known, said)):
        served = ["--serve"] * (not any(word.startswith(OF_A_PLAN) for word in options))
        return ["fit", *said, *served, *options]
    if called == first == "solve":
        return _solved_in_words(said, options)
    if called == first == "why" and said[0].lower() in OF_A_QUESTION:
        if plan := _words().plan_of_a_number(said):
            return [*plan, *options]
        named = _words().in_one_piece(said)
        return [called, *named, *options] if named != (" ".join(said),) else None
    if called != "explain" and behind(words) < 2:
        return None
    if re.fullmatch(PATH_OF_A_NUMBER, said[0]) and not said[0].endswith(".json"):
        return None
    if all(map(_catalog().is_known, said)):
        return None
    if called == "explain" and options[:1] != ["--of"] and "_" not in said[0]:  # which is the key of a number
        options = list(with_context(options)) if asked[1:2] == KV[1:] else options
        alias = "" if called in (first, ALIASES.get(first.lower())) else first
        line = _line_of(words if alias else said, options, alias, explains=True)
        line = _line_of(words, options) if line is None and alias else line
    elif called in ABOUT_A_MODEL and first.lower() not in OF_SERVERS:
        line = _line_of(words, options, ALIASES.get(first.lower(), called))
        if line is None and PREPOSITIONS.intersection(said):
            raise UsageError(f"{quoted(' '.join(words))} names no model that is known", "tfcalc models lists them")
    elif called == first == "compare" and len(models := _words().models_in(words[1:])) > 1:
        return [called, *models, *options]
    else:
        return None
    return None if line is None else [*line, *options]


def _line_of(
    words: Sequence[str], options: Sequence[str], meant: str = "", *, explains: bool = False
) -> list[str] | None:
    """The line of a question; what it leaves out is supposed, and told."""
    try:
        return cast("list[str] | None", _words().question_in(words, meant, explains=explains))
    except _words().Supposed as taken:
        if any(word.partition("=")[0] in taken.said_by for word in options):
            return [*taken.alone]
        tell(f"tfcalc: {taken}", ascii_only="--ascii" in options)
        return [*taken.line]


def _solved_in_words(said: Sequence[str], options: Sequence[str]) -> list[str] | None:
    """The line of ``solve`` with words in the place of a condition: the largest size on a card, or the best shape."""
    cards = [card for option, card in pairwise(options) if option == "--gpu"]
    if not said or "--for" in options:
        return None
    if re.search(COMPARISON, "".join(said)):
        line = _words().solved_for(said)
        return [*line, *options] if line else None
    apart = [part for word in said for part in (word.split("-") if word.lower() in ALIASES else [word])]
    line = _words().question_in(["largest", *apart, *cards])
    on_a_card = line is not None and line[:1] == ["memory"] and "--gpu" in line
    if line is None or not (on_a_card or {"longest sequence", "design"} & set(line)):
        return None
    rest = [word for before, word in zip(("", *options), options, strict=False) if "--gpu" not in (before, word)]
    return [*line, *rest]


def _typed_as(called: str, asked: Sequence[str]) -> int:
    """Run the words of a line without a command as those of this one, or of what that stands for."""
    meant = as_meant([called, *asked])
    return _typer(meant, meant[0])


def _apart(asked: list[str]) -> list[str]:
    """The words of a question that is typed in quotes, as one; the line itself of any other.

    >>> _apart(["how big is gpt2?", "--json"]), _apart(["gpt2", "two words"])
    (['how', 'big', 'is', 'gpt2?', '--json'], ['gpt2', 'two words'])
    """
    if not asked or len(words := asked[0].split()) < 2 or asked[0].startswith("-"):
        return asked
    if os.path.exists(asked[0]) or asked[0].endswith(".json"):
        return asked
    return [*words, *asked[1:]]


def _is_sized(asked: Sequence[str]) -> bool:
    """Return whether sizes are typed in the place of a model: ``tfcalc --d-model 512 --layers 6``."""
    sizes = {flag for option in command("params").options if option.group == "model" for flag in option.flags}
    return any(word.partition("=")[0] in sizes for word in asked)


INSTEAD_OF_OVERVIEW = ("memory", "train", "serve", "params", "flops", "plan")
"""Commands that answer ``tfcalc MODEL`` where an option is typed that is none of the overview's."""


def _knowing(asked: Sequence[str]) -> str | None:
    """The first command that has all options of a line which the overview has not; None where it has, or none does.

    >>> _knowing(["gpt2", "--lora", "--gpu", "t4"]), _knowing(["gpt2", "--tokens", "1B"]), _knowing(["gpt2", "--seq=8"])
    ('memory', 'train', None)
    """
    if not any(word.startswith("--") for word in asked):
        return None
    if _has_all(OVERVIEW, asked):
        return None
    of_a_phase = any(word.startswith("--phase") for word in asked)
    return next((name for name in ("flops",) * of_a_phase + INSTEAD_OF_OVERVIEW if _has_all(name, asked)), None)


def _has_all(name: str, asked: Sequence[str]) -> bool:
    """Return whether a command has all options of these words, or knows what others call them."""
    options = command(name).options
    flags = {part for option in options for flag in option.flags for part in flag.split("/")}
    words = _application().words_for([name, *asked], command(name))
    return all(word.partition("=")[0] in flags for word in words if word.startswith("--"))


def _application() -> ModuleType:
    """The typer application, which help and errors of files do without."""
    from tfcalc.cli import app

    return app


OF_A_PLAN = ("--lora", "--qlora", "--train", "--serve", "--seq", "--batch")
"""How options begin by which a card is asked of a plan, and not of the model at a glance."""


def _words() -> ModuleType:
    """The reader of words that are no command line, which few command lines need."""
    from tfcalc.cli import in_words

    return in_words


def _catalog() -> ModuleType:
    """The catalog of models, which a command that is called by its name loads itself."""
    from tfcalc import catalog

    return catalog


def _slip(word: str, error: TfcalcError) -> TfcalcError:
    """Return the error of a first word that is neither a command nor a model; the ``error`` itself where it is one."""
    if _catalog().is_elsewhere(word):
        return error
    try:
        _catalog().preset(word)
    except UnknownModel as unknown:
        command = nearest(word.lower(), COMMANDS if unknown.near else [*COMMANDS, *ALIASES], ALIKE)
        meant = command.startswith("did you mean")
        if unknown.near and not meant:
            return unknown
        hints = [command.replace("mean ", "mean the command ")] * meant + [unknown.hint] * (unknown.near or not meant)
        return UsageError(f"{quoted(word)} is neither a command nor a model", " ".join(hints))
    return error


ALIKE = 0.7
"""How alike a first word and a command are, so that it may be a slip of it."""


def _typer(asked: list[str], called: str | None) -> int:
    import typer

    app = _application()
    app.LINE.set(tuple(asked))
    # The base of all that typer raises of a command line has no public name.
    unusable = cast(type[Exception], typer.BadParameter.__mro__[2])
    try:
        meant = command(called).meant(asked[1:]) if called else None
        words = app.words_for(asked, meant)
        name = f"tfcalc {called}" if called else "tfcalc"
        code = app.application(called, meant, words)(words, prog_name=name, standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except unusable as error:
        others = app.other_names()
        raise _without_value(words, called) or _usage(error, called, others, others.short_flag(words)) from None
    return code if isinstance(code, int) else 0


def _usage(error: Exception, called: str | None, others: ModuleType, short: str = "") -> UsageError:
    """Return typer's error about the command line, in our words.

    A ``short`` flag of another program, such as -ngl, is several options of one letter to typer.
    """
    option = getattr(error, "option_name", None)
    close = getattr(error, "possibilities", None)
    if short and "o such option" in str(error):
        option, close = short, ()
    if option and close is not None and "o such option" in str(error):
        near = nearest(option, close) if close else "see --help"
        of_others = _of_others(others.stands_for(option))
        meant = others.here(option, called) or others.here(others.stands_for(option), called)
        meant = meant or _elsewhere(option) or others.hint(option)
        if " " in option:
            meant = "a set of options begins with its model: 'gpt2 --heads 8'"
        meant = meant or _with_part(option, called) or of_others or near
        return UsageError(f"option {option} is not known", meant)
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    said = _one_line(message)[:1].lower() + _one_line(message)[1:].rstrip(".")
    return UsageError(said, _meaning_of(option, called) if option and said.endswith("an argument") else "see --help")


def _without_value(words: Sequence[str], called: str | None) -> UsageError | None:
    """Return the error where an option has taken the next one for its value, which leaves a word over; else None."""
    options = command(called).options if called else ()
    flags = {flag: option for option in options for flag in option.flags}
    for flag, following in pairwise(words):
        if flag in flags and following in flags and not (flags[flag].switch or flags[flag].alone):
            return UsageError(f"{flag} has no value: {following} follows it", _meaning_of(flag, called))
    return None


def _meaning_of(flag: str, called: str | None) -> str:
    """The help of a command's option, which says what follows it."""
    options = command(called).options if called else ()
    return next((f"{flag}: {option.help}" for option in options if flag in option.flags), "see --help")


def _of_others(option: str) -> str:
    """Say that a flag of another program stands for this option, and of which commands it is one."""
    return f"it stands for {option}; {_elsewhere(option)}" if option else ""


def _with_part(flag: str, called: str | None) -> str:
    """Suggest the command's option of whose name this is one word: --prompt is of --max-prompt-length."""
    flags = (known for option in (command(called).options if called else ()) for known in option.flags)
    found = next((known for known in flags if flag.removeprefix("--") in known.split("-")[3:]), "")
    return f"did you mean {found}?" if found else ""


def _elsewhere(flag: str) -> str:
    """Name the commands that have this option, if any."""
    having = [name for name in ASKED_MOST if any(flag in option.flags for option in command(name).options)]
    more = ", …" * (len(having) > NAMED)
    return f"it is an option of {', '.join(having[:NAMED])}{more}" if having else ""


def _refuse(error: TfcalcError, asked: Sequence[str]) -> int:
    """Say what is wrong, and return the exit code."""
    if error.as_json or _wants_json(asked):
        import json

        tell(json.dumps({"code": error.code, "message": error.message, "hint": error.hint}), folded=False)
    else:
        tell(f"tfcalc: {error}", ascii_only="--ascii" in asked)
    return error.exit_code


def _wants_json(asked: Sequence[str]) -> bool:
    """Return whether JSON is asked for, as far as can be seen before the command line is understood."""
    words = [*asked, f"--format={os.environ.get('TFCALC_FORMAT')}"]
    follows = any(pair == ("--format", "json") for pair in pairwise(asked))
    switched_on = os.environ.get("TFCALC_JSON", "").lower() in ("1", "true", "yes", "on")
    return "--json" in words or "--format=json" in words or follows or switched_on


def _one_line(text: str) -> str:
    return " ".join(text.split())


def entry() -> None:
    """Run the installed ``tfcalc``: a process that is over at once.

    It neither collects garbage nor takes its modules apart at the end, which would cost a seventh of its time.
    """
    gc.disable()
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # what could not be written was told, or there is no stream
            stream.flush()
    os._exit(code)
