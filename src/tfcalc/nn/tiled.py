"""Towers for images that are cut into tiles, all of which see each other (Llama 3.2 Vision)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context, Memory
from tfcalc.nn.encoder import Layers
from tfcalc.nn.images import ImagePositions, Patches
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add, mul, pointwise, shifted
from tfcalc.ops.products import pairs_there
from tfcalc.ops.shapes import beside, cat, copied, expand, pad, part, reshape
from tfcalc.ops.tables import spread
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Workload

EIGHT = 8
"""Tokens of a tile are filled up to a multiple of so many."""


class ShapeTable(Module):
    """Vectors of all tiles for each shape that an image may have: so many ``rows`` for each of ``tiles``."""

    kind = "position"

    shapes: Num
    tiles: Num
    rows: Num
    width: Num

    def held(self) -> Cost:
        """P."""
        return Cost(weights=(Weight("P", (self.shapes, self.tiles * self.rows * self.width)),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the shape of each image, for the tiles of ``x``, of b × t × n × h."""
        (table,) = self.weights(x.trace)
        b, tiles, _, h = x.shape
        shapes = x.trace.given((b, ctx.run.beside(1).length), "int64", "shapes")
        return reshape(spread(table, shapes, x.elements), b, tiles, self.rows, h)


class GatedTiles(Module):
    """A vector for each tile of each shape, behind a gate."""

    table: ShapeTable
    gate: Stored

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Added to ``x``, of b × t × n × h."""
        return add(x, mul(self.table(x, ctx), pointwise("tanh", self.gate.weight(x.trace))))


class GatedPlaces(GatedTiles):
    """One for each patch of a tile, and one for each patch of each tile: a gate opens for the one or the other."""

    places: ImagePositions

    @property
    def parts(self) -> Iterator[Module]:
        """The gate first."""
        return iter((self.gate, self.places, self.table))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Added to ``x``, of b × t × n × h."""
        gate, (b, t, n, h) = self.gate.weight(x.trace), x.shape
        places = self.places(reshape(x, b * t, n, h), ctx)
        x = add(x, reshape(mul(shifted(pointwise("tanh", gate), "rsub"), places), 1, 1, n, h))
        return add(x, mul(pointwise("tanh", gate), self.table(x, ctx)))


class TiledTower(Module):
    """Patches of so many ``tiles``, places of tiles and patches, layers, places once more, and gated layers.

    What it gives is as wide as its last vectors and those of so many (``taken``) of its layers side by side. Each tile
    has ``count`` vectors.

    Source: Llama 3 (arXiv 2407.21783), section 7; transformers' MllamaVisionModel.
    """

    kind = "encoder"

    pixels: tuple[Num, ...]
    tiles: Num
    count: Num
    taken: int
    patches: Patches
    first: Stored
    places: GatedPlaces
    before: GatedTiles
    behind: GatedTiles
    norms: tuple[Norm, Norm]
    layers: Layers
    last: Layers

    @property
    def parts(self) -> Iterator[Module]:
        """The places' stand in the tower itself."""
        places = (each for group in (self.places, self.before, self.behind) for each in group.parts)
        return iter((self.patches, self.first, *places, *self.norms, self.layers, self.last))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of images that are given beside ``x``: the vectors of all tiles, in one sequence."""
        trace, (before, behind) = x.trace, self.norms
        run = ctx.run.replaced(recompute="none")
        tiles, filled = run.beside(self.tiles), EIGHT * ceil_div(self.count, EIGHT)
        each = run.replaced(batch_size=run.batch_size * self.tiles)
        stream = run.beside(self.tiles * filled)
        pixels = trace.given((each.batch_size, *self.pixels), "float32", "pixels")
        x = self.patches(trace.to(pixels, trace.weights_format), ctx._replace(run=each))
        b, t, h = tiles.batch, tiles.length, x.width
        x = self.before.forward(reshape(x, b, t, self.count - 1, h), ctx)
        x = self._behind_first(x, each, h)
        x = self.places.forward(reshape(x, b, t, self.count, h), ctx)
        x = pad(before(x, ctx), 2, filled)
        mask = pairs_there(trace, b, stream.length, "attention_mask")
        trace.belongs(mask)  # to no layer, though one keeps it first
        ctx = ctx._replace(run=run, stream=stream, masks={None: mask})
        x = made = self.layers(reshape(x, b, stream.length, h), ctx)
        x = self.behind.forward(reshape(behind(x, ctx), b, t, filled, h), ctx)
        x = self.last(reshape(x, b, stream.length, h), ctx)
        return self._beside(x, made, (b, t, filled, h))

    def _behind_first(self, x: Tensor, run: Workload, h: Num) -> Tensor:
        b, ones, all_ = run.batch_size, run.beside(1).length, run.beside(self.count).length
        one = expand(reshape(self.first.weight(x.trace), 1, 1, h), b, ones, h)
        return beside((one, reshape(x, b, run.beside(self.count - 1).length, h)), (b, all_, h))

    def _beside(self, x: Tensor, made: Tensor, shape: tuple[Num, ...]) -> Tensor:
        """The last layers' vectors, and those of layers before, without what was filled up."""
        b, t, filled, h = shape
        several = copied(made, (*made.shape, self.taken), "stack")
        ends = (reshape(x, *shape), reshape(several, b, t, filled, h * self.taken))
        both = cat([part(each, 2, self.count) for each in ends])
        return reshape(both, b, t * self.count, h * (1 + self.taken))


class TileReader(Module):
    """A tower, a projection, and a text some of whose layers read what comes of them.

    Where no layer ``reads`` it, nothing of the tower is trained. In a program that trains, there are words alone.
    """

    kind = "multimodal"

    tower: TiledTower
    projector: Linear
    text: Module
    reads: bool = True

    @property
    def beside_text(self) -> Iterator[Module]:
        """The tower and the projection."""
        return iter((self.tower, self.projector))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        ctx = ctx._replace(memory=None)
        if x.trace.lowers:
            return self.text(x, ctx)
        with nullcontext() if self.reads or not ctx.run.training else x.trace.without_gradients():
            memory = self.projector(self.tower(x, ctx))
        seen = ctx.run.beside(self.tower.tiles * self.tower.count)
        return self.text(x, ctx._replace(memory=Memory(memory, seen)))
