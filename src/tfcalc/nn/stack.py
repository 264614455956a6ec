"""Stacks of layers, which need not be alike, and what runs one by one where it matters what is live when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import value_of
from tfcalc.errors import TooMany
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import attentions
from tfcalc.nn.module import Context, Module
from tfcalc.tape.groups import merged, named
from tfcalc.tape.tensor import FORWARD_ALONE, WITH_BACKWARD, Ends, Tensor, Trace

T = TypeVar("T")
MOST_BY_THEMSELVES = 256
"""Of those that run one by one; published models have fewer than 130 layers, and equal ones count as a few."""

MOST_IN_A_ROW = 10_000
"""Layers of a stack that runs, of which those that repeat stand for each other."""


def bounded(each: Iterable[T], what: str = "layers that differ from their neighbours") -> list[T]:
    """Return these as a list, each of which runs by itself. Raises TooMany where they are too many."""
    few = list(islice(each, MOST_BY_THEMSELVES + 1))
    if len(few) > MOST_BY_THEMSELVES:
        raise TooMany(
            f"more than {MOST_BY_THEMSELVES} {what} are too many to follow one by one",
            f"give at most {MOST_BY_THEMSELVES}",
        )
    return few


def in_a_row(count: Num) -> int:
    """Return the number of layers, equal or not. Raises TooMany where they are too many to follow one by one."""
    number = value_of(count)
    if number > MOST_IN_A_ROW:
        raise TooMany(f"{number:,} layers are too many to follow one by one", f"give at most {MOST_IN_A_ROW:,}")
    return number


def turns_to_run(trace: Trace, times: Num, what: str = "turns of the same layers") -> list[int]:
    """Return the turns to run: each where kernels run, since each keeps its own tensors; one where they are counted.

    Raises InvalidModel where there are too many.
    """
    # each turn keeps tensors of its own, but costs what the others do
    return each_turn(times if trace.emits_kernels else 1, what)


def each_turn(times: Num, what: str = "turns of the same layers") -> list[int]:
    """Return the number of each turn, or of each stream. Raises TooMany where they are too many."""
    return bounded(range(value_of(times)), what)


def bounded_kinds(count: int) -> int:
    """Return the number of kinds of layers. Raises TooMany where they are too many to count each by itself."""
    if count > MOST_BY_THEMSELVES:
        raise TooMany(
            f"more than {MOST_BY_THEMSELVES} layers that are unlike each other are too many to count one by one",
            f"give at most {MOST_BY_THEMSELVES}",
        )
    return count


class EqualLayers(NamedTuple):
    """Layers that are alike, at these ``places`` of the ``stack`` (None: everywhere); one runs for all ``copies``.

    ``depth`` is how many layers the stack has. ``again``: backward recomputes them; a ``mark`` distinguishes them from
    those that are only otherwise alike. A layer that ``stands_for`` others runs once, and what it saves counts that
    often; it may be one of several that do so together, at this ``place`` in their period (its index, and the period's
    length). In a row of layers that repeat, ``turn`` is the number of its repetition.
    """

    stack: str
    layer: Module
    copies: Num
    depth: Num
    places: tuple[int, ...] | None = None
    mark: str = ""
    again: bool = False
    under: int = 0
    stands_for: int = 1
    place: tuple[int, int] = (0, 1)
    turn: int | None = None

    @property
    def apart(self) -> bool:
        """True if they are distinguished from others even where they cost the same."""
        return self.layer.apart

    @property
    def name(self) -> str:
        """Name of the stack, with what distinguishes these layers from other groups."""
        return named(self.stack, self.places) + self.mark

    @property
    def others(self) -> list[str]:
        """The names of the layers that this one stands for beside itself: the next turns of its row, further up."""
        own, (_, period) = int(self.mark.removeprefix(".") or 0), self.place
        return [f"{self.stack}.{own + turn * period}" for turn in range(1, self.stands_for)]


class Stack(Module):
    """Layers one upon another, a module for each place, or one for all; ``count`` is how many, perhaps a symbol."""

    kind = "stack"

    layers: tuple[Module, ...]
    count: Num

    @property
    def parts(self) -> Iterator[Module]:
        """The layers, one that is at several places once."""
        return iter({id(layer): layer for layer in self.layers}.values())

    @property
    def groups(self) -> list[EqualLayers]:
        """Groups of layers that are alike, in the order of the first of each."""
        found: dict[int, list[int]] = {}
        for place, kind in enumerate(_equal(self.layers)):
            found.setdefault(kind, []).append(place)
        if len(found) == 1:
            return [EqualLayers(self.name, self.layers[0], self.count, self.count)]
        each = [(self.layers[places[0]], places) for places in found.values()]
        return [EqualLayers(self.name, layer, len(places), self.count, tuple(places)) for layer, places in each]

    def components(self) -> Iterator[Component]:
        """Yield what the layers hold, as components of the module that has the stack."""
        groups = self.groups
        yield from merged(groups, [next(group.layer.components()) for group in groups])

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Run its layers from the bottom to the top; it is no module of its own."""
        return self.run([x], ctx)

    def run(self, given: list[Tensor], ctx: Context) -> Tensor:
        """Run the layers on an input that nobody else holds any more, which is taken out of the list."""
        x = given.pop()
        ctx = ctx if ctx.code is None else ctx._replace(code=ctx.code.layers)
        for group in self.running(x, ctx):
            with x.trace.group(group):
                x = self._one(group, x, ctx)
        return x

    def running(self, x: Tensor, ctx: Context) -> list[EqualLayers]:
        """Return the layers that run, where ``x`` is the input of the first."""
        trace, every = x.trace, ctx.run.every
        if trace.every_layer:
            layers = self.layers if len(self.layers) > 1 else self.layers * in_a_row(self.count)
            groups = [
                EqualLayers(self.name, layer, 1, self.count, mark=f".{place}", again=bool(every) and place % every == 0)
                for place, layer in enumerate(layers)
            ]
            ends = WITH_BACKWARD if trace.gradients else FORWARD_ALONE
            return bounded(_at_ends(groups, ends) if trace.ends_alone else groups)
        groups = [each for group in self.groups for each in _unlike(group, every)]
        alike = trace.like_others(x) or not (ctx.run.training and trace.gradients)
        return groups if alike else [*_first(groups[0]), *groups[1:]]

    def _one(self, group: EqualLayers, x: Tensor, ctx: Context) -> Tensor:
        if group.again:  # what backward computes again is given the layer's own masks alone
            windows = {each.mask for each in attentions(group.layer)}
            ctx = ctx._replace(masks={window: mask for window, mask in ctx.masks.items() if window in windows})
        handed = dict(ctx.carried or {})  # the same when the layer runs again

        def layer(x: Tensor, *_: Tensor) -> Tensor:
            if ctx.carried is None:
                made = group.layer.forward(x, ctx)
            else:
                own = dict(handed)
                made = group.layer.forward(x, ctx._replace(carried=own))
                ctx.carried.update(own)
            x.trace.layer_ends()
            return made

        if not group.again:
            return layer(x)
        beside = list(handed.values())[-1:]
        how = {"early_stop": ctx.run.early_stop, "by_operation": ctx.run.by_operation}
        return x.trace.checkpoint(layer, x, *beside, **how)


