"""Layouts of a model over some GPUs, all of them, as arrays: which fit, and how long a step of each takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfcalc.core.number import divisors
from tfcalc.errors import UsageError
from tfcalc.search.axes import Axes
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.step import Layouts, StepParts, StepTime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfcalc.timing.rates import Machine, Rates
    from tfcalc.timing.work import ModelWork

MOST_LAYOUTS = 5_000_000
"""Layouts that are enumerated at most."""
AT_A_TIME = 2**17
"""Layouts that are evaluated together."""
LONGEST_INTERLEAVING = 12
"""Chunks of a stage that are tried at most; more are no faster."""
LARGEST_MICRO_BATCH = 16
SHORTEST_SHARE = 2048
"""Tokens of a sequence for each GPU of context parallelism, at least."""

ALIKE = 0.02
"""Steps that are this close are equal, as far as the estimate can tell."""


def degrees(given: int | None, known: Sequence[int], most: int | None = None) -> list[int]:
    """Return the value that was given, or those that are ``known``, up to the ``most``."""
    return [given] if given is not None else [one for one in known if most is None or one <= most]


class Space(NamedTuple):
    """Space of a search: the model's work, GPUs in all, sequences of a step, and the axes that are ``fixed``."""

    work: ModelWork
    gpus: int
    sequences: int
    fixed: Axes


def enumerate_layouts(space: Space, domain: int) -> Layouts:
    """Return all layouts in which everything divides, as arrays. Raises UsageError if there are none, or too many.

    Tensor parallelism stays in a ``domain`` of fast links, unless it is fixed.
    """
    columns: list[tuple[int, ...]] = []
    for row in _rows(space, domain):
        columns.append(row)
        if len(columns) > MOST_LAYOUTS:
            raise UsageError(
                f"more than {MOST_LAYOUTS:,} layouts of {space.gpus:,} GPUs", "fix an axis, as in --tp 8 --cp 1"
            )
    if not columns:
        raise UsageError(why_none(space), "see --help for the axes, and fix fewer of them")
    table = np.array(columns, dtype=np.float64).T
    tp, pp, vpp, cp, ep, etp, dp, micro, zero, again = table
    return Layouts(tp, pp, vpp, cp, ep, etp, dp, micro, space.sequences / (dp * micro), zero, None, again)


