"""FSDP on a tape: each unit's weights are gathered before it runs, and its gradients reduce-scattered when complete.

Let u_i be the elements of unit i, N the GPUs, and ρ the bytes ratio of the ``reduced`` format. While unit i runs these
are live, in elements of the gathered format:

    ==============  ==================================================================================
    forward         weights u_i, and their all-gather buffer, u_i, until the next unit's weights are gathered
    backward        weights u_i, the all-gather buffer of the next unit, u_{i-1}, gradients so far,
                    and the reduce-scatter buffer of the unit before, ρ·u_{i+1}
    its end         gradients u_i, their reduce-scatter buffer, ρ·u_i, and the shard that stays, u_i / N
    ==============  ==================================================================================

The root (whatever is in no unit: tables, the last norm, the head) is gathered when forward begins, and is live until
backward ends. FSDP1 gathers into the weights themselves, and frees a buffer when gradients are reduced.

Source: torch.distributed.fsdp._fully_shard: FSDPParamGroup.pre_forward, wait_for_unshard, pre_backward,
_backward_prefetch and post_backward; foreach_all_gather and foreach_reduce; of FSDP1
torch.distributed.fsdp._runtime_utils.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tfcalc.core.number import Num
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.memory_tracker import GATHER, PIECE, REDUCE, WEIGHTS, Callback, LeafNode, Storage
from tfcalc.tape.tape import Tape


class Unit(NamedTuple):
    """Weights that are gathered together: elements in each format, of their ``gradients``, and of a GPU's shard."""

    weights: tuple[tuple[Num, str], ...]
    gradients: Num
    piece: Num


class Units(NamedTuple):
    """The units by the path of their module, and the ``root``.

    Gradients are ``computed`` in one format, and ``reduced`` and stored in another. ``copies``: weights are copied out
    of their all-gather buffer (FSDP2). ``accumulates``: gradients of earlier micro-batches exist, to which those of
    this one are added. ``offloads``: each reduced gradient is copied to the host's memory (``CPUOffloadPolicy``).
    """

    inner: Mapping[str, Unit]
    root: Unit
    computed: str
    reduced: str
    copies: bool = True
    accumulates: bool = False
    offloads: bool = False


def shard(tape: Tape, units: Units) -> None:
    """Gather weights from other GPUs in these units, in all that runs on the tape from now on."""
    tape.sharded = sharded = Sharded(tape, units)
    sharded.begins()


class Sharded:
    """Gathered weights and unreduced gradients of the units during a step."""

    def __init__(self, tape: Tape, units: Units) -> None:
        self.tape = tape
        self.units = units
        self.ran: list[Unit] = []
        """Units in the order of forward."""
        self.inside = False
        self.root: list[Storage] = []
        self.weights: list[Storage] = []
        self.buffer: list[Storage] = []
        """Buffer of the last all-gather, or of the prefetched one."""
        self.reducing: list[Storage] = []
        self.reached: list[LeafNode] = []
        """Weights with a gradient: of the running unit (``reached``), and of the root."""
        self.reached_of_root: list[LeafNode] = []
        self.pieces: list[Storage] = []

    # --- forward

    def begins(self) -> None:
        """Gather the root's weights, before the first module."""
        self.root = self._gathered(self.units.root)

    @contextmanager
    def runs(self, path: str) -> Iterator[None]:
        """Run a module, which may be a unit; a module inside a unit is part of it."""
        unit = None if self.inside else self.units.inner.get(path)
        if unit is None:
            yield
            return
        place, self.inside = len(self.ran), True
        self.ran.append(unit)
        self.weights = self._gathered(unit)
        self.tape.nodes.append(Callback(lambda: self._finished(unit)))
        yield
        self.tape.nodes.append(Callback(lambda: self._again(place)))
        self._let_go(self.weights)
        self.inside = False

    def _gathered(self, unit: Unit) -> list[Storage]:
        """Gather a unit's weights. Until they are copied out of their buffer, that of the unit before is still live."""
        if not self.units.copies:
            return self._lent(unit, WEIGHTS)
        buffer, weights = self._lent(unit, GATHER), self._lent(unit, WEIGHTS)
        self._let_go(self.buffer)
        self.buffer = buffer
        return weights

    # --- backward

    def turns(self) -> None:
        """Begin backward: prefetch the last unit's weights."""
        self._let_go(self.buffer)
        self._ahead(len(self.ran) - 1)

    def _ahead(self, place: int) -> None:
        if place >= 0:
            self.buffer = self._lent(self.ran[place], GATHER if self.units.copies else WEIGHTS)

    def _again(self, place: int) -> None:
        """Begin a unit's backward with the prefetched weights, and prefetch those of the next."""
        self.reached_of_root, self.reached = self.reached, []
        if self.units.copies:
            self.weights = self._lent(self.ran[place], WEIGHTS)
            self._let_go(self.buffer)
        else:
            self.weights, self.buffer = self.buffer, []
        self._ahead(place - 1)

    def takes(self, leaf: LeafNode, gradient: Storage) -> None:
        """Take the gradient of a weight; the sum of both for one that is used twice."""
        if leaf.gradient is not None:
            gradient = self.tape.sum_of(leaf.gradient, gradient)
        leaf.gradient = gradient
        self.reached.append(leaf)

    def _finished(self, unit: Unit) -> None:
        """End a unit's backward: its gradients are complete."""
        self._reduce(unit, self.weights)
        self.reached = self.reached_of_root

    def ends(self) -> None:
        """End backward: the root's gradients are complete."""
        self._reduce(self.units.root, self.root)
        self._let_go(self.reducing)

    def _reduce(self, unit: Unit, weights: list[Storage]) -> None:
        """Reduce a unit's gradients, which are freed once they are copied into the buffer.

        FSDP1 copies them into one tensor of the computed format before it casts that.
        """
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
        if not (self.units.accumulates or self.units.offloads):
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
