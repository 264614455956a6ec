"""Accelerators: dense peaks, memory, bandwidth and links from hardware.csv, each with its source and status.

Peaks with sparsity (twice the dense ones) are not in the table, as no transformer reaches them. Memory is the vendor's
figure, and the driver's if known: "80 GB" are 79.1 GiB, not 80·10⁹ bytes. A row with several sizes of memory stands for
as many machines, each with its size in its name: Apple sells a chip with each of them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

from tfcalc.errors import UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import MULTIPLIED
from tfcalc.printable import quoted
from tfcalc.units import parse_bytes, short_bytes

TABLE = Path(__file__).parent / "hardware.csv"
STATUS = {"V": "", "S": "from a secondary source", "U": "unverified"}
"""Reliability of a figure: V, seen at the vendor or on a page that links there; S, on a page that quotes it; U,
recalled."""

CONTEXT = 2**29
"""Bytes of the CUDA context and libraries of a process: 0.5 GiB, an assumption (0.25 to 0.73 were measured)."""

APPLE = "Apple"
UNIFIED_SHARES = ((32 * 2**30, Fraction(2, 3)), (2**60, Fraction(3, 4)))
"""Share of unified memory up to this size that Metal lets a GPU take (``recommendedMaxWorkingSetSize``).

Source: logs of llama.cpp: 21,845 MiB of 32 GiB (ollama issue 434), 27,648 of 36, 49,152 of 64 and 73,728 of 96
(llama.cpp issue 3213), 147,456 of 192. macOS 26 allows more: 107.5 of 128 GiB (github.com/antirez/ds4/pull/893).
"""
MORE_UNIFIED = "macOS 26 allows about 80 %, and sudo sysctl iogpu.wired_limit_mb sets it"

TERA, GIGA = 10**12, 10**9
MOST_GPUS = 10**6
NODE = 8
"""GPUs of a server that talk to each other fast enough to share each layer."""
MOST_PRICE = 10**4
"""US dollars for a GPU and an hour, beyond which a price is a mistake."""
SAME_MEMORY = 0.1
"""Relative difference below which two amounts of memory may be one card's: 192 GB are printed as 180 GB, too."""

AMOUNT = r"\s*[\d.,]+\s*[GMTgmt]i?[Bb]\s*"
"""Amount of memory as people write it."""
OWN = rf"({AMOUNT})(?:@({AMOUNT})/\s*s\s*)?"
"""Card of one's own: its memory, and the bandwidth of that."""

SPARSITY = 2
ROUNDING = 0.005
"""Relative difference below which two printed figures are the same one, rounded."""
IN_ROUND_FIGURES = 0.0125
"""The same of a peak that people remember: 2,000 TFLOP/s of 1,979."""

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
    "apple",
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
        context: what a process's CUDA context was measured to take (``751 MiB``; empty where nobody did).
        bandwidth: bytes per second of its memory.
        link: bytes per second, in one direction, to the others of its domain.
        domain: number of accelerators that are linked directly.
        capability: CUDA compute capability, from NVIDIA's list of CUDA GPUs; ``mps`` where PyTorch computes by Metal.
        vendor: who makes it.
        own_link: the link is what somebody measured on a machine of their own, in the place of the datasheet's.
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
    context: str = ""
    rates_status: str = "V"
    rates_sources: str = ""
    capability: str = ""
    vendor: str = ""
    own_link: bool = False

    def usable(self, context: int | None = None) -> Usable:
        """Return the memory for a process: the driver's figure, or else the vendor's, less the ``context``.

        Of the context what was measured on this card, or else :data:`CONTEXT`.

        Without a driver's figure GB are taken as 10⁹ bytes, which is on the safe side, as memory is sold in powers of
        two. Of unified memory it is what Metal lets a GPU take.

        >>> named("h200")[0].usable().bytes == parse_bytes("139.72 GiB") - 2**29
        True
        >>> named("m2-max-96")[0].usable().bytes == 73728 * 2**20
        True
        """
        if self.vendor == APPLE:
            has = parse_bytes(self.memory)
            share = next(share for most, share in UNIFIED_SHARES if has <= most)
            part = f"Metal lets a GPU take {short_bytes(int(has * share))} of {self.memory} by default"
            return Usable(int(has * share), (f"{self.name}: {part} ({MORE_UNIFIED})",))
        amount = self.memory_reported or self.memory
        said = (
            f"its driver reports {amount}"
            if self.memory_reported
            else f"{amount} in the vendor's unit (what its driver reports is unknown)"
        )
        if context is None:
            context = parse_bytes(self.context) if self.context else CONTEXT
        known = "measured" if self.context else "assumed"
        left = parse_bytes(amount) - context
        notes = [
            f"{self.name} has {self.memory}: {said}, less {short_bytes(context)} for the driver's context ({known})"
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
        return tuple(_accelerator(each) for row in csv.DictReader(file) for each in _machines(row))


def _machines(row: dict[str, str]) -> Iterator[dict[str, str]]:
    """The machines of a row: one for each of its sizes of memory, as in ``36/96 GiB``."""
    sizes, unit = row["memory"].split(" ")
    if "/" not in sizes:
        yield row
    else:
        yield from ({**row, "name": f"{row['name']}-{size}", "memory": f"{size} {unit}"} for size in sizes.split("/"))


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
        row["context"],
        row["rates_status"],
        row["rates_sources"],
        row["capability"],
        row["vendor"],
    )


