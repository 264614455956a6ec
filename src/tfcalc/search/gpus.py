"""Memory of GPUs: how much they leave to a process, whether a model fits, and on which of those that people have.

States of a verdict, whose rule for a training step on a GPU is one for all questions (:class:`CardRule`):

=========  ==============================================================================================
``fits``   with the margin to spare, whatever PyTorch's cache takes
``tight``  it fits, with less to spare, or as the allocator gives back what it would keep
``risky``  the peak might be too large by the error of published peaks, or fragments take too much; or it is an
           upper bound, and too large, and what is certain of it is not
``no``     it is too large even so
=========  ==============================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from tfcalc.errors import UsageError
from tfcalc.hardware import APPLE, Accelerator, accelerators, check_share, named, parse_gpu
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving
from tfcalc.training.measured import allocatable, least_allocated, most_reserved, most_simulated
from tfcalc.training.states import LARGE_SINCE, workspaces
from tfcalc.training.step_terms import bytes_in
from tfcalc.units import parse_bytes, short_bytes

if TYPE_CHECKING:
    from tfcalc.plans import Training
    from tfcalc.training.allocator import Reserved
    from tfcalc.training.peaks import Peaks
    from tfcalc.workload import Workload


FITS, TIGHT, RISKY, NO = "fits", "tight", "risky", "no"
FITTING = (FITS, TIGHT)
"""States of what fits."""
SAID = {FITS: "FITS", TIGHT: "FITS, TIGHTLY", RISKY: "MAY NOT FIT", NO: "DOES NOT FIT"}
"""States of a verdict, as people are told them."""
MARGIN = 5
"""Per cent of the budget; what leaves less is tight."""

UTILIZATION = 0.9
"""The part of a GPU's memory that an engine with a paged cache takes (vLLM's ``gpu_memory_utilization``)."""

ANY_CARD = "a card"
"""What :func:`~tfcalc.hardware.named` calls a card of which only the memory is known."""


class Capacity(NamedTuple):
    """Capacity in ``bytes``, as they were ``stated``; ``notes`` say what was assumed.

    Of GPUs they are those of one; ``gpus`` is their number, and ``card`` its name as it was typed. ``memory`` is what a
    card has without anything running on it; ``assumes`` say in short what was taken off it. ``capability`` is CUDA's
    number for what it can do, ``vendor`` who makes it; ``others`` are the cards of this name with other memory. An
    engine takes a ``share`` of it.
    """

    bytes: int
    stated: str
    notes: tuple[str, ...] = ()
    gpus: int = 1
    card: str = ""
    memory: int = 0
    assumes: tuple[str, ...] = ()
    capability: str = ""
    vendor: str = ""
    others: str = ""
    share: float | None = None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes, with the other cards of this name."""
        return (*self.notes, self.others) if self.others else self.notes

    def has(self, system: str) -> str:
        """``RTX 4090 has 23.0 GiB usable``, ``the budget is 80GB = 74.5 GiB``."""
        amount = short_bytes(self.bytes, system)
        if self.card:
            return f"{self.stated} has {amount} usable"
        also = "" if self.stated.replace(" ", "") in _spellings(amount) else f" = {amount}"
        return f"the budget is {self.stated}{also}"

    def serving(self, plan: Serving, utilization: float | None = None, engine: str = "") -> Capacity:
        """Return the part usable in serving: of a card the share that is asked for, or that of a paged cache.

        No engine takes a share of unified memory unless asked to: Metal's limit is one already.
        """
        if not self.card or (utilization is None and (plan.cache != "paged" or self.vendor == APPLE)):
            return self
        if utilization is None:
            return self.utilized(UTILIZATION, engine or "older vLLM")
        return self.utilized(utilization, engine or "vLLM")

    @property
    def of_gpu(self) -> bool:
        """Return whether PyTorch's CUDA code runs on it, by CUDA or ROCm, or nothing is known of it."""
        return self.vendor in ("", "NVIDIA", "AMD")

    @property
    def allocatable(self) -> int:
        """Number of the bytes that a training step may allocate by its count, which may be off by a few per cent."""
        return allocatable(self.bytes) if self.card else self.bytes

    def utilized(self, share: float, engine: str = "vLLM") -> Capacity:
        """Return the part of a card left to an engine that takes this share of its memory. Raises UsageError."""
        assumed = f"{100 * check_share(share):g} % of the card's memory as in {engine}"
        part = int(share * self.memory)
        notes = self.notes if part > self.bytes else tuple(note.partition(", less ")[0] for note in self.notes)
        return self._replace(bytes=min(self.bytes, part), assumes=(*self.assumes, assumed), notes=notes, share=share)


