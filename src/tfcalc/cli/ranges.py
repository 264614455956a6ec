"""Many values of one option: ``1,2,4``, ``1..8``, ``512..4096:512``, ``1k..128k:x2``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.errors import UsageError
from tfcalc.printable import quoted

TO, STEP, TIMES = "..", ":", "x"
MOST, MOST_LISTED = 10**7, 100_000
"""Values of one option: of a range, and of a list."""
FORMS = "write 1,2,4, or 1..8, or 512..4096:512 (by a step), or 1k..128k:x2 (by a factor)"


def spread(text: str, called: str, number: Callable[[str], int]) -> Sequence[int] | int:
    """The values that a text stands for, each read by ``number``; a single one is itself.

    Raises UsageError, and what ``number`` raises.

    >>> spread("1,2,8..32:x2", "--batch", int), spread("512..2048:512", "--seq", int), spread("64", "--seq", int)
    ((1, 2, 8, 16, 32), range(512, 2049, 512), 64)
    """
    parts = text.split(",")
    if len(parts) == 1 and TO not in text:
        return number(text)
    if len(parts) > 1 and all(len(part) == 3 and part.isdigit() for part in parts[1:]) and parts[1].startswith("0"):
        raise UsageError(
            f"{called} {quoted(text)} is one number or a list", f"write {''.join(parts)}, or {', '.join(parts)}"
        )
    found: list[Sequence[int]] = [_range(part, called, number) if TO in part else (number(part),) for part in parts]
    most = MOST if len(found) == 1 else MOST_LISTED
    if sum(map(len, found)) > most:
        raise UsageError(f"{called} {quoted(text)} has {sum(map(len, found)):,} values", f"give at most {most:,}")
    values = found[0] if len(found) == 1 else tuple(value for part in found for value in part)
    if not isinstance(values, range) and len(set(values)) < len(values):
        raise UsageError(f"{called} {quoted(text)} has a value twice", "leave one of them out")
    return values


def _range(text: str, called: str, number: Callable[[str], int]) -> Sequence[int]:
    ends, colon, step = text.partition(STEP)
    first, _, last = ends.partition(TO)
    if not (first and last) or (colon and not step):
        raise UsageError(f"{called} {quoted(text)} is not a range", FORMS)
    low, high = number(first), number(last)
    if low > high:
        raise UsageError(f"{called} {quoted(text)} has no values: {first} is above {last}", f"write {last}{TO}{first}")
    if not step.startswith(TIMES):
        return range(low, high + 1, number(step) if step else 1)
    factor = step.removeprefix(TIMES)
    if not (factor.isascii() and factor.isdigit() and len(factor) < 10 and int(factor) >= 2):
        raise UsageError(f"{called} {quoted(text)}: {quoted(step)} is not a factor", "write x2 to x999999999")
    values = [low]
    while values[-1] * int(factor) <= high:
        values.append(values[-1] * int(factor))
    return tuple(values)