def _rows(space: Space, domain: int) -> Iterator[tuple[int, ...]]:
    work, fixed = space.work, space.fixed
    heads = max((round(layer.scores / work.length**2) for layer in work.layers), default=1)
    experts = max((layer.experts.number for layer in work.layers if layer.experts), default=1)
    for tp in degrees(fixed.tp, divisors(space.gpus), domain):
        if space.gpus % tp or (heads and heads % tp):
            continue
        for pp in degrees(fixed.pp, divisors(space.gpus // tp), work.depth):
            if (space.gpus // tp) % pp or pp > work.depth:
                continue
            for cp in degrees(fixed.cp, divisors(space.gpus // (tp * pp)), max(1, work.length // SHORTEST_SHARE)):
                if (space.gpus // (tp * pp)) % cp or work.length % cp:
                    continue
                dp = space.gpus // (tp * pp * cp)
                if space.sequences % dp:
                    continue
                yield from _inside(space, (tp, pp, cp, dp), experts)


def _inside(space: Space, outer: tuple[int, int, int, int], experts: int) -> Iterator[tuple[int, ...]]:
    """Interleaving, experts, micro-batch, ZeRO and checkpointing, where the rest is chosen."""
    (tp, pp, cp, dp), work, fixed = outer, space.work, space.fixed
    even = pp > 1 and work.depth % pp == 0
    chunks = divisors(work.depth // pp) if even else [1]
    of_experts = [one for one in divisors(experts) if (dp * cp * tp) % one == 0]
    for vpp in degrees(fixed.vpp, chunks, LONGEST_INTERLEAVING):
        for ep in degrees(fixed.ep, of_experts):
            etp = fixed.etp or 1
            if experts % ep or (dp * cp * tp) % (ep * etp):
                continue
            for micro in degrees(fixed.micro_batch, divisors(space.sequences // dp), LARGEST_MICRO_BATCH):
                if (space.sequences // dp) % micro:
                    continue
                for zero in degrees(fixed.zero, (1,) if pp > 1 else (1, 3)):
                    for again in degrees(fixed.again, (0, 1)):
                        yield tp, pp, vpp, cp, ep, etp, dp, micro, zero, again


def why_none(space: Space) -> str:
    """Say what does not divide, where nothing does."""
    work, fixed = space.work, space.fixed
    for flag, degree in (("--tp", fixed.tp), ("--pp", fixed.pp), ("--cp", fixed.cp)):
        if degree is not None and space.gpus % degree:
            near = [one for one in divisors(space.gpus) if one <= degree][-1]
            return f"{space.gpus:,} GPUs are not divisible by {flag} {degree}; nearest: {near}"
    alike = (fixed.tp or 1) * (fixed.pp or 1) * (fixed.cp or 1)
    if space.gpus % alike:
        return f"{space.gpus:,} GPUs are no multiple of tp x pp x cp = {alike:,}"
    copies = space.gpus // alike
    if None not in (fixed.tp, fixed.pp, fixed.cp) and space.sequences % copies:
        near = max(copies, round(space.sequences / copies) * copies)
        return f"a batch of {space.sequences:,} sequences is not divisible by {copies:,} copies; nearest: {near:,}"
    if fixed.pp is not None and fixed.pp > work.depth:
        return f"--pp {fixed.pp} is more than the model's {work.depth} layers"
    return f"no layout of {space.gpus:,} GPUs divides {space.sequences:,} sequences and the model's {work.depth} layers"


class EvaluatedLayouts(NamedTuple):
    """Layouts with what each takes: bytes of its fullest device, and the parts of its step."""

    layouts: Layouts
    memory: NDArray[np.float64]
    parts: StepParts

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Seconds of a step of each."""
        found: NDArray[np.float64] = np.asarray(self.parts.seconds, dtype=np.float64)
        return found

    @property
    def order(self) -> list[int]:
        """Places of the layouts, the fastest first; of equally fast ones that with less context parallelism."""
        return [int(place) for place in np.lexsort((self.layouts.cp, self.seconds.round(4)))]

    @property
    def smallest_first(self) -> list[int]:
        """Places of the layouts, those that take least memory first."""
        return [int(place) for place in np.argsort(self.memory, kind="stable")]

    def alike(self, seconds: float) -> int:
        """Return the number of layouts that are as fast as this, as far as the estimate can tell."""
        return int((self.seconds <= (1 + ALIKE) * seconds).sum())

    def within(self, room: float) -> int:
        """Return the number of layouts that take no more than this."""
        return int((self.memory <= room).sum())

    @classmethod
    def joined(cls, pieces: Sequence[EvaluatedLayouts]) -> EvaluatedLayouts:
        """Return the layouts of all pieces."""

        def together(columns: Sequence[Any]) -> Any:
            return None if columns[0] is None else np.concatenate(columns)

        layouts = Layouts(*map(together, zip(*(one.layouts for one in pieces), strict=True)))
        parts = StepParts(*map(together, zip(*(one.parts for one in pieces), strict=True)))
        return cls(layouts, np.concatenate([one.memory for one in pieces]), parts)

    def at(self, place: int) -> EvaluatedLayouts:
        """Return one of them, as numbers."""

        def pick(column: Any) -> Any:
            return column if column is None or np.ndim(column) == 0 else column[place].item()

        return EvaluatedLayouts(Layouts(*map(pick, self.layouts)), pick(self.memory), StepParts(*map(pick, self.parts)))


def evaluate(
    work: ModelWork, at: Layouts, machine: Machine, rates: Rates, precision: str, *, stack: str, room: float | None
) -> tuple[EvaluatedLayouts, int]:
    """Find memory and seconds of each layout; only of those within ``room`` bytes, if it is given, and how many not.

    Many are evaluated some at a time, so that what is made on the way takes little memory.
    """
    if np.size(at.tp) > AT_A_TIME:
        starts = range(0, len(at.tp), AT_A_TIME)
        pieces = [Layouts(*(_some(column, start) for column in at)) for start in starts]
        found = [evaluate(work, piece, machine, rates, precision, stack=stack, room=room) for piece in pieces]
        return EvaluatedLayouts.joined([one for one, _ in found]), sum(left_out for _, left_out in found)
    memory = device_memory(work, at, rates, stack).peak
    kept = np.ones(np.shape(memory), dtype=bool) if room is None else memory <= room
    full = (None if column is None else np.broadcast_to(column, np.shape(memory))[kept] for column in at)
    chosen = Layouts(*full)
    parts = StepTime(work, machine, rates, precision=precision).parts(chosen)
    parts = StepParts(*(np.broadcast_to(part, np.shape(chosen.tp)) for part in parts))
    return EvaluatedLayouts(chosen, memory[kept], parts), int((~kept).sum())


def _some(column: Any, start: int) -> Any:
    return column if column is None or np.ndim(column) == 0 else column[start : start + AT_A_TIME]


def device_memory(work: ModelWork, at: Layouts, rates: Rates, stack: str) -> DeviceMemory:
    """Return the bytes of a device, by the stack's list of what is saved."""
    eager, sharing = rates.eager_attention, rates.sequence_parallel
    return DeviceMemory(work, at, fsdp=stack == "fsdp", sequence_parallel=sharing, eager=eager)