def stated(amount: str | int) -> Capacity:
    """An amount as people write it, or a number of bytes. Raises UsageError.

    >>> stated("80GB").has("iec"), stated("80GB").has("si"), stated("24 GiB").has("iec")
    ('the budget is 80GB = 74.5 GiB', 'the budget is 80GB', 'the budget is 24 GiB')
    """
    if isinstance(amount, int):
        if isinstance(amount, bool) or amount < 1:
            raise UsageError(f"a budget of {amount!r} bytes", "give more than 0")
        return Capacity(amount, f"{amount:,} bytes")
    return Capacity(parse_bytes(amount), amount.strip())


def of_card(text: str, instead: str = "--budget") -> Capacity:
    """Memory that GPUs leave to a process, each of them: ``h100``, ``8xh100``, ``24GB``.

    Raises UsageError with the option to give ``instead``, if there is one.

    >>> of_card("8xh100").stated, of_card("8xh100").gpus
    ('H100 SXM', 8)
    """
    gpus, name = parse_gpu(text)
    found, *others = named(name, instead)
    usable = found.usable()
    told = found.memory.split(" ")[0] in re.findall(r"\d+", name)  # a100-80
    unlike = [] if told else [other for other in others if other.usable().bytes != usable.bytes]
    named_so = ", ".join(f"{one.name} ({one.memory})" for one in unlike)
    more = f"assuming {found.name} ({found.memory}); others of this name: {named_so}" if unlike else ""
    return of_accelerator(found)._replace(gpus=gpus, card=name, others=more)


def of_accelerator(found: Accelerator) -> Capacity:
    """Memory that a known GPU leaves to a process."""
    usable = found.usable()
    unified = found.vendor == APPLE
    memory = usable.bytes if unified else parse_bytes(found.memory_reported or found.memory)
    return Capacity(
        usable.bytes, _called(found), usable.notes, 1, found.name, memory, (), found.capability, found.vendor
    )


def _called(card: Accelerator) -> str:
    """``RTX 4090``; of a card by its memory alone ``a 24 GB card``."""
    return (
        card.name.replace("-", " ")
        if card.name != ANY_CARD
        else f"{'an' if card.memory.startswith(('8', '11 ', '18 ')) else 'a'} {card.memory} card"
    )


def _spellings(written: str) -> tuple[str, ...]:
    """``74.5 GiB`` may be stated as ``74.5GiB``, ``80.0 GB`` as ``80GB``."""
    number, unit = written.replace(",", "").split(" ")
    return f"{number}{unit}", f"{number.rstrip('0').rstrip('.') if '.' in number else number}{unit}"


COMMON = (
    "RTX-4060",
    "RTX-3060",
    "RTX-4070",
    "T4",
    "RTX-4080",
    "RTX-5080",
    "RTX-3090",
    "RTX-4090",
    "L4",
    "RTX-5090",
    "A100-SXM-40",
    "L40S",
    "A100-SXM-80",
    "H100-SXM",
    "H200-SXM",
    "B200-HGX",
    "MI300X",
)
"""GPUs that can be rented or bought nearly everywhere, by their names in hardware.csv."""
MOST = 2
"""GPUs that are named."""
SERVING_GPUS = (2, 4, 8, 16, 24, 32, 48, 64)
"""Numbers of GPUs that are proposed: in a server as many as most heads divide by, then whole servers."""


@cache
def common() -> tuple[Accelerator, ...]:
    """The common GPUs, those with the least usable memory first."""
    known = [gpu for gpu in accelerators() if gpu.name in COMMON]
    return tuple(sorted(known, key=lambda gpu: (int(gpu.memory.split()[0]), COMMON.index(gpu.name))))


