"""Safe printing of text from outside (a config's names, arguments): without control characters or CI commands."""

from __future__ import annotations

import re

ELLIPSIS = "…"
QUOTED = 80
"""Largest number of characters of a value that an error repeats."""


def printable(text: str) -> str:
    r"""Escape every unprintable character as Python does; the result is one line.

    These are control characters, line breaks, changes of writing direction, and half surrogate pairs.

    >>> print(printable("wte\x1b[31m\n\u202e"))
    wte\x1b[31m\n\u202e
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def inert(text: str) -> str:
    r"""Escape commands to CI systems in a text: ``::error::`` at the start of a line, ``##[error]`` anywhere.

    GitHub, Azure Pipelines and TeamCity parse all output of a step. The first character of a command is escaped as in
    JSON, TOML and Python.

    >>> print(inert("::error::x, a::b, ##vso[x]"))
    \u003a:error::x, a::b, \u0023#vso[x]
    """
    if "::" not in text and "##" not in text:
        return text
    return re.sub(COMMAND, lambda found: r"\u0023" if found[1] is None else rf"{found[1]}\u003a", text)


COMMAND = r"(?m)^((?:[^\S\n]|\x1b\[[\d;]*m)*+):(?=:)|#(?=#\w*\[)"
"""Commands to CI systems; GitHub's may come after spaces and colours."""


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning and its end if it is longer than ``most``.

    >>> shortened("abcdefghij", 7)
    'abcd…ij'
    """
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}{ELLIPSIS}{text[len(text) - end :]}"


def escaped_length(text: str) -> int:
    """Return the text's length in ASCII-only JSON, which is an upper bound for terminals, too.

    >>> escaped_length("5 %"), escaped_length("é"), escaped_length("\N{GRINNING FACE}")
    (3, 6, 12)
    """
    return sum(12 if char > "\uffff" else 6 if char > "~" else 2 if char in '"\\' else 1 for char in text)


def bounded(text: str, most: int) -> str:
    """Shorten the text in the middle until it has at most ``most`` characters with its escapes."""
    text = shortened(text, most)
    while (length := escaped_length(text)) > most:
        text = shortened(text, min(len(text) - 1, len(text) * most // length))
    return text


def quoted(value: object, most: int = QUOTED) -> str:
    """Return a value's ``repr`` for an error, shortened if it is long.

    >>> print(quoted("a" * 100, 20), quoted([1, None]), quoted(10**5000))
    'aaaaaaaaaaaa…aaaaa' [1, None] a number of over 4300 digits
    """
    try:
        text = repr(value)
        text = " ".join(text.split()) if "\n" in text else text  # an array's has several lines
    except ValueError:  # Python prints no number of over 4,300 digits, alone or in a list
        text = f"a {'number' if isinstance(value, int) else type(value).__name__} of over 4300 digits"
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deeply"
    return shortened(text, most)