RUNNING = 3
"""Periods of a row that run between its ends: the one that represents the rest, and one on each side.

That above frees what all the represented ones handed on.
"""


def _at_ends(groups: list[EqualLayers], ends: Ends) -> Iterator[EqualLayers]:
    """Yield the layers at the ends of each row of repeating ones, and between them one period for all others."""
    for row, period in _rows(groups, ends):
        times = (len(row) - sum(ends)) // period
        if times <= RUNNING:
            yield from row
            continue
        first, last = ends.below, ends.below + (times - 1) * period
        turns = (
            (row[:first], 1),
            (row[first : first + period], 1),
            (row[first + period : first + 2 * period], times - 2),
            (row[last : last + period], 1),
            (row[last + period :], 1),
        )
        for turn, (layers, stands_for) in enumerate(each for each in turns if each[0]):
            for at, each in enumerate(layers):
                yield each._replace(stands_for=stands_for, place=(at, len(layers)), turn=turn)


def _rows(groups: list[EqualLayers], ends: Ends) -> Iterator[tuple[list[EqualLayers], int]]:
    """Layers that repeat as a row, each with the length of its period, so that the fewest run; or a layer alone."""
    kinds, start = _kinds(groups), 0
    while start < len(groups):
        _, period, length = max(_repeated(kinds, start, ends), key=lambda found: found[0])
        yield groups[start : start + length], period
        start += length


