"""On which line of a TOML text each [[budget]] begins, which no parser of the standard library says."""

from __future__ import annotations

import re

HEADER = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''.*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|(?:^|(?<=\n))[ \t]*(?P<header>\[\[[^\[\]\n]*\]\])",
    re.DOTALL,
)
"""A string or a comment, in which there is no header; or the header of one table of many."""
QUOTES = re.compile(r"[\s\"']")


def lines(text: str, path: tuple[str, ...], count: int) -> tuple[int, ...]:
    r"""The lines of the headers of these tables, counted from 1; 1 for each where not all of ``count`` are found.

    >>> lines('[[budget]]  # [[budget]]\nwhy = "[[budget]]"\n\n [[ "budget" ]]', ("budget",), 2)
    (1, 4)
    """
    wanted = f"[[{'.'.join(path)}]]"
    found: list[int] = []
    line, place = 1, 0
    for match in HEADER.finditer(text):
        if match["header"] and QUOTES.sub("", match["header"]) == wanted:
            line += text.count("\n", place, match.start("header"))
            place = match.start("header")
            found.append(line)
    return tuple(found) if len(found) == count else (1,) * count
