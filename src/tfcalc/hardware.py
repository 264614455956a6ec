"""Accelerators: dense peaks, memory, bandwidth and links, as facts in hardware.csv, each with its source and status.

A peak with sparsity is twice the dense one, and no transformer reaches it: no such figure stands in the table. Memory
is what vendors print, and what the driver reports where it is known: "80 GB" are 79.1 GiB, and not 80·10⁹ bytes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tfcalc.errors import UsageError, nearest
from tfcalc.number_formats import MULTIPLIED
from tfcalc.printable import quoted
from tfcalc.units import parse_bytes, short_bytes

TABLE = Path(__file__).parent / "hardware.csv"
STATUS = {"V": "", "S": "from a secondary source", "U": "unverified"}
"""How sure a figure is: the vendor's, seen there or on a page that links to it; on a page that quotes it; recalled."""

CONTEXT = 2**29
"""Bytes that the driver's context and its libraries take of a process: 0.5 GiB, an assumption (usual: 0.3 to 0.6)."""

TERA, GIGA = 10**12, 10**9
MOST_GPUS = 10**6
SAME_MEMORY = 0.1
"""Amounts that differ by less may be one card's: its 192 GB are printed as 180 GB, too."""

SPARSITY = 2
ALIKE = 0.005
"""Two printed figures that differ by less are the same one, rounded."""

IDLE = (
    "nvidia",
    "amd",
    "google",
    "cloud",
    "intel",
    "geforce",
    "tesla",
    "instinct",
    "dgx",
    "hgx",
    "tensor",
    "core",
    "gpu",
)
"""Words of a name that tell no accelerator from another: makers, lines, and the machines around them."""


class Usable(NamedTuple):
    """Bytes that a process can use, and what was assumed to say so."""

    bytes: int
    notes: tuple[str, ...]


