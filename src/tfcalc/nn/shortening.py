"""Stacks that make a sequence shorter from block to block, and long again (Funnel)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.funnel import Around, FunnelLayer
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Group
from tfcalc.nn.turn_by_turn import each_turn
from tfcalc.ops.elementwise import add
from tfcalc.ops.pooling import MEAN, pooled
from tfcalc.ops.shapes import copied
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class LayerTurns(Module):
    """A layer that runs so many ``times`` one upon another, with the same weights; ``further`` turns hold none."""

    kind = "layer"

    layer: FunnelLayer
    times: int
    further: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The layer's."""
        return self.layer.parts

    @property
    def copies(self) -> Num:
        """How many of it hold weights."""
        return 0 if self.further else 1

    @property
    def active(self) -> Num | None:
        """Those of another layer are used."""
        return 1 if self.further else None

    @property
    def passes(self) -> Num:
        """How often it runs."""
        return self.times

    def forward(self, x: Tensor, ctx: Context, around: Around) -> Tensor:
        """Turn by turn where kernels run, else one for all."""
        for _ in each_turn(self.times if x.trace.lowers else 1):
            x = again(lambda x: self.layer.forward(x, ctx, around), x, ctx)
        return x


def again(run: Callable[[Tensor], Tensor], x: Tensor, ctx: Context) -> Tensor:
    """Run a layer, which backward computes again where that is asked for."""
    return x.trace.checkpoint(run, x, early_stop=ctx.run.early_stop) if ctx.run.every else run(x)


class Rows(Module):
    """So many equal layers (``count``), each of which runs so many ``times``."""

    kind = "stack"

    layer: FunnelLayer
    depth: int
    count: Num
    times: int = 1

    def components(self) -> Iterator[Component]:
        """What its layers hold; they stand in the module that has it."""
        for each in LayerTurns(self.name, self.layer, self.times).components():
            yield each._replace(copies=self.count)

    def __call__(self, x: Tensor, *given: object) -> Tensor:
        """From the bottom to the top; it is no module of its own."""
        ctx, around = given
        assert isinstance(ctx, Context)
        assert isinstance(around, Around)
        turns, trace = LayerTurns(self.name, self.layer, self.times), x.trace
        whole = Group(self.name, turns, self.count, self.count)
        each = [
            whole._replace(copies=1, mark=f".{place}")
            for place in each_turn(self.depth if trace.lowers else 1, "layers that run by themselves")
        ]
        for group in each if trace.lowers else [whole]:
            with trace.group(group):
                x = turns.forward(x, ctx, around)
        return x


class ShortBlock(Module):
    """Layers of which the ``first`` may read more than it gives, for once; all run so many ``times``."""

    kind = "block"

    first: FunnelLayer
    again: LayerTurns | None
    others: Rows | None

    def forward(self, x: Tensor, ctx: Context, reading: Around, around: Around) -> Tensor:
        """Of the queries, and what the first layer reads beside them; and all others."""
        x = again(lambda x: self.first(x, ctx, reading), x, ctx)
        if self.again is not None:
            x = self._further(x, ctx, around, self.again)
        return x if self.others is None else self.others(x, ctx, around)

    def _further(self, x: Tensor, ctx: Context, around: Around, turns: LayerTurns) -> Tensor:
        if not x.trace.lowers:
            return turns(x, ctx, around)
        with x.trace.inside(self.first):  # whose weights they are
            return turns.forward(x, ctx, around)


