"""Moments of a training step: what it allocates and frees in order, and what is live in between.

======================  ======================================================================
:class:`Noted`          allocations and frees in order, as the caching allocator sees them
:func:`repeated`        the same with those of layers that did not run: each turn of a row of
                        equal layers frees its own tensors, or those of its neighbours at the
                        same place, so the turn that ran says what the others do
:class:`Moments`        changes of the live bytes, whose amounts are closed forms: the peak, and
                        the allocations, of all sizes at which a step decides alike
:class:`Envelope`       live bytes at every local maximum, as closed forms
======================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from operator import le
from typing import cast

from tfcalc.core.number import Num
from tfcalc.core.polynomial import Monomial, Polynomial
from tfcalc.core.traced import Guarded, Traced, formula_of, int_of, value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.tape.memory_tracker import GATHER, PIECE, MemoryTracker, PeakRecorder, Storage, Turn

STEP = "step"
"""Name of the phase after backward, at whose begin only the gradients are live."""


STREAMS = {GATHER: 1, PIECE: 2}
"""Streams of FSDP's buffers: the caching allocator has pools for each stream, and shares no block between them.

Source: torch.distributed.fsdp._fully_shard, foreach_all_gather (``all_gather_copy_in_stream``) and foreach_reduce
(``reduce_scatter_stream``).
"""


Allocation = tuple[int, int, int]
"""Number of a tensor in the step, its bytes (0: it is freed), and the stream.

Of a step that holds at other sizes, the bytes are the ``place`` of an amount of its moments, counted from 1.

A plain tuple, as fields of a NamedTuple take longer to read, and a step has a hundred thousand of these.
"""


class Span(NamedTuple):
    """Events ``first`` to ``end`` (exclusive) of a turn."""

    turn: Turn
    first: int
    end: int


class Noted:
    """Allocations and frees until the optimizer's ``step``, and their turns in rows of equal layers.

    :mod:`tfcalc.tape.moments` adds the events of layers that did not run.
    """

    def __init__(self) -> None:
        self.events: list[Allocation] = []
        self.spans: list[Span] = []
        self.ended = False
        self._numbers: dict[int, int] = {}
        self._begun: dict[Turn, int] = {}

    @property
    def length(self) -> int:
        """Number of events, including those of turns that did not run."""
        return len(self.events) + sum((span.end - span.first) * (span.turn.times - 1) for span in self.spans)

    def comes_to(self, turn: Turn, *, begins: bool) -> None:
        """Note where a turn begins or ends."""
        if begins:
            self._begun[turn] = len(self.events)
        else:
            self.spans.append(Span(turn, self._begun.pop(turn), len(self.events)))

    def allocated(self, key: int, size: int, stream: int = 0) -> None:
        """Note an allocation under this key, unless it is empty."""
        if size and not self.ended:
            self._numbers[key] = number = len(self.events)
            self.events.append((number, size, stream))

    def freed(self, key: int) -> None:
        """Note the free of an allocation, if there is one under this key."""
        number = self._numbers.pop(key, None)
        if number is not None and not self.ended:
            self.events.append((number, 0, 0))


class _AllocationMixin(MemoryTracker):
    """Records allocations and frees of forward and backward, beside all else that a tracker counts."""

    __slots__ = ()
    noted: Noted

    def begin(self, phase: str) -> None:
        """Begin a phase; nothing is recorded from the optimizer's step on."""
        super().begin(phase)
        self.noted.ended = phase == STEP

    def made(self, storage: Storage) -> None:
        """Count an allocation."""
        self.noted.allocated(id(storage), storage.bytes, STREAMS.get(storage.label, 0))
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """Count a free."""
        self.noted.freed(id(storage))
        super().gone(storage)

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        self.noted.allocated(0, value_of(size))
        self.noted.freed(0)
        super().needed(size)


class AllocationRecorder(_AllocationMixin):
    """Tracks live bytes and every allocation."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        super().__init__()
        self.turns = self.noted = Noted()


class StepRecorder(_AllocationMixin, PeakRecorder):
    """Tracks the tensors live at the peak and every allocation."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        super().__init__()
        self.turns = self.noted = Noted()


NEW = tuple.__new__
"""Constructor of NamedTuples without keyword handling: a hundred thousand are made for a step."""
NOTHING: list[int] = []
FREED = -1
"""Marks a freed tensor in the lists of numbers."""


class Own(NamedTuple):
    """Identity of a turn's tensor: row, turn, pass, and its number among the tensors of these."""

    row: int
    turn: int
    backward: bool
    number: int


_Pass = tuple[int, bool]
"""Turn of a row, and whether backward runs it."""
_OwnedEvent = tuple[int, int, int, int]
"""An event of a turn: bytes and stream as in an Allocation, the index of the pass that made the tensor, and the
tensor's number in it. Of a tensor that no pass of this row made, which is freed here, the index is -1."""


