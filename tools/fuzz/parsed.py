"""What holds for every parser: a value or a refusal of one bounded line, soon, and whatever it is given."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from tfcalc.errors import TfcalcError
from tools.fuzz.findings import FOUND
from tools.fuzz.limits import SECONDS
from tools.fuzz.program import WATCH, timed

T = TypeVar("T")
LONGEST = 600


def parsed(what: str, given: object, parse: Callable[[], T], *, exits: tuple[int, ...] = (2,)) -> T | None:
    """What ``parse`` returns; None where it refuses, which it may with these exit codes."""
    FOUND.checked[what] += 1
    found, seconds = timed(lambda: _parsed(what, given, parse, exits))
    FOUND.timed(what, seconds, given)
    if seconds := WATCH.slow(seconds, SECONDS, lambda: timed(lambda: _parsed(what, given, parse, exits))[1]):
        FOUND.bug("slow", f"{what} takes over {SECONDS:.0f} s", (seconds, given))
    return found


def _parsed(what: str, given: object, parse: Callable[[], T], exits: tuple[int, ...]) -> T | None:
    try:
        return parse()
    except TfcalcError as error:
        FOUND.checked[f"{what} refused"] += 1
        refusal(what, given, error, exits)
        return None
    except MemoryError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('tfcalc/')[2]}:{place.name}"
        trace = "".join(traceback.format_exception(error)[-3:])
        FOUND.bug("uncaught", f"{what}: {type(error).__name__} in {where}", (given, trace), exact=True)
        return None


def refusal(what: str, given: object, error: TfcalcError, exits: tuple[int, ...]) -> None:
    """A refusal is one line of at most 600 characters that a terminal can be given, with a promised exit code."""
    text = str(error)
    if len(text) > LONGEST:
        FOUND.bug("error-long", f"{what}: more than {LONGEST} characters", (len(text), given))
    if not text.isprintable():
        FOUND.bug("control-characters", f"{what}: an error with what a terminal obeys", (text, given))
    if not text.strip():
        FOUND.bug("error-lines", f"{what}: an error without words", given)
    if re.search(r"\bTraceback\b|<\w+ object at 0x", text):
        FOUND.bug("error-words", f"{what}: an error with Python's words", (text, given))
    if error.exit_code not in exits:
        FOUND.bug("exit-code", f"{what}: {error.exit_code}, and not one of {exits}", (text, given))


def holds(law: str, true: bool, *example: Any) -> None:
    """Count a law of a parser that was tried, and the bug where it does not hold."""
    FOUND.checked[f"law {law}"] += 1
    if not true:
        FOUND.bug(f"law {law}", "does not hold", example)
