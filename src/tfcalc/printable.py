"""Text from outside (a config's names, what was typed) as it may be printed: a terminal shows it, and obeys none."""

from __future__ import annotations

import re

ELLIPSIS = "…"
QUOTED = 80
"""Characters of a value that an error repeats."""


def printable(text: str) -> str:
    r"""The text with every character that cannot be seen written as Python writes it: one line, whatever is in it.

    That is what moves a cursor, changes a colour or the direction of writing, breaks a line, or is half a character.

    >>> print(printable("wte\x1b[31m\n\u202e"))
    wte\x1b[31m\n\u202e
    """
    return text if text.isprintable() else "".join(map(_seen, text))


def _seen(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def inert(text: str) -> str:
    r"""The text with no command to a CI system in it: ``::error::`` at the start of a line, ``##[error]`` anywhere.

    GitHub, Azure Pipelines and TeamCity read all that a step prints. The first character of a command is written as
    JSON, TOML and Python escape it.

    >>> print(inert("::error::x, a::b, ##vso[x]"))
    \u003a:error::x, a::b, \u0023#vso[x]
    """
    if "::" not in text and "##" not in text:
        return text
    return COMMAND.sub(lambda found: r"\u0023" if found[1] is None else rf"{found[1]}\u003a", text)


COMMAND = re.compile(r"^((?:[^\S\n]|\x1b\[[\d;]*m)*+):(?=:)|#(?=#\w*\[)", re.MULTILINE)
"""Spaces and colours in front of it do not hide a command of GitHub's."""


def shortened(text: str, most: int) -> str:
    """The text, or where it is longer than ``most`` its beginning and its end.

    >>> shortened("abcdefghij", 7)
    'abcd…ij'
    """
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}{ELLIPSIS}{text[len(text) - end :]}"


def escaped_length(text: str) -> int:
    """Characters that the text takes in JSON, where all but ASCII is escaped; no terminal needs more.

    >>> escaped_length("5 %"), escaped_length("é"), escaped_length("\N{GRINNING FACE}")
    (3, 6, 12)
    """
    return sum(12 if char > "\uffff" else 6 if char > "~" else 2 if char in '"\\' else 1 for char in text)


def bounded(text: str, most: int) -> str:
    """The text, cut as :func:`shortened` does until it takes at most ``most`` characters with its escapes."""
    text = shortened(text, most)
    while (length := escaped_length(text)) > most:
        text = shortened(text, min(len(text) - 1, len(text) * most // length))
    return text


def quoted(value: object, most: int = QUOTED) -> str:
    """A value as an error repeats it: as Python writes it, cut where it is long.

    >>> print(quoted("a" * 100, 20), quoted([1, None]), quoted(10**5000))
    'aaaaaaaaaaaa…aaaaa' [1, None] a number of over 4300 digits
    """
    try:
        text = repr(value)
        text = " ".join(text.split()) if "\n" in text else text  # an array takes several lines
    except ValueError:  # Python does not write out a number that is longer, alone or in a list
        text = f"a {'number' if isinstance(value, int) else type(value).__name__} of over 4300 digits"
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deeply"
    return shortened(text, most)