class Differ(Exception):
    """A turn differs from its neighbours, so that it cannot represent others."""


def repeated(events: Sequence[Allocation], spans: Sequence[Span]) -> Sequence[Allocation] | None:
    """Return the events with those of all turns that did not run; None if these cannot be derived."""
    if all(span.turn.times == 1 for span in spans):
        return events
    spans = sorted(spans, key=lambda span: span.first)
    if any(before.end > after.first for before, after in pairwise(spans)):
        return None  # a row within a row
    try:
        return _Repeated(events, spans).events
    except Differ:
        return None


class _Repeated:
    def __init__(self, events: Sequence[Allocation], spans: Sequence[Span]) -> None:
        self.given, self.spans = events, spans
        self.standing: dict[int, tuple[int, int]] = {}
        """The turn of each row that represents others, and how many."""
        self.owners: dict[int, Own] = {}
        self.events: list[Allocation] = []
        self.made: dict[tuple[int, int, bool], list[int]] = {}
        """Event numbers of each turn's tensors (or FREED), including turns that did not run."""
        self.outside: dict[int, int] = {}
        """Event numbers of live tensors that were made outside of turns."""
        self._look()
        self._run()

    def _look(self) -> None:
        """Assign tensors to turns. Raises Differ if a turn that represents others differs from those beside it."""
        made: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
        for (row, turn, times, backward), first, end in self.spans:
            sizes = made.setdefault((row, turn, backward), [])
            for tensor, size, stream in self.given[first:end]:
                if size:
                    self.owners[tensor] = NEW(Own, (row, turn, backward, len(sizes)))
                    sizes.append((size, stream))
            if times != 1:
                self.standing[row] = turn, times
        for row, (turn, _) in self.standing.items():
            for backward in (False, True):
                below, own, above = (made.get((row, which, backward), []) for which in (turn - 1, turn, turn + 1))
                if not below == own == above:
                    raise Differ

    def _run(self) -> None:
        place = 0
        for (row, turn, times, backward), first, end in self.spans:
            self._outside(self.given[place:first])
            owned = self._owned(self.given[first:end], row)
            for further in reversed(range(times)) if backward else range(times):
                self._inside(owned, row, self._place(row, turn) - turn + further)
            place = end
        self._outside(self.given[place:])
        self._check()

    def _check(self) -> None:
        """Raise Differ unless as many tensors are left as there should be."""
        freed = {tensor for tensor, size, _ in self.given if not size}
        left = [tensor for tensor, size, _ in self.given if size and tensor not in freed]
        expected = sum(len(self._turns(self.owners[tensor])) if tensor in self.owners else 1 for tensor in left)
        live = len(self.outside) + sum(len(numbers) - numbers.count(FREED) for numbers in self.made.values())
        if live != expected:
            raise Differ

    def _place(self, row: int, turn: int) -> int:
        """Return the index of a turn among all turns, those that did not run included."""
        standing, times = self.standing.get(row, (turn, 1))
        return turn + times - 1 if turn > standing else turn

    def _turns(self, own: Own) -> range:
        """Return all turns, those that did not run included, that made such a tensor."""
        standing, times = self.standing.get(own.row, (own.turn, 1))
        first = self._place(own.row, own.turn)
        return range(first, first + (times if own.turn == standing else 1))

    def _outside(self, events: Sequence[Allocation]) -> None:
        """Append events outside of turns, or of tensors of another row."""
        for tensor, size, stream in events:
            if size:
                self.outside[tensor] = len(self.events)
                self.events.append((len(self.events), size, stream))
            elif (own := self.owners.get(tensor)) is None:
                self.events.append((self.outside.pop(tensor), 0, 0))
            else:
                for turn in self._turns(own):
                    self._free((own.row, turn, own.backward), own.number)

    def _owned(self, events: Sequence[Allocation], row: int) -> tuple[list[_OwnedEvent], list[_Pass]]:
        """Return a turn's events with the pass that made each tensor, as an index into the second list, of passes."""
        passes: dict[tuple[int, bool], int] = {}
        owned: list[_OwnedEvent] = []
        for tensor, size, stream in events:
            own = self.owners.get(tensor)
            if own is None or own.row != row:
                owned.append((size, stream, -1, tensor))
            else:
                maker = passes.setdefault((own.turn, own.backward), len(passes))
                owned.append((size, stream, maker, own.number))
        return owned, list(passes)

    def _inside(self, ran: tuple[list[_OwnedEvent], list[_Pass]], row: int, further: int) -> None:
        """Append the events of a turn, ``further`` turns up its row from where it ran."""
        owned, passes = ran
        made = [self.made.setdefault((row, turn + further, backward), []) for turn, backward in passes]
        events = self.events
        place, append = len(events), events.append  # local names, as a hundred thousand events pass through this loop
        for size, stream, maker, number in owned:
            if size:
                made[maker].append(place)
                append((place, size, stream))
            elif maker < 0:
                self._outside([(number, 0, 0)])
                place = len(events)
                continue
            else:
                numbers = made[maker]
                if number >= len(numbers) or numbers[number] == FREED:
                    raise Differ
                append((numbers[number], 0, 0))
                numbers[number] = FREED
            place += 1

    def _free(self, key: tuple[int, int, bool], number: int) -> None:
        numbers = self.made.get(key, NOTHING)
        if number >= len(numbers) or numbers[number] == FREED:
            raise Differ
        self.events.append((numbers[number], 0, 0))
        numbers[number] = FREED