def names() -> list[str]:
    """Names of all accelerators, as they are typed."""
    return [card.name.lower() for card in accelerators()]


def parse_gpu(text: str) -> tuple[int, str]:
    """Split a count and a name: ``8xh100``, ``8 x H100``, ``8h100`` and ``h100x8`` are eight, ``h100`` is one.

    So is a machine, DGX or HGX, as many as it links. Raises UsageError for a count out of range.

    >>> parse_gpu("8xh100"), parse_gpu("16 x RTX 4090"), parse_gpu("4090"), parse_gpu("2*80GB")
    ((8, 'h100'), (16, 'RTX 4090'), (1, '4090'), (2, '80GB'))
    >>> parse_gpu("h100 x 8"), parse_gpu("8h100"), parse_gpu("DGX H100"), parse_gpu("2 x dgx-a100")
    ((8, 'h100'), (8, 'h100'), (8, 'H100'), (16, 'a100'))
    """
    asked = text.strip()
    if counted := re.fullmatch(r"(\d{1,9})\s*[xX×*]\s*(\S.*)", asked, re.ASCII):
        count, name = int(counted[1]), counted[2]
    else:
        count, name = _counted_otherwise(asked)
    machine = re.fullmatch(r"(?:nvidia[-_ ]+)?[dh]gx[-_ ]+(\S.*)", name, re.ASCII | re.IGNORECASE)
    if machine is not None and (cards := _meant(machine[1])):
        count, name = count * cards[0].domain, machine[1]
    if not 0 < count <= MOST_GPUS:
        raise UsageError(f"{quoted(text)} is {count} GPUs", f"write a number from 1 to {MOST_GPUS:,}: 8xh100")
    return count, name


def _counted_otherwise(text: str) -> tuple[int, str]:
    """Split a count behind a name, or before it without a sign: it is none where the whole is a name."""
    behind = re.fullmatch(r"(\S.*?)\s*[xX×*]\s*(\d{1,9})", text, re.ASCII)
    before = re.fullmatch(r"(\d{1,9})\s*([A-Za-z].*)", text, re.ASCII)
    if (behind or before) and not is_accelerator(text):
        if behind and is_accelerator(behind[1]):
            return int(behind[2]), behind[1]
        if before and is_accelerator(before[2]):
            return int(before[1]), before[2]
    return 1, text


def check_share(share: float) -> float:
    """Return the share of a GPU's memory that an engine takes, as it was asked for. Raises UsageError."""
    if not 0 < share <= 1:
        raise UsageError(f"--gpu-memory-utilization {share:g} is not from 0 to 1", "vLLM's default is 0.9")
    return share


