"""FSDP on a tape: each unit's weights are gathered before it runs, and its gradients are shared out when all are there.

Let u be a unit's numbers, and N the devices. While unit i runs there are, in numbers of the format that is gathered
(and in the ``reduced`` format ρ where that is said):

    ==============  ==================================================================================
    forward         weights u_i, and the buffer that they came in, u_i, until the next unit's weights are there
    backward        weights u_i, the buffer of the unit that is next, u_{i-1}, gradients so far,
                    and the buffer that gradients of the unit before were reduced in, ρ·u_{i+1}
    its end         gradients u_i, the buffer that they are reduced in, ρ·u_i, and what stays, u_i / N
    ==============  ==================================================================================

What is in no unit (the root: tables, the last norm, the head) is gathered when forward begins, and is there until
backward has ended. FSDP1 gathers into the weights themselves, and lets go of a buffer when gradients are reduced.

Source: torch.distributed.fsdp._fully_shard: FSDPParamGroup.pre_forward, wait_for_unshard, pre_backward,
_backward_prefetch and post_backward; foreach_all_gather and foreach_reduce; of FSDP1
torch.distributed.fsdp._runtime_utils.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.number import Num
from tfcalc.tape.memory_tracker import GATHER, PIECE, REDUCE, WEIGHTS, WIDTHS, Storage
from tfcalc.tape.value import Crossing, Leaf

if TYPE_CHECKING:
    from tfcalc.tape.tape import Tape


class Unit(NamedTuple):
    """What is gathered together: so many numbers in each format; its ``gradients``, and the ``piece`` that stays."""

    weights: tuple[tuple[Num, str], ...]
    gradients: Num
    piece: Num


class Units(NamedTuple):
    """The units by the path of their module, and the ``root``.

    Gradients are made in the format ``computed``, ``reduced`` and kept in another. ``copies``: whether weights are
    copied out of the buffer that they are gathered in (FSDP2). ``accumulates``: whether there are gradients already,
    which those of a step are added to.
    """

    inner: Mapping[str, Unit]
    root: Unit
    computed: str
    reduced: str
    copies: bool = True
    accumulates: bool = False


class Sharded:
    """The weights and gradients of units on their way."""

    def __init__(self, tape: Tape, units: Units) -> None:
        self.tape = tape
        self.units = units
        self.ran: list[Unit] = []
        """In the order of forward."""
        self.inside = False
        self.root: list[Storage] = []
        self.weights: list[Storage] = []
        self.buffer: list[Storage] = []
        """What was gathered last, or is gathered ahead."""
        self.reducing: list[Storage] = []
        self.reached: list[Leaf] = []
        """Weights of the unit that runs that have a gradient, and of the root."""
        self.reached_of_root: list[Leaf] = []
        self.pieces: list[Storage] = []

    # --- forward

    def begins(self) -> None:
        """Before the first module: the root's weights."""
        self.root = self._gathered(self.units.root)

    @contextmanager
    def runs(self, path: str) -> Iterator[None]:
        """A module, which may be a unit; what is in a unit is part of it."""
        unit = None if self.inside else self.units.inner.get(path)
        if unit is None:
            yield
            return
        place, self.inside = len(self.ran), True
        self.ran.append(unit)
        self.weights = self._gathered(unit)
        self.tape.nodes.append(Crossing(lambda: self._finished(unit)))
        yield
        self.tape.nodes.append(Crossing(lambda: self._again(place)))
        self._let_go(self.weights)
        self.inside = False

    def _gathered(self, unit: Unit) -> list[Storage]:
        """A unit's weights. While they are copied out of their buffer, the buffer of the unit before is still there."""
        if not self.units.copies:
            return self._lent(unit, WEIGHTS)
        buffer, weights = self._lent(unit, GATHER), self._lent(unit, WEIGHTS)
        self._let_go(self.buffer)
        self.buffer = buffer
        return weights

    # --- backward

    def turns(self) -> None:
        """The loss is there: the last unit's weights are gathered ahead."""
        self._let_go(self.buffer)
        self._ahead(len(self.ran) - 1)

    def _ahead(self, place: int) -> None:
        if place >= 0:
            self.buffer = self._lent(self.ran[place], GATHER if self.units.copies else WEIGHTS)

    def _again(self, place: int) -> None:
        """Backward comes to a unit, whose weights were gathered ahead; those of the next are, now."""
        self.reached_of_root, self.reached = self.reached, []
        if self.units.copies:
            self.weights = self._lent(self.ran[place], WEIGHTS)
            self._let_go(self.buffer)
        else:
            self.weights, self.buffer = self.buffer, []
        self._ahead(place - 1)

    def takes(self, leaf: Leaf, gradient: Storage) -> None:
        """The gradient of a weight; of one that is used twice there is the sum of both."""
        if leaf.gradient is not None:
            gradient = self.tape.sum_of(leaf.gradient, gradient)
        leaf.gradient = gradient
        self.reached.append(leaf)

    def _finished(self, unit: Unit) -> None:
        """A unit has all its gradients."""
        self._reduce(unit, self.weights)
        self.reached = self.reached_of_root

    def ends(self) -> None:
        """The root has them, too."""
        self._reduce(self.units.root, self.root)
        self._let_go(self.reducing)

    def _reduce(self, unit: Unit, weights: list[Storage]) -> None:
        """Gradients are let go of once they are in a buffer. FSDP1's are one tensor before they are cast to another."""
        self._let_go(weights)
        self._let_go(self.reducing)
        if not self.reached:
            return
        formats = (self.units.reduced,) if self.units.copies else (self.units.computed, self.units.reduced)
        for dtype in dict.fromkeys(formats):
            buffer = [self._lend(unit.gradients, dtype, REDUCE)]
            for leaf in self.reached:
                leaf.gradient = None
            self._let_go(self.reducing)
            self.reducing = buffer
        self.reached.clear()
        piece = self.tape.new((unit.piece,), self.units.reduced, PIECE)
        if not self.units.accumulates:
            self.tape.tracker.gradient(piece)
            self.pieces.append(piece)
        if not self.units.copies:
            self._let_go(self.reducing)

    # --- buffers

    def _lent(self, unit: Unit, label: str) -> list[Storage]:
        return [self._lend(numbers, dtype, label) for numbers, dtype in unit.weights]

    def _lend(self, numbers: Num, dtype: str, label: str) -> Storage:
        self.tape.tracker.lent(numbers * WIDTHS[dtype])
        return self.tape.new((numbers,), dtype, label)

    def _let_go(self, storages: list[Storage]) -> None:
        for storage in storages:
            self.tape.tracker.lent(-1 * storage.size)
        storages.clear()
