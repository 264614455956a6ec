"""How much memory there is: an amount as it was stated, or what an accelerator leaves to a process."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.errors import UsageError
from tfcalc.hardware import named
from tfcalc.units import parse_bytes, short_bytes


class Budget(NamedTuple):
    """So many ``bytes``, as they were ``stated``; ``notes`` say what was assumed."""

    bytes: int
    stated: str
    notes: tuple[str, ...] = ()

    def in_words(self, system: str) -> str:
        """``80 GB = 74.51 GiB``; an amount in the units of the answer stands once."""
        written = short_bytes(self.bytes, system)
        return self.stated if self.stated.replace(" ", "") in _spellings(written) else f"{self.stated} = {written}"


def stated(amount: str | int) -> Budget:
    """An amount as people write it, or a number of bytes. Raises UsageError.

    >>> stated("80GB").in_words("iec"), stated("80GB").in_words("si"), stated("24 GiB").in_words("iec")
    ('80GB = 74.51 GiB', '80GB', '24 GiB')
    """
    if isinstance(amount, int):
        if isinstance(amount, bool) or amount < 1:
            raise UsageError(f"a budget of {amount!r} bytes", "give more than 0")
        return Budget(amount, f"{amount:,} bytes")
    return Budget(parse_bytes(amount), amount.strip())


def of_card(name: str) -> Budget:
    """What an accelerator of the table leaves to a process. Raises UsageError with the nearest name.

    >>> of_card("h100").stated
    'usable of H100-SXM (80 GB)'
    """
    found, *others = named(name, "--budget")
    usable = found.usable()
    unlike = [other for other in others if other.usable().bytes != usable.bytes]
    more = (
        (f"taken for {found.name}; others of the name: {', '.join(f'{one.name} ({one.memory})' for one in unlike)}",)
        if unlike
        else ()
    )
    return Budget(usable.bytes, f"usable of {found.name} ({found.memory})", (*usable.notes, *more))


def _spellings(written: str) -> tuple[str, ...]:
    """``74.50 GiB`` may be stated as ``74.5GiB``, ``80.00 GB`` as ``80GB``."""
    number, unit = written.replace(",", "").split(" ")
    return f"{number}{unit}", f"{number.rstrip('0').rstrip('.')}{unit}"