def named(name: str, instead: str = "") -> list[Accelerator]:
    """Return the accelerators that a name may mean, the likeliest first: ``h100``, ``NVIDIA A100 80GB``, ``TPU v5p``.

    An amount of memory, ``24GB``, is an unknown card that has it; with its bandwidth it is ``24GB@576GB/s``. Raises
    UsageError with the nearest name, and the option to give ``instead``, if there is one.

    >>> [gpu.name for gpu in named("h100")], named("rtx_4090")[0].name, named("a100-80gb")[0].name
    (['H100-SXM', 'H100-PCIe', 'H100-NVL'], 'RTX-4090', 'A100-SXM-80')
    >>> named("24 gb @ 576 GB/s")[0].name, named("24GB@576GB/s")[0].bandwidth
    ('24GB@576GB/s', 576000000000)
    >>> [gpu.name for gpu in named("4060 ti")], [gpu.name for gpu in named("m3 pro")]
    (['RTX-4060-Ti-8', 'RTX-4060-Ti-16'], ['M3-Pro-18', 'M3-Pro-36'])
    """
    found = _meant(name)
    if found:
        return found
    hint = nearest(name.upper(), list(dict.fromkeys(_base_name(gpu) for gpu in accelerators())))
    other = f"; or give {instead}" if instead else ""
    raise UsageError(f"accelerator {quoted(name)} is not known", f"{hint}{other}".replace("?;", "?"))


def is_accelerator(name: str) -> bool:
    """Return whether this is the name of an accelerator, or an amount of memory.

    >>> is_accelerator("h100"), is_accelerator("rtx_4090"), is_accelerator("fc1"), is_accelerator("d_model")
    (True, True, False, False)
    """
    try:
        return bool(_meant(name))
    except UsageError:
        return False


def _meant(name: str) -> list[Accelerator]:
    """The accelerators that a name may mean, the likeliest first. Raises UsageError where none has the memory in it."""
    if own := re.fullmatch(OWN, name, re.ASCII):
        return [_own(*own.groups())]
    of_memory = re.sub(r"[-_ ](\d+)[Gg]?$", r" \1GB", name)  # a100-40, a100-80G
    for spelling, parts in product((name, of_memory), (_beginnings, _endings)):
        asked = "".join(_words(spelling))
        matches = _by_part(parts).get(asked, []) if re.search(r"\d", asked) else []
        whole = [gpu for gpu in matches if asked in _endings(gpu)]
        if matches:
            return _of_memory(sorted(whole or matches, key=_memory), spelling)
    return []


def _own(memory: str, bandwidth: str | None) -> Accelerator:
    """A card that no table has: ``24GB``, or with its bandwidth ``24GB@576GB/s``."""
    memory = short_memory(memory)
    if bandwidth is None:
        return Accelerator("a card", {}, memory)
    name = f"{memory}@{short_memory(bandwidth)}/s".replace(" ", "")
    return Accelerator(name, {}, memory, bandwidth=parse_bytes(bandwidth))


@cache
def _by_part(parts: Callable[[Accelerator], set[str]]) -> dict[str, list[Accelerator]]:
    """The accelerators by the beginnings or the endings of their names."""
    found: dict[str, list[Accelerator]] = {}
    for gpu in accelerators():
        for part in parts(gpu):
            found.setdefault(part, []).append(gpu)
    return found


