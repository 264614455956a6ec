"""Completion in a shell: the words that an option takes, and those of the one command that is typed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from tfcalc.cli.commands import COMMANDS, OVERVIEW
from tfcalc.cli.options import Option
from tfcalc.errors import UsageError
from tfcalc.printable import quoted

OFFERED = {
    "models": "tfcalc.catalog:names",
    "gpus": "tfcalc.hardware:names",
    "formats": "tfcalc.serving.weight_formats:known_names",
    "presets": "tfcalc.plans:training_presets",
    "engines": "tfcalc.serving.engine_rules:engines",
    "targets": "tfcalc.analysis.targets:TARGETS",
    "types": "tfcalc.configs.config:model_types",
}
"""Where the words are that options offer: a function that returns them, or a table of them."""
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
SCRIPTS = ("--show-completion", "--install-completion")


def completer(option: Option) -> Callable[[str], list[str]] | None:
    """Function that completes a value of this option; None where it may be anything."""
    if not (option.known or option.offers):
        return None

    def complete(incomplete: str) -> list[str]:
        several, last = re.fullmatch(r"((?:\d+x)?)(.*)", incomplete, re.DOTALL).groups()  # type: ignore[union-attr]
        if option.offers != "gpus":
            several, last = "", incomplete
        return [several + word for word in words(option) if word.startswith(last.lower()) and ":N" not in word]

    return complete


def words(option: Option) -> Iterable[str]:
    """The words that an option takes."""
    if not option.offers:
        return option.known
    module, _, name = OFFERED[option.offers].partition(":")
    found = getattr(import_module(module), name)
    return list(found() if callable(found) else found)


def needed(words: Sequence[str]) -> str | None:
    """The one command whose options are asked for: by a shell; empty where none is, and None where any may be."""
    if "_TFCALC_COMPLETE" in os.environ:
        return _typed_command()
    return "" if words[:1] and words[0] in SCRIPTS else None


def _typed_command() -> str:
    """The command of the line that is to be completed; empty while it is typed.

    What is no command is a model: the line is then taken for one of the command that answers it.
    """
    variable = "COMP_WORDS" if "COMP_WORDS" in os.environ else "_TYPER_COMPLETE_ARGS"
    line = os.environ.get(variable, "")
    program, first, *rest = [*re.split(r"[ \t\n]+", line, maxsplit=2), "", ""][:3]
    if rest[0] or line.endswith((" ", "\n")) or int(os.environ.get("COMP_CWORD") or 1) > 1:
        if first in COMMANDS or first.startswith("-") or not first:
            return first
    elif first.startswith("-") or any(name.startswith(first) for name in COMMANDS):
        return ""
    os.environ[variable] = f"{program} {OVERVIEW} {line[len(program) :].lstrip()}"
    if "COMP_CWORD" in os.environ:
        os.environ["COMP_CWORD"] = str(int(os.environ["COMP_CWORD"]) + 1)
    return OVERVIEW


def with_shell(asked: Sequence[str]) -> list[str]:
    """The words of the program, with the shell named where a script for one is asked for.

    Raises UsageError where none is named, and none is among the parents of this process.
    """
    if not asked or asked[0] not in SCRIPTS:
        return list(asked)
    shell = asked[1] if asked[1:] else _parent()
    if shell not in SHELLS:
        fact = f"{quoted(shell)} is not a shell that is known" if shell else "no shell is among the parent processes"
        raise UsageError(fact, f"name one: tfcalc {asked[0]} bash, zsh or fish")
    os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"  # typer takes a name only then
    return [asked[0], shell, *asked[2:]]


def _parent() -> str:
    """The shell among the parents of this process; empty where there is none."""
    import shellingham  # type: ignore[import-untyped]  # by which typer finds shells

    try:
        return str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        return ""