class ShortStack(Module):
    """Blocks, each on a sequence half as long as the one before.

    Of the first layer of a block the queries alone may be shortened (``queries_only``), or all. The first token may
    stand ``apart``, and then the last be left out (``cut``). Distances are ``factorized``, or have a vector each.

    Source: Dai et al. 2020 (arXiv 2006.03236), section 2.2; transformers' FunnelEncoder.
    """

    kind = "encoder"

    blocks: tuple[ShortBlock, ...]
    width: Num
    queries_only: bool
    apart: bool
    cut: bool
    factorized: bool
    pooling: str = MEAN

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of all tokens."""
        return self.both(x, ctx)[1]

    def both(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """What the first block makes, and what the last does."""
        stream, around = ctx.stream, self.around(x)
        first = x = self.blocks[0](x, ctx, around, around)
        for block in self.blocks[1:]:
            stream = self.half(stream)
            query = pooled(self._behind_first(x), stream.length, self.pooling)
            reading = self._shorter(around, stream.length, *((0,) if self.queries_only else (0, 1)))
            around = self._shorter(reading, stream.length, 1) if self.queries_only else reading
            reading = reading._replace(keys=x) if self.queries_only else reading
            x = block(query, ctx._replace(stream=stream), reading, around)
        return first, x

    def half(self, stream: Sequences) -> Sequences:
        """Every two tokens as one; the first is kept apart, for which the last may be left out."""
        longer = stream.length + 1 if self.apart and not self.cut else stream.length
        return stream._replace(length=ceil_div(longer, 2))

    def around(self, x: Tensor) -> Around:
        """What layers read that see all tokens of ``x``."""
        b, l, _ = x.shape
        apart = x.trace.new((l, l), x.trace.weights_format, "mask of the first token") if self.apart else None
        count = 4 if self.factorized else 1
        distances = tuple(self._table(x, l if self.factorized else 2 * l) for _ in range(count))
        return Around(distances, x.trace.new((b, l, l), "bool", "segments"), apart)

    def _table(self, x: Tensor, rows: Num) -> Tensor:
        made = x.trace.new((rows, self.width), x.trace.weights_format, "distances")
        x.trace.belongs(made)  # to no layer, though one keeps it first
        return made

    def _behind_first(self, x: Tensor) -> Tensor:
        """With the first token twice, where it stands apart."""
        if not self.apart:
            return x
        return copied(x, (x.shape[0], x.shape[1] if self.cut else x.shape[1] + 1, x.width), "cat")

    def _shorter(self, around: Around, length: Num, *axes: int) -> Around:
        """The same for every second query (0), or key (1)."""
        segments, apart, distances = around.segments, around.apart, around.distances
        for axis in axes:
            segments = self._every_second(segments, axis + 1, length)
            apart = None if apart is None else self._every_second(apart, axis, length)
            if self.factorized:
                of_queries, of_keys = distances[:2], distances[2:]
                halved = tuple(self._every_second(each, 0, length) for each in (of_keys if axis else of_queries))
                distances = (*of_queries, *halved) if axis else (*halved, *of_keys)
        if not self.factorized:
            _, i, j = segments.shape
            distances = (self._table(segments, 2 * i + j if axes == (0,) else 2 * j),)
        return Around(distances, segments, apart)

    def _every_second(self, x: Tensor, axis: int, length: Num) -> Tensor:
        """A view; where the first stands apart, of a copy in which it stands twice."""
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        if self.apart:
            x = x.trace.new((*x.shape[:axis], x.shape[axis] + 1, *x.shape[axis + 1 :]), x.dtype, x.storage.label)
            x.trace.belongs(x)
        return x.trace.view(x, shape, None)


class LongAgain(Module):
    """Layers on the long sequence: what the blocks made, repeated, and what the first of them gave."""

    kind = "decoder"

    layers: Rows | None

    def forward(self, x: Tensor, ctx: Context, first: Tensor, around: ShortStack) -> Tensor:
        """Of what the last block made."""
        long = copied(x, first.shape, "repeat_interleave")
        long = copied(long, name="cat") if around.apart else long
        x = add(long, first)
        return x if self.layers is None else self.layers(x, ctx, around.around(x))


class Funnel(Module):
    """Embeddings, a stack that shortens, and perhaps one that makes the sequence long again."""

    kind = "encoder"

    table: Embeddings
    encoder: ShortStack
    decoder: LongAgain | None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        x = self.table(x, ctx)
        if self.decoder is None:
            return self.encoder(x, ctx)
        with x.trace.inside(self.encoder):
            first, x = self.encoder.both(x, ctx)
        return self.decoder(x, ctx, first, self.encoder)