def matching(word: str) -> list[Accelerator]:
    """Return the accelerators that a word may mean, in the order of the table: all of them for none.

    It is a name as :func:`named` reads it, a maker, an amount of memory, or a part of names. Raises UsageError with the
    nearest name.

    >>> [gpu.name for gpu in matching("h200")], len(matching("apple")) > 9, [gpu.name for gpu in matching("94GB")]
    (['H200-SXM'], True, ['H100-NVL'])
    """
    word = re.sub(r"^\d+ *[x×] *", "", word)
    known, asked = list(accelerators()), "".join(word.lower().split())
    if not asked or asked == "all":
        return known
    if re.fullmatch(AMOUNT, word, re.ASCII):
        memory = short_memory(word)
        found = [gpu for gpu in known if gpu.memory == memory]
        if found:
            return found
        sizes = sorted({gpu.memory for gpu in known}, key=lambda size: (float(size.split()[0]), size))
        raise UsageError(f"no accelerator with {memory} is known", f"there are: {', '.join(sizes)}")
    found = [gpu for gpu in known if gpu.vendor.lower() == asked]
    plain = re.sub(r"[^a-z0-9]", "", asked)
    found = found or [gpu for gpu in known if plain and plain in re.sub(r"[^a-z0-9]", "", gpu.name.lower())]
    if found and not re.search(r"\d", asked):
        return found
    try:
        meant = {gpu.name for gpu in named(word)}
    except UsageError:
        if found:
            return found
        raise
    numbers = set(map(float, re.findall(r"\d+", word)))
    return [gpu for gpu in known if gpu.name in meant and _memory(gpu) in numbers] or [
        gpu for gpu in known if gpu.name in meant
    ]


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
    asked = float(amount[1])
    distance = {gpu.name: abs(asked - _memory(gpu)) / _memory(gpu) for gpu in matches}
    if min(distance.values()) > SAME_MEMORY:
        has = ", ".join(f"{gpu.name} ({gpu.memory})" for gpu in matches)
        raise UsageError(f"no accelerator {quoted(name)} is known", f"known: {has}")
    return sorted(matches, key=lambda gpu: distance[gpu.name])


def _memory(gpu: Accelerator) -> float:
    """Return the number of the vendor's amount: 80 of ``80 GB``."""
    return float(gpu.memory.split()[0])


def looks_sparse(peak: float, precision: str) -> Accelerator | None:
    """Return the accelerator whose peak with sparsity this is; None if it may be a dense peak.

    >>> looks_sparse(1979e12, "bf16").name, looks_sparse(2000e12, "bf16").name, looks_sparse(1979e12, "fp8")
    ('H100-SXM', 'H100-SXM', None)
    """
    known = [gpu for gpu in accelerators() if precision in gpu.peaks and gpu.vendor != APPLE]
    if any(_nearly_equal(peak, gpu.peaks[precision]) for gpu in known):
        return None
    sparse = (gpu for gpu in known if _nearly_equal(peak, SPARSITY * gpu.peaks[precision], IN_ROUND_FIGURES))
    return next(sparse, None)


def _nearly_equal(figure: float, known: float, within: float = ROUNDING) -> bool:
    return abs(figure - known) <= within * known


def _words(name: str) -> list[str]:
    """Return the distinguishing words of a name: ``NVIDIA A100-SXM4-80GB`` is ``a100``, ``sxm``."""
    words = [re.sub(r"^(sxm|pcie)\d$", r"\1", word) for word in re.split(r"[^a-z0-9]+", name.lower())]
    return [word for word in words if word not in IDLE and not re.fullmatch(r"\d*gi?b|hbm\w*", word)]


def _model(gpu: Accelerator) -> list[str]:
    """Return the words of a name without its memory: ``rtx``, ``4060``, ``ti`` of ``RTX-4060-Ti-16``."""
    *words, last = _words(gpu.name)
    return words if words and last == gpu.memory.split()[0] else [*words, last]


def _beginnings(gpu: Accelerator) -> set[str]:
    words = _words(gpu.name)
    return {"".join(words[:count]) for count in range(1, len(words) + 1)}


def _endings(gpu: Accelerator) -> set[str]:
    """Return the ends of a name that are long enough to be unambiguous, with its memory and without.

    ``4090`` of ``RTX-4090``; ``4060ti16`` and ``4060ti`` of ``RTX-4060-Ti-16``. The whole is one, however short.
    """
    names = (_words(gpu.name), _model(gpu))
    ends = {end for words in names for count in range(len(words)) if len(end := "".join(words[count:])) > 3}
    return ends | {"".join(words) for words in names}


def _base_name(gpu: Accelerator) -> str:
    """Return the name without its variant: ``H100`` of ``H100-SXM``, ``M3-Max`` of ``M3-Max-64``."""
    if gpu.vendor == APPLE:
        return gpu.name.rpartition("-")[0]
    first = gpu.name.split("-")[0]
    return first if re.search(r"\d", first) else gpu.name