def serving_on(need: int, plan: Serving, dtype: str) -> Iterator[Accelerator]:
    """The common GPUs that compute in ``dtype``, and on which serving by this plan fits: ``need`` bytes at the peak.

    >>> [gpu.name for gpu in serving_on(150 * 2**30, Serving(), "bf16")], list(serving_on(2**40, Serving(), "bf16"))
    (['B200-HGX', 'MI300X'], [])
    """
    return (gpu for gpu in _computing(dtype) if need <= of_accelerator(gpu).serving(plan).bytes)


def training_on(peaks: Peaks, run: Workload, plan: Training, dtype: str) -> Iterator[Accelerator]:
    """The common GPUs that compute in ``dtype``, and on which a training step fits by the rule of verdicts.

    A step that the allocator of a smaller GPU gave all that it asked for, and that gave nothing back, reserves as much
    on each larger GPU that runs the same kernels: it is not simulated again there.
    """
    without_end: list[tuple[int, Reserved]] = []  # the need and what was reserved, where nothing was given back

    def fits(gpu: Accelerator) -> bool:
        there = plan.replaced(capability=gpu.capability)
        need = peaks.peak(run, there, noting=True)

        def simulated(within: int) -> Reserved | None:
            for of_other, known in without_end:
                alike = abs(need - of_other) <= bytes_in(workspaces(LARGE_SINCE[0]))
                if alike and ROUNDED * known.reserved < within:
                    return known
            found = peaks.reserved_within(run, there, within)
            if found is not None and not found.given_back:
                without_end.append((need, found))
            return found

        return CardRule(of_accelerator(gpu)).fits(need, simulated)

    return filter(fits, _computing(dtype))


class Several(NamedTuple):
    """Equal GPUs that hold a model together."""

    gpus: int
    card: Accelerator

    @property
    def name(self) -> str:
        """``16xH100-SXM``, as ``--gpu`` takes it."""
        return f"{self.gpus}x{self.card.name}"

    @property
    def memory(self) -> str:
        """The memory of each, as it is stated."""
        return self.card.memory


SERVERS = ("H100-SXM", "H200-SXM")
"""GPUs that people serve models on that are too large for any one."""


def serving_on_several(need: Callable[[int], int | None], weights: int, plan: Serving, dtype: str) -> Iterator[Several]:
    """Yield the fewest GPUs of a kind on which serving fits: the ``need`` of one of n is in bytes; None: not by n.

    ``weights`` are bytes that all together have at least, so that fewer need not be asked about.
    """
    for gpu in common():
        if gpu.name not in SERVERS or dtype not in gpu.peaks:
            continue
        room = of_accelerator(gpu).serving(plan).bytes
        for gpus in SERVING_GPUS:
            if weights > gpus * room:
                continue
            found = need(gpus)
            if found is not None and found <= room:
                yield Several(gpus, gpu)
                break


RUNS_IN = 1.5
"""Times its peak: each step that was simulated runs in as much. Of 1,495 (presets tuned in three ways, with 512 to
16,384 tokens, and 13 of them with other optimizers, kernels and shards) the last ran in 1.44 times its peak."""
MOST_RESERVED = 1.75
"""Times its peak: none of them reserves as much without a limit (Granite 4.0 H micro with QLoRA the most, 1.58)."""
ROUNDED = 1.02
"""Times what was simulated with other workspaces: it reserves no more with these."""


Simulated = Callable[[int], "Reserved | None"]
"""What PyTorch's allocator reserves for a step on a card with so many bytes; None where it runs out of them."""


def runs_within(need: int, within: int, simulated: Simulated | None) -> bool:
    """Return whether PyTorch's allocator finds room for a step of ``need`` bytes at its peak, if it is simulated."""
    if simulated is None:
        return True
    return need <= within and (RUNS_IN * need <= within or simulated(within) is not None)


Certain = Callable[[], int]
"""Bytes that a step needs whatever code runs it, where the peak is an upper bound: of other code than it may run by."""


