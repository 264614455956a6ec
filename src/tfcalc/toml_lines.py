"""Lines of keys and tables in a TOML text, which no parser of the standard library gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[{]|[\]}]|\n",
    re.DOTALL,
)
"""A string or a comment, in which nothing else is looked for; a bracket; or the end of a line."""

QUOTES = re.compile(r"[\s\"']")


class Statement(NamedTuple):
    """A header or a key with its value, from its line on, counted from 1."""

    line: int
    text: str

    @property
    def is_header(self) -> bool:
        """Return whether it begins a table."""
        return self.text.startswith("[")

    @property
    def table(self) -> dict[str, object]:
        """Value of this statement alone."""
        import tomllib

        return tomllib.loads(self.text)


def statements(text: str) -> Iterator[Statement]:
    """The statements of a text that is TOML: a value of several lines is one with its key."""
    depth = begin = 0
    first = line = 1
    for token in TOKEN.finditer(text):
        found = token[0]
        if found in "[{":
            depth += 1
        elif found in "]}":
            depth -= 1
        line += found.count("\n")
        if found == "\n" and not depth:
            yield from _statement(text[begin : token.start()], first)
            begin, first = token.end(), line
    yield from _statement(text[begin:], first)


def _statement(text: str, line: int) -> Iterator[Statement]:
    if stripped := text.strip():
        yield Statement(line, stripped)


def lines_of_tables(text: str, path: tuple[str, ...], count: int) -> tuple[int, ...]:
    r"""The lines of the headers of these tables, counted from 1; 1 for each where not all of ``count`` are found.

    >>> lines_of_tables('[[budget]]  # [[budget]]\nwhy = "[[budget]]"\n\n [[ "budget" ]]', ("budget",), 2)
    (1, 4)
    """
    wanted = f"[[{'.'.join(path)}]]"
    headers = (one for one in statements(text) if one.text.startswith("[["))
    found = tuple(one.line for one in headers if QUOTES.sub("", one.text.partition("#")[0]) == wanted)
    return found if len(found) == count else (1,) * count


def line_of_key(text: str, path: tuple[str, ...]) -> int:
    r"""The line of the first statement that gives the key at this path, counted from 1; 1 where none is found.

    >>> line_of_key("a = '''\nb = 1'''\n[t]\n'b' = 2", ("t", "b")), line_of_key("t = {a = 1, b.c = 2}", ("t", "b"))
    (4, 1)
    """
    inside: tuple[str, ...] = ()
    for one in statements(text):
        if one.is_header:
            inside = _names(one.table)
        elif inside == path[: len(inside)] and _has(one.table, path[len(inside) :]):
            return one.line
    return 1


def _names(header: object) -> tuple[str, ...]:
    """The names in a header, of which it makes a table in a table."""
    found: list[str] = []
    while isinstance(header, dict | list) and header:
        if isinstance(header, dict):
            found += header
            header = header[found[-1]]
        else:
            header = header[0]
    return tuple(found)


def _has(table: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(table, dict) or name not in table:
            return False
        table = table[name]
    return bool(path)
