"""Line numbers of keys and tables in a TOML text, which the standard library's parser does not give."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfcalc.named_tuple import NamedTuple

TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[{]|[\]}]|\n",
    re.DOTALL,
)
"""A token: a string or a comment as a whole, a bracket, or the end of a line."""

QUOTES = re.compile(r"[\s\"']")


class Statement(NamedTuple):
    """A table header, or a key with its value, and its first line, counted from 1."""

    line: int
    text: str

    @property
    def is_header(self) -> bool:
        """True for a table header."""
        return self.text.startswith("[")

    @property
    def table(self) -> dict[str, object]:
        """The statement parsed by itself."""
        import tomllib

        return tomllib.loads(self.text)


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a valid TOML text; a value may have several lines."""
    depth = begin = 0
    first = line = 1
    for match in TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        line += token.count("\n")
        if token == "\n" and not depth:
            yield from _statement(text[begin : match.start()], first)
            begin, first = match.end(), line
    yield from _statement(text[begin:], first)


def _statement(text: str, line: int) -> Iterator[Statement]:
    if stripped := text.strip():
        yield Statement(line, stripped)


def lines_of_tables(text: str, path: tuple[str, ...], count: int) -> tuple[int, ...]:
    r"""Return the lines of the headers of these tables, counted from 1; 1 for each unless all ``count`` are found.

    >>> lines_of_tables('[[budget]]  # [[budget]]\nwhy = "[[budget]]"\n\n [[ "budget" ]]', ("budget",), 2)
    (1, 4)
    """
    wanted = f"[[{'.'.join(path)}]]"
    headers = (statement for statement in statements(text) if statement.text.startswith("[["))
    lines = tuple(header.line for header in headers if QUOTES.sub("", header.text.partition("#")[0]) == wanted)
    return lines if len(lines) == count else (1,) * count


def line_of_key(text: str, path: tuple[str, ...]) -> int:
    r"""Return the line of the first statement that gives the key at this path, counted from 1; 1 if none does.

    >>> line_of_key("a = '''\nb = 1'''\n[t]\n'b' = 2", ("t", "b")), line_of_key("t = {a = 1, b.c = 2}", ("t", "b"))
    (4, 1)
    """
    inside: tuple[str, ...] = ()
    for statement in statements(text):
        if statement.is_header:
            inside = _names(statement.table)
        elif inside == path[: len(inside)] and _has(statement.table, path[len(inside) :]):
            return statement.line
    return 1


def _names(header: object) -> tuple[str, ...]:
    """Return the names in a parsed header: the path of nested tables."""
    names: list[str] = []
    while isinstance(header, dict | list) and header:
        if isinstance(header, dict):
            names += header
            header = header[names[-1]]
        else:
            header = header[0]
    return tuple(names)


def _has(table: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(table, dict) or name not in table:
            return False
        table = table[name]
    return bool(path)