class Room(NamedTuple):
    """Bytes that there are, and how many of them should stay free."""

    budget: int
    margin: int = 0

    def holds(self, total: int) -> bool:
        """Return whether ``total`` bytes are within the budget."""
        return total <= self.budget

    def tight(self, total: int) -> bool:
        """Return whether ``total`` bytes are within the budget, but leave less than the margin."""
        return self.budget - self.margin < total <= self.budget

    def status(self, total: int) -> str:
        """Return the state of a verdict that rests on these bytes alone."""
        return NO if not self.holds(total) else TIGHT if self.tight(total) else FITS


class CardRule(NamedTuple):
    """Rule of the verdict on a training step on a GPU, or within an amount of memory that was stated."""

    budget: Capacity
    margin: int = MARGIN

    @property
    def room(self) -> Room:
        """Bytes that may be allocated; on a card all that PyTorch's cache might need besides should stay free."""
        usable, there = self.budget.allocatable, self.budget.bytes
        roomy_up_to = usable if usable == there else most_simulated(there)
        return Room(usable, max(usable * self.margin // 100, usable - roomy_up_to))

    def status(self, total: int, simulated: Simulated | None = None, certain: Certain | None = None) -> str:
        """Return the state of a step whose peak has ``total`` bytes, and whose allocations may be ``simulated``.

        On a card a peak is given the error of published peaks, and has to run in PyTorch's allocator: tightly, if that
        has to give back what it would keep. It is risky where it does not run, or where the peak may be too large by
        that error; it does not fit where the peak is too large even so. Of what cannot be simulated the published
        bands decide. Where the peak is an upper bound, and too large, what is ``certain`` of it decides: it may fit
        where that does.
        """
        if self.beyond(total):
            return NO if certain is None or self.beyond(certain()) else RISKY
        room = self.room
        if room.budget == self.budget.bytes:
            return room.status(total)
        if not room.holds(total):
            return RISKY
        if self._roomy(total, simulated):
            return room.status(total)
        return TIGHT if self.fits(total, simulated) else RISKY

    def beyond(self, total: int) -> bool:
        """Return whether ``total`` bytes are more than there are, on a card even if published peaks were lower."""
        on_card = self.room.budget != self.budget.bytes
        return (least_allocated(total) if on_card else total) > self.budget.bytes

    def decides_alone(self, total: int) -> bool:
        """Return whether no allocator decides on ``total`` bytes: too many for each, or few enough for all of them."""
        there, room = self.budget.bytes, self.room
        few = room.status(total) == FITS and most_reserved(int(MOST_RESERVED * total)) <= there
        return few or room.budget == there or self.beyond(total)

    def fits(self, total: int, simulated: Simulated | None = None) -> bool:
        """Return whether the state of such a step is one of those that fit, with less asked of the allocator."""
        on_card = self.room.budget != self.budget.bytes
        return self.room.holds(total) and (not on_card or runs_within(total, self.budget.bytes, simulated))

    def _roomy(self, total: int, simulated: Simulated | None) -> bool:
        """Return whether PyTorch's cache would be within the card even if it were as large as published ones."""
        there = self.budget.bytes
        if most_reserved(total) > there:
            return False
        if simulated is None or most_reserved(int(MOST_RESERVED * total)) <= there:
            return True
        found = simulated(there)  # as without a limit, if none is given back
        return found is not None and not found.given_back and most_reserved(found.reserved) <= there


def _computing(dtype: str) -> Iterator[Accelerator]:
    return (gpu for gpu in common() if dtype in gpu.peaks)


def in_words(gpus: Iterator[Accelerator | Several]) -> str:
    """``RTX-3090 or RTX-4090 (24 GB)``: the smallest, with another of its memory; ``16 H100-SXM or 8 H200-SXM``."""
    first = next(gpus, None)
    if first is None:
        return "more than one GPU"
    if isinstance(first, Several):
        return " or ".join(f"{each.gpus} {each.card.name}" for each in (first, *gpus) if isinstance(each, Several))
    alike = [first.name, *(gpu.name for gpu in takewhile(lambda gpu: gpu.memory == first.memory, gpus))][:MOST]
    return f"{' or '.join(alike)} ({first.memory})"
