"""Accelerators: dense peaks, memory, bandwidth and links from hardware.csv, each with its source and status.

Peaks with sparsity (twice the dense ones) are not in the table, as no transformer reaches them. Memory is the vendor's
figure, and the driver's if known: "80 GB" are 79.1 GiB, not 80·10⁹ bytes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tfcalc.errors import UsageError, nearest
from tfcalc.number_formats import MULTIPLIED
from tfcalc.printable import quoted
from tfcalc.units import parse_bytes, short_bytes

TABLE = Path(__file__).parent / "hardware.csv"
STATUS = {"V": "", "S": "from a secondary source", "U": "unverified"}
"""Reliability of a figure: V, seen at the vendor or on a page that links there; S, on a page that quotes it; U,
recalled."""

CONTEXT = 2**29
"""Bytes of the CUDA context and libraries of a process: 0.5 GiB, an assumption (usual: 0.3 to 0.6)."""

TERA, GIGA = 10**12, 10**9
MOST_GPUS = 10**6
SAME_MEMORY = 0.1
"""Relative difference below which two amounts of memory may be one card's: 192 GB are printed as 180 GB, too."""

SPARSITY = 2
ROUNDING = 0.005
"""Relative difference below which two printed figures are the same one, rounded."""

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
"""Words of a name that do not distinguish accelerators: makers, product lines, and machines."""


class Usable(NamedTuple):
    """Bytes that a process can use, and the assumptions made."""

    bytes: int
    notes: tuple[str, ...]


class Accelerator(NamedTuple):
    """An accelerator, with groups of figures that have a status and sources each.

    Attributes:
        peaks: FLOP/s without sparsity, by precision.
        memory: memory as the vendor prints it (``80 GB``).
        memory_reported: memory as the driver reports it (``79.1 GiB``; the least of several; empty if unknown).
        bandwidth: bytes per second of its memory.
        link: bytes per second, in one direction, to the others of its domain.
        domain: number of accelerators that are linked directly.
        capability: CUDA compute capability, from NVIDIA's list of CUDA GPUs.
        vendor: who makes it.
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
    vendor: str = ""

    def usable(self, context: int = CONTEXT) -> Usable:
        """Return the memory for a process: the driver's figure, or else the vendor's, less the ``context``.

        Without a driver's figure GB are taken as 10⁹ bytes, which is on the safe side, as memory is sold in powers of
        two.

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
        """Return its dense peak. Raises UsageError with the precisions that it has."""
        if precision not in self.peaks:
            known = f"it has {', '.join(self.peaks)}; or " if self.peaks else ""
            raise UsageError(f"no dense {precision} peak of {self.name} is known", f"{known}give --peak")
        return self.peaks[precision]

    def doubts(self) -> Iterator[str]:
        """Yield notes on the reliability of its peaks."""
        if STATUS[self.status]:
            yield f"the peak of {self.name} is {STATUS[self.status]}"
        if self.caveat:
            yield f"{self.name}: {self.caveat}"


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """Return all accelerators, in the order of the table."""
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
        row["vendor"],
    )


def parse_gpu(text: str) -> tuple[int, str]:
    """Split a count and a name: ``8xh100``, ``8 x H100`` and ``8×h100`` are eight, ``h100`` is one.

    Raises UsageError for a count out of range.

    >>> parse_gpu("8xh100"), parse_gpu("16 x RTX 4090"), parse_gpu("4090"), parse_gpu("2*80GB")
    ((8, 'h100'), (16, 'RTX 4090'), (1, '4090'), (2, '80GB'))
    """
    counted = re.fullmatch(r"(\d{1,9})\s*[xX×*]\s*(\S.*)", text.strip(), re.ASCII)
    count, name = (int(counted[1]), counted[2]) if counted else (1, text.strip())
    if not 0 < count <= MOST_GPUS:
        raise UsageError(f"{quoted(text)} is {count} GPUs", f"write a number from 1 to {MOST_GPUS:,}: 8xh100")
    return count, name