def _repeated(kinds: list[int], start: int, ends: Ends) -> Iterator[tuple[int, int, int]]:
    """Yield how many layers each period beginning here spares, its length and that of its row, shorter ones first.

    Periods that are too long to spare more than one before them are left out.
    """
    yield 0, 1, 1
    spared, left = 0, len(kinds) - start - sum(ends)
    for period in range(1, left // (RUNNING + 1) + 1):
        if left - RUNNING * period <= spared:
            return
        end = start + period
        while end < len(kinds) and kinds[end] == kinds[end - period]:
            end += 1
        here = ((end - start - sum(ends)) // period - RUNNING) * period
        spared = max(spared, here)
        yield here, period, end - start


def _equal(layers: Sequence[Module]) -> Iterator[int]:
    """A number for each layer, the same for those that are equal; one that is at many places is compared once.

    Raises InvalidModel where too many are unlike: each of them is counted by itself.
    """
    known: dict[int, list[tuple[Module, int]]] = {}
    numbers: dict[int, int] = {}
    kinds = 0
    for layer in layers:
        if id(layer) not in numbers:
            alike = known.setdefault(layer.fingerprint, [])
            number = next((at for each, at in alike if each == layer), kinds)
            if number == kinds:
                kinds = bounded_kinds(kinds + 1)
                alike.append((layer, number))
            numbers[id(layer)] = number
        yield numbers[id(layer)]


def _kinds(groups: list[EqualLayers]) -> list[int]:
    """Return a number for each group, the same for equal ones; those that backward recomputes are another kind."""
    return [2 * kind + group.again for kind, group in zip(_equal([each.layer for each in groups]), groups, strict=True)]


def _unlike(group: EqualLayers, every: int) -> Iterator[EqualLayers]:
    """Yield the layers that backward recomputes, one in every ``every``, and the others."""
    if every < 2:
        yield group._replace(again=bool(every))
        return
    again = _first_of_each(group, every)
    yield group._replace(mark="[recomputed]", copies=again, again=True)
    yield group._replace(mark="[not recomputed]", copies=group.copies - again)


def _first_of_each(group: EqualLayers, every: int) -> Num:
    """Return how many of these layers are the first of each ``every``, counted from the bottom of their stack."""
    if group.places is not None:
        return sum(place % every == 0 for place in group.places)
    copies: Num = ceil_div(group.copies, every)
    return copies


def _first(group: EqualLayers) -> Iterator[EqualLayers]:
    """The first layer by itself, and the others: what it reads needs no gradient, or is saved anyway."""
    yield group._replace(mark="[first]", copies=1, places=None)
    yield group._replace(mark="[others]", copies=group.copies - 1, under=1)


def around(layers: Callable[[Module], Module], parts: Iterable[Module]) -> list[Module]:
    """A layer around each of these ``parts``, in their order; those around the same part are one module."""
    parts = list(parts)
    made = {key: layers(part) for key, part in {id(part): part for part in parts}.items()}
    return [made[id(part)] for part in parts]
