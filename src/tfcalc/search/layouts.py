"""Layouts of a model over some GPUs, all of them, as arrays: which fit, and how long a step of each takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.core.number import divisors
from tfcalc.errors import Unavailable, UsageError
from tfcalc.search.axes import Axes
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.numbers import Many, is_array
from tfcalc.timing.step import Layouts, StepParts, StepTime

if TYPE_CHECKING:
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
    sequence_parallel: bool = True
    attention_again: bool = False


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
    tp, pp, vpp, cp, ep, etp, dp, micro, zero, again = columns[0] if len(columns) == 1 else _columns(columns)
    found = Layouts(tp, pp, vpp, cp, ep, etp, dp, micro, space.sequences // (dp * micro), zero, None, again)
    return found._replace(sequence_parallel=space.sequence_parallel, attention_again=int(space.attention_again))


def _columns(rows: list[tuple[int, ...]]) -> Any:
    """Return an array for each axis. Raises Unavailable without numpy."""
    try:
        import numpy as np
    except ImportError:
        raise Unavailable("numpy is not installed", "pip install 'tfcalc[sweep]', or fix all axes") from None
    return np.array(rows, dtype=np.float64).T


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
    """Layouts with what each takes: bytes of its fullest device, and the parts of its step.

    They are numbers of one layout, or arrays with one for each.
    """

    layouts: Layouts
    memory: Many
    parts: StepParts

    @property
    def seconds(self) -> Many:
        """Seconds of a step of each."""
        return self.parts.seconds

    @property
    def order(self) -> list[int]:
        """Places of the layouts, the fastest first; of equally fast ones that with less context parallelism."""
        if not is_array(self.memory):
            return [0]
        import numpy as np

        return [int(place) for place in np.lexsort((self.layouts.cp, self.seconds.round(4)))]

    @property
    def smallest_first(self) -> list[int]:
        """Places of the layouts, those that take least memory first."""
        return [int(place) for place in self.memory.argsort(kind="stable")] if is_array(self.memory) else [0]

    def alike(self, seconds: float) -> int:
        """Return the number of layouts that are as fast as this, as far as the estimate can tell."""
        return _count(self.seconds <= (1 + ALIKE) * seconds)

    def within(self, room: float) -> int:
        """Return the number of layouts that take no more than this."""
        return _count(self.memory <= room)

    def at(self, place: int) -> EvaluatedLayouts:
        """Return one of them, as numbers."""

        def pick(column: Any) -> Any:
            return column[place].item() if is_array(column) else column

        def whole(column: Any) -> Any:
            return int(column[place]) if is_array(column) else column

        return EvaluatedLayouts(
            Layouts(*map(whole, self.layouts)), pick(self.memory), StepParts(*map(pick, self.parts))
        )


def _count(those: Any) -> int:
    return int(those.sum()) if is_array(those) else int(those)


def joined(pieces: Sequence[EvaluatedLayouts]) -> EvaluatedLayouts:
    """Return the layouts of all pieces."""
    import numpy as np

    def together(columns: Sequence[Any]) -> Any:
        return np.concatenate(columns) if is_array(columns[0]) else columns[0]

    layouts = Layouts(*map(together, zip(*(one.layouts for one in pieces), strict=True)))
    parts = StepParts(*map(together, zip(*(one.parts for one in pieces), strict=True)))
    return EvaluatedLayouts(layouts, np.concatenate([one.memory for one in pieces]), parts)


def evaluate(
    work: ModelWork, at: Layouts, machine: Machine, rates: Rates, precision: str, *, stack: str, room: float | None
) -> tuple[EvaluatedLayouts, int]:
    """Find memory and seconds of each layout; only of those within ``room`` bytes, if it is given, and how many not.

    Many are evaluated some at a time, so that what is made on the way takes little memory.
    """
    if not is_array(at.tp):
        alone = StepTime(work, machine, rates, precision=precision).parts(at)
        return EvaluatedLayouts(at, device_memory(work, at, rates, stack, precision).peak, alone), 0
    if len(at.tp) > AT_A_TIME:
        starts = range(0, len(at.tp), AT_A_TIME)
        pieces = [Layouts(*(_some(column, start) for column in at)) for start in starts]
        found = [evaluate(work, piece, machine, rates, precision, stack=stack, room=room) for piece in pieces]
        return joined([one for one, _ in found]), sum(left_out for _, left_out in found)
    memory: Any = device_memory(work, at, rates, stack, precision).peak
    saved = memory <= (float("inf") if room is None else room)
    columns: Sequence[Any] = at
    chosen = Layouts(*(column[saved] if is_array(column) else column for column in columns))
    parts = StepTime(work, machine, rates, precision=precision).parts(chosen)
    parts = StepParts(*(part if is_array(part) else chosen.tp * 0 + part for part in parts))
    return EvaluatedLayouts(chosen, memory[saved], parts), int((~saved).sum())


def _some(column: Any, start: int) -> Any:
    return column[start : start + AT_A_TIME] if is_array(column) else column


def device_memory(work: ModelWork, at: Layouts, rates: Rates, stack: str, precision: str) -> DeviceMemory:
    """Return the bytes of a device, by the stack's list of what is saved."""
    trains_in = precision if precision == "fp16" else "bf16"
    of_deepspeed = trains_in if stack == "deepspeed" else ""
    return DeviceMemory(work, at, fsdp=stack == "fsdp", eager=rates.eager_attention, deepspeed=of_deepspeed)