def named(name: str, instead: str = "--peak") -> list[Accelerator]:
    """Return the accelerators that a name may mean, the likeliest first: ``h100``, ``NVIDIA A100 80GB``, ``TPU v5p``.

    An amount of memory alone, ``24GB``, is an unknown card that has it. Raises UsageError with the nearest name, and
    the option to give ``instead``.

    >>> [gpu.name for gpu in named("h100")], named("rtx_4090")[0].name, named("a100-80gb")[0].name
    (['H100-SXM', 'H100-PCIe', 'H100-NVL'], 'RTX-4090', 'A100-SXM-80')
    """
    if re.fullmatch(r"\s*[\d.,]+\s*[GMTgmt]i?[Bb]\s*", name, re.ASCII):
        return [Accelerator("a card", {}, short_memory(name))]
    known = accelerators()
    of_memory = re.sub(r"[-_ ](\d+)$", r" \1GB", name)  # a100-40
    for spelling, ends in product((name, of_memory), (_beginnings, _endings)):
        asked = "".join(_words(spelling))
        matches = [gpu for gpu in known if re.search(r"\d", asked) and asked in ends(_words(gpu.name))]
        if matches:
            return _of_memory(matches, spelling)
    hint = nearest(name.upper(), list(dict.fromkeys(_base_name(gpu.name) for gpu in known)))
    raise UsageError(f"accelerator {quoted(name)} is not known", f"{hint}; or give {instead}".replace("?;", "?"))


def short_memory(amount: str) -> str:
    """Normalize an amount of memory: ``24gb`` is ``24 GB``. Raises UsageError if it is none.

    >>> short_memory("24gb"), short_memory("80 GiB")
    ('24 GB', '80 GiB')
    """
    parse_bytes(amount)
    number, unit = re.match(r"\s*([\d.,]+)\s*(\w+)", amount).groups()  # type: ignore[union-attr]  # it was parsed
    return f"{number} {unit[0].upper()}{'iB' if 'i' in unit.lower() else 'B'}"


def _of_memory(matches: list[Accelerator], name: str) -> list[Accelerator]:
    """Sort accelerators by closeness to the memory in the name. Raises UsageError if none has it."""
    amount = re.search(r"(?<!\d)(\d+) ?gi?b", name.lower(), re.ASCII)
    if not amount:
        return matches
    asked, known = float(amount[1]), {gpu.name: float(gpu.memory.split()[0]) for gpu in matches}
    distance = {name: abs(asked - memory) / memory for name, memory in known.items()}
    if min(distance.values()) > SAME_MEMORY:
        has = ", ".join(f"{gpu.name} ({gpu.memory})" for gpu in matches)
        raise UsageError(f"no accelerator {quoted(name)} is known", f"known: {has}")
    return sorted(matches, key=lambda gpu: distance[gpu.name])


def looks_sparse(peak: float, precision: str) -> Accelerator | None:
    """Return the accelerator whose peak with sparsity this is; None if it may be a dense peak.

    >>> looks_sparse(1979e12, "bf16").name, looks_sparse(1979e12, "fp8")
    ('H100-SXM', None)
    """
    known = [gpu for gpu in accelerators() if precision in gpu.peaks]
    if any(_nearly_equal(peak, gpu.peaks[precision]) for gpu in known):
        return None
    return next((gpu for gpu in known if _nearly_equal(peak, SPARSITY * gpu.peaks[precision])), None)


def _nearly_equal(figure: float, known: float) -> bool:
    return abs(figure - known) <= ROUNDING * known


def _words(name: str) -> list[str]:
    """Return the distinguishing words of a name: ``NVIDIA A100-SXM4-80GB`` is ``a100``, ``sxm``."""
    words = [re.sub(r"^(sxm|pcie)\d$", r"\1", word) for word in re.split(r"[^a-z0-9]+", name.lower())]
    return [word for word in words if word not in IDLE and not re.fullmatch(r"\d*gi?b|hbm\w*", word)]


def _beginnings(words: list[str]) -> set[str]:
    return {"".join(words[:count]) for count in range(1, len(words) + 1)}


def _endings(words: list[str]) -> set[str]:
    """Return the ends of a name that are long enough to be unambiguous: ``4090`` of ``rtx``, ``4090``."""
    return {end for count in range(len(words)) if len(end := "".join(words[count:])) > 3}


def _base_name(name: str) -> str:
    """Return the name without its variant: ``H100`` of ``H100-SXM``."""
    first = name.split("-")[0]
    return first if re.search(r"\d", first) else name
