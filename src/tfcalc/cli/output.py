"""Output of an answer: its way to the bytes that leave the program."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from tfcalc.cli.messages import columns, say
from tfcalc.cli.options import Option
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import UsageError
from tfcalc.printable import inert, printable, quoted
from tfcalc.render import rendered
from tfcalc.report.style import PICTURES, SVG, TRANSLITERATED, Style

if TYPE_CHECKING:
    from tfcalc.report import Report
    from tfcalc.report.answer import Answered

STANDARD_OUTPUT = "-"


PAGES = (".html", ".md")
"""Ends of the files that get a page, where no format is typed."""


def show(answer: Answered, settings: Settings) -> None:
    """Write the answer in the format that was asked for, to the place that was asked for."""
    if str(settings.get("output", "")).endswith(PICTURES) or is_page(settings):
        import_module("tfcalc.cli.pages").deliver_answer(answer, settings)  # few ask for a page
        return
    deliver(_written(answer, settings), settings)


def is_page(settings: Settings) -> bool:
    """Return whether a page is asked for, by the end of the file's name: a format that is typed goes before."""
    typed = settings.given.get("format")
    return str(settings.get("output", "")).endswith(PAGES) and not (typed and typed.source == FLAG)


def deliver(text: str | bytes | Iterable[str], settings: Settings, *, commands: bool = False) -> None:
    """Write a text and a newline, or the bytes of a file, to the file that was asked for, or to the standard output.

    A long text may come in pieces. There are no commands for CI systems in it, unless it is made of ``commands``.
    """
    target = settings.get("output", STANDARD_OUTPUT)
    pieces = () if isinstance(text, bytes) else (text,) if isinstance(text, str) else text
    if not commands:
        pieces = map(inert, pieces)
    if settings.get("ascii"):
        pieces = (piece.encode("ascii", "backslashreplace").decode() for piece in pieces)
    if target == STANDARD_OUTPUT and not isinstance(text, bytes):
        for piece in chain(pieces, "\n"):
            say(piece)
        return
    write_file(target, text if isinstance(text, bytes) else chain(pieces, "\n"))


def write_file(target: str, content: bytes | Iterable[str]) -> None:
    """Write a file that is whole at every moment: the old one, until the new one is complete.

    Raises UsageError where it cannot be written, and leaves the old one as it is.
    """
    try:
        with _beside(target) as file:
            for piece in (content,) if isinstance(content, bytes) else content:
                file.write(piece if isinstance(piece, bytes) else piece.encode())
    except BrokenPipeError:
        pass  # the program at the other end of a named pipe has seen enough
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise UsageError(f"cannot write {quoted(target)}: {why}", "name a file that can be written: -o FILE") from None


@contextmanager
def _beside(target: str) -> Iterator[BinaryIO]:
    """Open a file beside the target, which takes its place at the end.

    A pipe and a device are written themselves, and so is a file in a folder that takes no other.
    """
    place = os.path.realpath(target)
    if os.path.islink(place):  # in a loop, which it is left in
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    before = os.stat(place) if os.path.exists(place) else None
    if before and not (stat.S_ISREG(before.st_mode) and os.access(os.path.dirname(place), os.W_OK)):
        with open(place, "wb") as file:
            yield file
        return
    if before and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    new = f"{place}.{os.getpid()}.new"
    try:
        with open(new, "xb") as file:
            yield file
        if before:
            os.chmod(new, stat.S_IMODE(before.st_mode))
        os.replace(new, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


BY_SUFFIX = {".json": "json", ".csv": "csv", ".markdown": "markdown", ".tex": "latex"}
"""Formats by the end of a file's name, where none is typed."""
NO_FORMAT = (".htm", ".pdf", ".jpg", ".xlsx", ".docx", ".yaml", ".yml", ".parquet")
"""Ends of names of files that no answer is."""


def _form(settings: Settings) -> str:
    """The format that is typed, or that the file's name says; else that of the settings. Raises UsageError."""
    given, target = settings.given.get("format"), str(settings.get("output", STANDARD_OUTPUT))
    suffix = os.path.splitext(target)[1].lower()
    if given and given.source == FLAG:
        return str(given.value)
    if suffix in NO_FORMAT:
        known = ", ".join(sorted({*BY_SUFFIX, *PAGES, SVG}))
        raise UsageError(f"{quoted(target)}: an answer is no {suffix[1:]}", f"end it in {known} or .txt")
    return BY_SUFFIX.get(suffix, str(settings.get("format", "table")))


def _written(answer: Answered, settings: Settings) -> str:
    form = _form(settings)
    if form == "json" and not settings.get("quiet"):
        from tfcalc.render.as_json import dump

        return dump(answer.to_dict(), ascii_only=ascii_only(settings))
    sheet = answer.sheet()
    style = style_of(settings)._replace(letters=sheet.letters)
    if settings.get("quiet"):
        from tfcalc.report.sheet import bare, for_people

        style = style._replace(script="latex") if form == "latex" else style
        alone = bare(sheet.quiet)
        lines = str(alone) if isinstance(alone, int) else for_people(alone, style)
        return "\n".join(map(printable, lines.split("\n")))
    return rendered(sheet, form, style)


def style_of(settings: Settings) -> Style:
    """Style of the answer, by the options and by where it goes."""
    to_file = _to_file(settings)
    return Style(
        script="ascii" if ascii_only(settings) else "text",
        notation=settings.get("notation", "lbhn"),
        units=settings.get("units", "iec"),
        color=_color(settings.get("color", "auto"), os.environ, terminal=not to_file and _terminal()),
        width=columns(sys.stdout, terminal=not to_file and _terminal()),
        formulas=settings.get("formulas", False),
        assumptions=settings.get("assumptions", False),
    )


def _to_file(settings: Settings) -> bool:
    return bool(settings.get("output", STANDARD_OUTPUT) != STANDARD_OUTPUT)


def ascii_only(settings: Settings) -> bool:
    """Return whether nothing but ASCII is to be written."""
    return bool(settings.get("ascii")) or not (_to_file(settings) or _shows_mathematics())


def _terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _shows_mathematics() -> bool:
    try:
        "".join(TRANSLITERATED).encode((sys.stdout.encoding if sys.stdout else None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _color(asked: str, environ: Mapping[str, str], *, terminal: bool) -> bool:
    """The flag wins; then NO_COLOR, then FORCE_COLOR, then whether anyone would see it."""
    if asked != "auto":
        return asked == "always"
    if environ.get("NO_COLOR"):
        return False
    return bool(environ.get("FORCE_COLOR")) or terminal


MOST = 10**30


def at_most(what: str, example: str) -> Option:
    """The option that limits an answer, which counts ``what``."""
    return Option(
        "max", ("--max",), f"exit code 1 if there are more {what}: {example}", number=True, most=MOST, front=True
    )


def within(answer: Report, settings: Settings) -> Report:
    """The answer, compared with --max where one is given."""
    limit = settings.get("max")
    return answer if limit is None else answer.held_to(limit)


def code(answer: Answered) -> int:
    """1 where it does not fit, or is over its limit."""
    return 0 if getattr(answer, "fits", True) else 1
