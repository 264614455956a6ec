"""Help on one screen: tasks, and of a command its common case; ``-h GROUP`` and ``-h all`` have the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from tfcalc.cli.commands import COMMANDS, GROUPS, OVERVIEW, SECTIONS, as_meant, command
from tfcalc.cli.messages import fitting, say
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.cli.options import Option

ALL = "all"
WIDEST, NARROWEST = 100, 40
"""Columns of a line: more are hard to read, and fewer have no room for two columns."""
LEFT, LEFT_OF_ALL = 24, 34
"""Columns of the options' names: on the first screen one of each, else all."""
IN_FRONT = 3
"""Examples on a command's first screen."""
SCREEN = 60
"""Lines of that screen, at 80 columns."""

ABOUT = "What a transformer costs, exactly: parameters, FLOPs, memory, time."
TASKS = (
    ("What does it need?", "tfcalc llama-3-8b"),
    ("", "tfcalc memory llama-3-8b --train --lora --seq 4k"),
    ("Does it fit?", "tfcalc memory llama-3-8b --train --gpu rtx-4090"),
    ("How long, and how much?", "tfcalc train llama-3-8b --tokens 100M --gpu h100"),
    ("", "tfcalc serve llama-3-8b --gpu h100 --concurrency 16"),
    ("Where does it come from?", "tfcalc explain attention llama-3-8b"),
    ("", "tfcalc why 6.61B llama-2-7b"),
    ("What differs?", "tfcalc compare llama-3-8b qwen3-8b"),
    ("Guard it in CI", "tfcalc init, then tfcalc budget"),
    ("In words", "tfcalc will llama 3 70b fit on two 4090s in 4 bit"),
)
"""The questions that people come with, each with commands that answer it."""
TASK = 27
"""Columns of a question."""
SIDE_BY_SIDE = TASK + max(len(line) for _, line in TASKS)
"""Columns from which on a command is beside its question."""

MODELS = (
    "MODEL is a name (tfcalc models lists them), a config.json or a folder with one, REF:PATH at a git revision,"
    " - (standard input), a Hub id, or sizes alone: --d-model 512 --layers 6."
)
CODES = """\
Exit codes:
  0   success
  1   a negative answer: it does not fit, it is over its limit,
      verification differs
  2   usage
  3   a bad model or settings file
  4   a reference that cannot be reached
  70  a bug of tfcalc
  130 interrupted
"""
VALUES = (
    "A value comes from the option, else from the variable TFCALC_<OPTION> (TFCALC_D_MODEL=768), else from tfcalc.toml"
    " (d_model = 768), or from [tool.tfcalc] in pyproject.toml, in this folder or above; else the default."
)
IN_SHORT = (
    "Exit codes: 0 success, 1 a negative answer, 2 usage, 3 a bad model or file, 4 out of reach, 70 a bug of tfcalc,"
    " 130 interrupted"
)


def answer(before: Sequence[str], after: Sequence[str]) -> int:
    """Print the help that is asked for by the words before and after ``-h``.

    Raises UsageError for a group that there is not.
    """
    called, topic = (next((word for word in words[:1] if not word.startswith("-")), "") for words in (before, after))
    called = _command_of(called)
    if not called and _command_of(topic) in COMMANDS:
        called, topic = _command_of(topic), ""
    lines = _of_command(called, topic) if called else _of_all(topic)
    say(fitting("\n".join(lines) + "\n", (sys.stdout and sys.stdout.encoding) or "utf-8"))
    return 0


def _command_of(word: str) -> str:
    """The command that a first word stands for."""
    return as_meant([word])[0] if word else ""


def _width() -> int:
    return min(max(get_terminal_size().columns, NARROWEST), WIDEST) - 1


def _of_all(topic: str) -> Iterator[str]:
    if topic not in ("", ALL):
        raise UsageError(
            f"there is no help on {quoted(topic)}", f"{nearest(topic, COMMANDS)} -h all lists all commands"
        )
    width = _width()
    yield from ("usage: tfcalc MODEL [OPTIONS]", "       tfcalc COMMAND [MODEL] [OPTIONS]", "")
    yield from (*wrap(ABOUT, width), "")
    for question, line in TASKS:
        beside = width > SIDE_BY_SIDE
        yield from [f"{question:{TASK}}{line}"] if beside else filter(None, (question, f"  {line}"))
    yield ""
    if topic == ALL:
        for title, names in SECTIONS.items():
            yield title
            for name in names:
                yield from _row(name, COMMANDS[name], 14, width)
        yield from ("", *wrap(MODELS, width), "", *CODES.splitlines(), "", *wrap(VALUES, width))
        return
    for title, names in SECTIONS.items():
        yield from _row(title, ", ".join(names), TASK, width, indent=0)
    yield from ("", *wrap(MODELS, width), "", *wrap(IN_SHORT, width))
    yield from wrap("More: tfcalc COMMAND -h; a line on each command, and settings: tfcalc -h all", width)