class Accelerator(NamedTuple):
    """``peaks`` are FLOP/s without sparsity, by precision; ``status`` and ``caveat`` say how far to trust them.

    ``memory`` is what the vendor prints (``80 GB``), ``memory_reported`` what the driver says (``79.1 GiB``; empty
    where it is not known; the least where several are said). ``bandwidth`` is that of its memory and ``link`` that to
    the others of its ``domain`` of so many accelerators, in bytes per second and one direction. Each
    group of figures has its own status and sources. ``capability`` is CUDA's compute capability, as NVIDIA's list of
    CUDA GPUs has it.
    """

    name: str
    peaks: dict[str, float]
    memory: str
    memory_reported: str = ""
    bandwidth: float = 0
    link: float = 0
    domain: int = 1
    status: str = "V"
    sources: str = ""
    caveat: str = ""
    memory_status: str = "V"
    memory_sources: str = ""
    memory_note: str = ""
    rates_status: str = "V"
    rates_sources: str = ""
    capability: str = ""

    def usable(self, context: int = CONTEXT) -> Usable:
        """What is left to a process: as the driver reports, or else as the vendor's unit says, less the ``context``.

        Where nothing is known to be reported, nothing is deducted for it: GB are then 10⁹ bytes, which in memory sold
        by powers of two is on the safe side.

        >>> named("h200")[0].usable().bytes == parse_bytes("139.72 GiB") - 2**29
        True
        """
        amount = self.memory_reported or self.memory
        said = (
            f"its driver reports {amount}"
            if self.memory_reported
            else f"{amount} in the vendor's unit (what its driver reports is unknown)"
        )
        left = parse_bytes(amount) - context
        notes = [
            f"{self.name} has {self.memory}: {said}, less {short_bytes(context)} for the driver's context (assumed)"
        ]
        if STATUS[self.memory_status]:
            notes.append(f"the memory of {self.name} is {STATUS[self.memory_status]}")
        if self.memory_note:
            notes.append(f"{self.name}: {self.memory_note}")
        return Usable(left, tuple(notes))

    def peak(self, precision: str) -> float:
        """Its dense peak. Raises UsageError with those that it has."""
        if precision not in self.peaks:
            known = f"it has {', '.join(self.peaks)}; or " if self.peaks else ""
            raise UsageError(f"no dense {precision} peak of {self.name} is known", f"{known}give --peak")
        return self.peaks[precision]

    def doubts(self) -> Iterator[str]:
        """What should be known of its peaks."""
        if STATUS[self.status]:
            yield f"the peak of {self.name} is {STATUS[self.status]}"
        if self.caveat:
            yield f"{self.name}: {self.caveat}"


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """All that are known, in the order of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(_accelerator(row) for row in csv.DictReader(file))


def _accelerator(row: dict[str, str]) -> Accelerator:
    return Accelerator(
        row["name"],
        {name: float(row[name]) * TERA for name in MULTIPLIED if row[name]},
        row["memory"],
        row["memory_reported"],
        float(row["bandwidth"]) * GIGA,
        float(row["link"]) * GIGA,
        int(row["domain"]),
        row["status"],
        row["sources"],
        row["caveat"],
        row["memory_status"],
        row["memory_sources"],
        row["memory_note"],
        row["rates_status"],
        row["rates_sources"],
        row["capability"],
    )


def parse_gpu(text: str) -> tuple[int, str]:
    """How many of which accelerator: ``8xh100``, ``8 x H100`` and ``8×h100`` are eight, ``h100`` is one.

    Raises UsageError for a number that none has.

    >>> parse_gpu("8xh100"), parse_gpu("16 x RTX 4090"), parse_gpu("4090"), parse_gpu("2*80GB")
    ((8, 'h100'), (16, 'RTX 4090'), (1, '4090'), (2, '80GB'))
    """
    counted = re.fullmatch(r"(\d{1,9})\s*[xX×*]\s*(\S.*)", text.strip(), re.ASCII)
    count, name = (int(counted[1]), counted[2]) if counted else (1, text.strip())
    if not 0 < count <= MOST_GPUS:
        raise UsageError(f"{quoted(text)} is {count} GPUs", f"write a number from 1 to {MOST_GPUS:,}: 8xh100")
    return count, name


def named(name: str, instead: str = "--peak") -> list[Accelerator]:
    """Those that a name may mean, the likeliest first: ``h100``, ``NVIDIA A100 80GB``, ``4090``, ``TPU v5p``.

    An amount of memory alone, ``24GB``, is any card that has it, of which nothing else is known. Raises UsageError with
    the nearest, where there is none, and the option that would do ``instead``.

    >>> [one.name for one in named("h100")], named("rtx_4090")[0].name, named("a100-80gb")[0].name
    (['H100-SXM', 'H100-PCIe', 'H100-NVL'], 'RTX-4090', 'A100-SXM-80')
    """
    if re.fullmatch(r"\s*[\d.,]+\s*[GMTgmt]i?[Bb]\s*", name, re.ASCII):
        return [Accelerator("a card", {}, short_memory(name))]
    known, asked = accelerators(), "".join(_words(name))
    for ends in (_beginnings, _endings):
        found = [one for one in known if re.search(r"\d", asked) and asked in ends(_words(one.name))]
        if found:
            return _of_memory(found, name)
    hint = nearest(name.upper(), list(dict.fromkeys(_kin(one.name) for one in known)))
    raise UsageError(f"accelerator {quoted(name)} is not known", f"{hint}; or give {instead}".replace("?;", "?"))


def short_memory(amount: str) -> str:
    """An amount of memory with a space before its unit: ``24gb`` is ``24 GB``. Raises UsageError where it is none.

    >>> short_memory("24gb"), short_memory("80 GiB")
    ('24 GB', '80 GiB')
    """
    parse_bytes(amount)
    number, unit = re.match(r"\s*([\d.,]+)\s*(\w+)", amount).groups()  # type: ignore[union-attr]  # it was parsed
    return f"{number} {unit[0].upper()}{'iB' if 'i' in unit.lower() else 'B'}"


def _of_memory(found: list[Accelerator], name: str) -> list[Accelerator]:
    """Those that have as much memory as the name says, first; where none has, that is an error."""
    said = re.search(r"(?<!\d)(\d+) ?gi?b", name.lower(), re.ASCII)
    if not said:
        return found
    asked, known = float(said[1]), {one.name: float(one.memory.split()[0]) for one in found}
    far = {name: abs(asked - memory) / memory for name, memory in known.items()}
    if min(far.values()) > SAME_MEMORY:
        has = ", ".join(f"{one.name} ({one.memory})" for one in found)
        raise UsageError(f"no accelerator {quoted(name)} is known", f"known: {has}")
    return sorted(found, key=lambda one: far[one.name])


def looks_sparse(peak: float, precision: str) -> Accelerator | None:
    """The accelerator whose peak with sparsity this is; None where it may well be a dense one.

    >>> looks_sparse(1979e12, "bf16").name, looks_sparse(1979e12, "fp8")
    ('H100-SXM', None)
    """
    known = [one for one in accelerators() if precision in one.peaks]
    if any(_alike(peak, one.peaks[precision]) for one in known):
        return None
    return next((one for one in known if _alike(peak, SPARSITY * one.peaks[precision])), None)


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= ALIKE * other


def _words(name: str) -> list[str]:
    """What tells it from others: ``NVIDIA A100-SXM4-80GB`` is ``a100``, ``sxm``."""
    words = [re.sub(r"^(sxm|pcie)\d$", r"\1", word) for word in re.split(r"[^a-z0-9]+", name.lower())]
    return [word for word in words if word not in IDLE and not re.fullmatch(r"\d*gi?b|hbm\w*", word)]


def _beginnings(words: list[str]) -> set[str]:
    return {"".join(words[:count]) for count in range(1, len(words) + 1)}


def _endings(words: list[str]) -> set[str]:
    """``4090`` of ``rtx``, ``4090``; what is shorter says too little."""
    return {end for count in range(len(words)) if len(end := "".join(words[count:])) > 3}


def _kin(name: str) -> str:
    """The name without what tells its forms apart."""
    first = name.split("-")[0]
    return first if re.search(r"\d", first) else name