class Moments:
    """Changes of the live bytes in order, and the moments at which a tracker compares them with the peak.

    A run allocates thousands of tensors of a few dozen sizes, so only these few forms are evaluated at new sizes.
    """

    def __init__(self) -> None:
        self.amounts: list[Num] = []
        self.changes: list[int] = []
        """Twice an amount's index if it is added; plus 1 if it is subtracted, where no peak can be."""
        self.ended = False
        """True once the optimizer's step has begun: nothing is recorded any more."""
        self._places: dict[object, int] = {}
        self._looked: list[bool] = []

    def place(self, amount: Num) -> int:
        """Return the index of an amount. Guarded numbers are unique objects, so their identity is the key."""
        key = (id(amount),) if type(amount) is Guarded else amount
        index = self._places.get(key)
        if index is None:
            index = self._places[key] = len(self.amounts)
            self.amounts.append(amount)
        return index

    def rises(self, place: int) -> None:
        """Add an amount, after which there may be a peak."""
        self.changes.append(place + place)

    def falls(self, place: int) -> None:
        """Subtract an amount."""
        self.changes.append(place + place + 1)

    def grows(self, amount: Num) -> None:
        """Add an amount where no tracker looks for a peak."""
        self.falls(self.place(amount * -1))

    def most(self, sizes: Mapping[str, int]) -> int:
        """Return the peak at these sizes of the letters.

        >>> moments = Moments()
        >>> for change in (moments.rises, moments.falls):
        ...     change(moments.place(5))
        >>> moments.most({})
        5
        """
        signed = [change for amount in self._at(sizes) for change in (amount, -amount)]
        if len(self._looked) != len(self.changes):
            self._looked = [change % 2 == 0 for change in self.changes]
        live = accumulate(map(signed.__getitem__, self.changes))
        return max(compress(live, self._looked), default=0)

    def allocations(self, events: Sequence[Allocation], sizes: Mapping[str, int]) -> list[Allocation]:
        """Return the events at these sizes of the letters: with bytes for places; what is empty there is left out."""
        of = [0, *self._at(sizes)]
        empty = {number for number, place, _ in events if place and not of[place]}
        return [(number, of[place], stream) for number, place, stream in events if number not in empty]

    def _at(self, sizes: Mapping[str, int]) -> Iterator[int]:
        """Yield the amounts at these sizes."""
        for amount in self.amounts:
            yield amount if isinstance(amount, int) else formula_of(amount).at(sizes)


class _Sized(MemoryTracker):
    """Counts ints, as every tracker does, and records their closed forms as moments, and each allocation by its form.

    So the peak and the allocations are known at all sizes at which the step decides alike.
    """

    __slots__ = ()
    moments: Moments
    noted: Noted
    live_as: dict[int, int]
    """Index of the amount of each live storage, by its identity."""

    def begin(self, phase: str) -> None:
        """Begin a phase; nothing is recorded from the optimizer's step on."""
        super().begin(phase)
        self.moments.ended = self.noted.ended = self.moments.ended or phase == STEP
        if not self.moments.ended:
            self.moments.rises(self.moments.place(0))

    def made(self, storage: Storage) -> None:
        """Count an allocation."""
        size, moments = storage.bytes, self.moments
        self.live_as[id(storage)] = place = moments.place(size)
        moments.changes.append(place + place)
        self.noted.allocated(id(storage), place + 1, STREAMS.get(storage.label, 0))
        if type(size) is not int:
            storage.bytes = int_of(size)
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """Count a free, and restore the closed form of its bytes: ``Storage.repeat`` allocates it anew as several."""
        super().gone(storage)
        self.noted.freed(id(storage))
        place, moments = self.live_as.pop(id(storage)), self.moments
        if not moments.ended:
            moments.changes.append(place + place + 1)
            storage.bytes = cast("int", moments.amounts[place])

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        place = self.moments.place(size)
        self.moments.rises(place)
        self.moments.falls(place)
        self.noted.allocated(0, place + 1)
        self.noted.freed(0)
        super().needed(int_of(cast("Traced", size)))

    def lent(self, size: Num) -> None:
        """Count bytes gathered from, or for, other GPUs; negative when they are freed."""
        super().lent(int_of(cast("Traced", size)))

    def multiplied(self, storage: Storage, times: int) -> None:
        """Count a storage ``times`` times, for the layers that its layer represents."""
        before = self.moments.amounts[self.live_as[id(storage)]]
        self.live_as[id(storage)] = self.moments.place(before * times)
        self.moments.grows(before * (times - 1))
        super().multiplied(storage, int_of(times))


