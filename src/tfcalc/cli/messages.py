"""Output of the program: the answer on the standard output, and lines beside it on the standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from tfcalc.errors import UsageError
from tfcalc.printable import inert, printable

WIDEST = 6
"""Digits of a width."""


class StandardOutput:
    """The standard output as whoever writes to it sees it: our commands, and typer, which writes the help.

    What its encoding cannot carry is written as escapes. A reader that is gone has seen enough: the rest is dropped,
    and the exit code stays that of the answer. It raises UsageError where it cannot be written for another reason.
    """

    errors = "backslashreplace"

    def __init__(self, stream: TextIO | None) -> None:
        self.stream, self.unread = stream, False
        self.encoding = (stream and stream.encoding) or "utf-8"

    def write(self, text: str) -> int:
        """Write a text, unless nobody reads it."""
        encoded = text.encode(self.encoding, self.errors).decode(self.encoding)
        self._attempt(lambda stream: stream.write(encoded))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        self._attempt(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:
        """The number that the system knows it by. Raises OSError where it has none."""
        if self.stream is None:
            raise OSError("the standard output is closed")
        return self.stream.fileno()

    def _attempt(self, operation: Callable[[TextIO], object]) -> None:
        if self.unread:
            return
        try:
            if self.stream is None:
                raise ValueError("it is closed")
            operation(self.stream)
        except BrokenPipeError:
            self.unread = True
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is closed"
            raise UsageError(
                f"cannot write the standard output: {why}", "redirect it to a file that can be written"
            ) from None


@contextmanager
def standard_output() -> Iterator[None]:
    """Within it, all that is printed passes through :class:`StandardOutput`."""
    before = sys.stdout
    guarded = StandardOutput(before)
    sys.stdout = cast("TextIO", guarded)
    try:
        yield
    finally:
        # where nobody reads, the flush at exit is to find no broken pipe either
        sys.stdout = open(os.devnull, "w") if guarded.unread else before  # noqa: SIM115  # open until the process ends


def say(text: str) -> None:
    """Write a part of the answer to the standard output, and be told at once where that cannot be."""
    sys.stdout.write(text)
    sys.stdout.flush()


def fitting(text: str, encoding: str) -> str:
    """The text, in ASCII where the encoding has no more."""
    if text == text.encode(encoding, "ignore").decode(encoding):
        return text
    from tfcalc.report.style import in_ascii

    return in_ascii(text)


def columns(stream: TextIO | None, *, terminal: bool) -> int | None:
    """COLUMNS, or the terminal's width; a pipe or a file has none, so nothing needs to be folded for it."""
    given = os.environ.get("COLUMNS", "")[:WIDEST]
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    return os.get_terminal_size(stream.fileno()).columns if terminal and stream is not None else None


def tell(line: str, *, ascii_only: bool = False, folded: bool = True) -> None:
    """Write one line to the standard error, in ASCII where it has no more or no more is wanted.

    On a terminal it is folded between words at the terminal's width; a program reads it in one line.

    Where there is none, or it cannot be written, nobody can be told of that either; the exit code says what it said.
    """
    if sys.stderr is None:
        return
    encoding = "ascii" if ascii_only else sys.stderr.encoding or "utf-8"
    line = fitting(inert(printable(line)), encoding)
    with suppress(OSError, ValueError):
        width = columns(sys.stderr, terminal=True) if folded and sys.stderr.isatty() else None
        if width and len(line) > width:
            from textwrap import wrap

            pieces = wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            line = "\n".join(pieces)
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)