def _of_command(called: str, topic: str) -> Iterator[str]:
    name = called if called in COMMANDS else OVERVIEW
    asked, width = command(name), _width()
    arguments = [option for option in asked.options if option.argument]
    options = [option for option in asked.options if not option.argument]
    groups = {group: found for group in GROUPS if (found := [one for one in options if one.group == group])}
    if topic not in ("", ALL, *groups):
        raise UsageError(f"{name} has no options of {quoted(topic)}", f"-h {', '.join(groups)} or {ALL}")
    words = [f"[{one.name.upper()}]{'...' if one.several else ''}" for one in arguments]
    yield " ".join(("Usage: tfcalc", name, *words, "[OPTIONS]"))
    yield ""
    if topic in groups:
        yield from _all_of(topic, groups[topic], width)
        return
    whole = topic == ALL
    head = ["  Examples:", *(f"    {line}" for line in asked.examples[: None if whole else IN_FRONT])]
    head += ["", *wrap(COMMANDS[name], width), ""]
    for one in arguments:
        text = one.help if whole else _brief(one, width - LEFT)
        head += [*_row(one.name.upper(), text, LEFT, width, indent=0), ""]
    yield from head
    if whole:
        yield from chain.from_iterable((*_all_of(group, found, width), "") for group, found in groups.items())
        return
    counts = ", ".join(f"{group} ({len(found)})" for group, found in groups.items())
    foot = wrap(f"More: -h GROUP with all of its options, of {counts}; or -h {ALL}", width)
    in_front = {
        group: [list(_row(_short(one), _brief(one, width - LEFT), LEFT, width)) for one in found if one.front]
        for group, found in groups.items()
    }
    for group, rows in _on_the_screen(in_front, SCREEN - len(head) - len(foot) - len("\n\n\n")).items():
        yield from (GROUPS[group], *chain.from_iterable(rows))
    yield from ("", *foot)


def _on_the_screen(rows: Mapping[str, list[list[str]]], room: int) -> dict[str, list[list[str]]]:
    """The options that fit, by group: the last ones of the longest group give way."""
    shown = {group: list(found) for group, found in rows.items() if found}
    while sum(1 + sum(map(len, found)) for found in shown.values()) > room and any(
        len(one) > 1 for one in shown.values()
    ):
        del max(reversed(shown.values()), key=len)[-1]
    return shown


def _all_of(group: str, options: Iterable[Option], width: int) -> Iterator[str]:
    yield GROUPS[group]
    for option in options:
        yield from _row(f"{', '.join(option.flags)} {_value(option)}".rstrip(), _whole(option), LEFT_OF_ALL, width)


def _row(left: str, right: str, column: int, width: int, indent: int = 2) -> Iterator[str]:
    """A name and its text, in two columns; the text begins on a line of its own where the name is long."""
    left = " " * indent + left
    column = min(column, width // 2)
    room = wrap(right, max(width - column, 10), break_on_hyphens=False, break_long_words=False)
    if len(left) + 2 > column:
        yield from wrap(left, width, initial_indent="", subsequent_indent=" " * 6, break_on_hyphens=False) or [left]
    else:
        yield f"{left:{column}}{room[0] if room else ''}".rstrip()
        room = room[1:]
    yield from (" " * column + line for line in room)


def _value(option: Option) -> str:
    if option.switch:
        return ""
    if option.known:
        return "WORD"
    return "N,N|N..N" if option.spreads else "N" if option.number else "X" if option.amount else "TEXT"


def _whole(option: Option) -> str:
    """The text of an option, with its words."""
    if not option.known:
        return option.help
    fact, bracket, default = option.help.partition(" [default")
    return f"{fact}: {', '.join(option.known)}{bracket}{default}"


def _short(option: Option) -> str:
    """An option by its first name, and by the letter that it has."""
    first, *others = (flag.split("/")[0] for flag in option.flags)
    letter = [flag for flag in others if not flag.startswith("--")]
    return f"{', '.join((*letter, first))} {_value(option)}".rstrip()


def _brief(option: Option, room: int) -> str:
    """The text of an option where it fits one line; else the clauses and the words that do.

    The letter that a size has in formulas is left to the whole list.
    """
    fact, bracket, default = option.help.partition(" [default")
    symbol, colon, meaning = fact.partition(": ")
    fact, ending = meaning if option.number and colon and " " not in symbol else fact, bracket + default
    if option.known:
        return _with_words(fact, option.known, ending, room)
    clauses = [fact, *(fact.partition(sign)[0] for sign in ("; ", " (", ": "))]
    clauses = [clause for clause in clauses if clause.count("(") == clause.count(")")]
    return next((text for text in (fact + ending, *clauses) if len(text) <= room), min(clauses, key=len))


def _with_words(fact: str, known: Sequence[str], ending: str, room: int) -> str:
    """The first clause, and its words: all, or the first few."""
    words = ", ".join(known)
    for text in (f"{fact}: {words}{ending}", f"{fact}: {words}"):
        if len(text) <= room:
            return text
    clause = min((fact.partition(sign)[0] for sign in ("; ", ": ", " (")), key=len)
    if len(f"{clause}: {words}") <= room:
        return f"{clause}: {words}"
    some = [", ".join(known[:number]) for number in range(1, len(known))]
    return next((text for each in reversed(some) if len(text := f"{clause}: {each}, ...") <= room), clause)