class SizedTracker(_Sized):
    """Tracks live bytes and every allocation, at all sizes."""

    __slots__ = ("live_as", "moments", "noted")

    def __init__(self) -> None:
        super().__init__()
        self.moments, self.live_as = Moments(), {}
        self.turns = self.noted = Noted()


class SizedRecorder(_Sized, PeakRecorder):
    """Tracks the tensors live at the peak, and live bytes and every allocation at all sizes."""

    __slots__ = ("live_as", "moments", "noted")

    def __init__(self) -> None:
        super().__init__()
        self.moments, self.live_as = Moments(), {}
        self.turns = self.noted = Noted()


class Envelope(MemoryTracker):
    """Records the live bytes at every local maximum, where other trackers record the global one."""

    __slots__ = ("found", "rising")

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Polynomial, None] = {}
        self.rising = False

    def gone(self, storage: Storage) -> None:
        """Count a free."""
        self._top()
        super().gone(storage)

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        self.found[formula_of(size + self.live)] = None

    def look(self) -> None:
        """Note that what is live rises: the moment before it falls may be the peak."""
        self.rising = True

    def _top(self) -> None:
        if self.rising:
            self.found[formula_of(self.live)] = None
            self.rising = False

    @property
    def highest(self) -> list[Polynomial]:
        """Forms of which each may be the largest at some sizes, as far as their coefficients tell."""
        self._top()
        return hull(list(self.found))


class LinearForm(NamedTuple):
    """Coefficients of a closed form: the constant, and those of the other monomials in one order."""

    constant: int
    factors: tuple[int, ...]


def hull(forms: list[Polynomial]) -> list[Polynomial]:
    """Drop the forms that are below another, or below a mean of two others, at all sizes.

    In one letter the largest of lines are their upper hull, found by a walk along their constants (Andrew's monotone
    chain, doi:10.1016/0020-0190(79)90072-3). In more letters the result may have more forms than needed.

    >>> from tfcalc.core.polynomial import symbols
    >>> (l,) = symbols("l")
    >>> hull([l * 4, l + 9, l * 2 + 4, l * 3 + 4, l + 2]) == [4 * l, 3 * l + 4, l + 9]  # 2l + 4 is below 3l + 4
    True
    >>> b, l = symbols("b l")
    >>> len(hull([b * 9, l * 9, b * l])), len(hull([b * 9 + 1, l * 9 + 1, b * l + 1, l]))
    (3, 3)
    """
    powers: list[Monomial] = sorted({monomial for form in forms for monomial in form.terms if monomial}, key=repr)
    highest: dict[tuple[int, ...], int] = {}
    for form in forms:
        factors = tuple(form.terms.get(monomial, 0) for monomial in powers)
        highest[factors] = max(highest.get(factors, 0), form.terms.get((), 0))
    chain: list[LinearForm] = []
    for line in sorted(LinearForm(constant, factors) for factors, constant in highest.items()):
        while len(chain) > 1 and below_mean(chain[-1], chain[-2], line):
            chain.pop()
        chain.append(line)
    kept = [line for line in chain if not any(below(line, other) for other in chain if other is not line)]
    return [Polynomial({(): line.constant, **dict(zip(powers, line.factors, strict=True))}) for line in kept]


def below(line: LinearForm, other: LinearForm) -> bool:
    """Return whether ``line`` is nowhere above ``other``: none of its coefficients is larger."""
    return line.constant <= other.constant and all(map(le, line.factors, other.factors))


def below_mean(line: LinearForm, left: LinearForm, right: LinearForm) -> bool:
    """Return whether ``line`` is nowhere above the mean of ``left`` and ``right`` that has its constant.

    The constants are in the order left, line, right.
    """
    far, near = right.constant - line.constant, line.constant - left.constant
    if not far + near:  # all three constants are equal
        return below(line, left) or below(line, right)
    factors = zip(line.factors, left.factors, right.factors, strict=True)
    return all(own * (far + near) <= of_left * far + of_right * near for own, of_left, of_right in factors)
