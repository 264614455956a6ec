"""A page of the site for each command, made of what its ``-h`` is made of: text, examples, options by group, keys."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.cli.commands import COMMANDS, GROUPS, SECTIONS, command
from tfcalc.cli.options import Option
from tools.docs_reference import json_keys, option_rows

WITHOUT_KEYS = ("schema", "web")
"""Commands without an answer of their own."""
FOLDER = "commands"


def place(name: str) -> str:
    """The page of a command, in the site."""
    return f"{FOLDER}/{name}.md"


def nav() -> dict[str, list[dict[str, str]]]:
    """The pages by the sections of the help, for the site's navigation."""
    return {section: [{name: place(name)} for name in names] for section, names in SECTIONS.items()}


def page(name: str) -> str:
    """The page of a command, as Markdown."""
    return "\n".join(_lines(name)) + "\n"


def _lines(name: str) -> Iterator[str]:
    asked = command(name)
    yield from (f"# tfcalc {name}", "", COMMANDS[name], "", "```sh", *asked.examples, "```", "")
    arguments = [option for option in asked.options if option.argument]
    groups = {group: [one for one in asked.options if one.group == group and not one.argument] for group in GROUPS}
    if arguments:
        yield from ("## Arguments", "", *option_rows(arguments), "")
    for group, options in groups.items():
        front, rest = _apart(options)
        if options:
            yield from (f"## {GROUPS[group]}", "")
        if front:
            yield from (*option_rows(front), "")
        if front and rest:
            yield from (f"Further options, as `tfcalc {name} -h {group}` lists them:", "")
        if rest:
            yield from (*option_rows(rest), "")
    if name not in WITHOUT_KEYS:
        yield from ("## Keys of its JSON", "", *json_keys(name), "")
        yield from ("Keys that many answers have are in the [reference](../reference.md#keys-that-answers-share).", "")


def _apart(options: list[Option]) -> tuple[list[Option], list[Option]]:
    """Those of the first screen of help, and the others."""
    return [one for one in options if one.front], [one for one in options if not one.front]
