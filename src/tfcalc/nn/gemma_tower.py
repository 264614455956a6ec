"""Gemma 4's tower: patches with the places that they have, a square of which becomes their mean."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.core.traced import known
from tfcalc.nn.basic import Buffer, Linear, Norm, PositionVectors
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import through
from tfcalc.nn.module import Module
from tfcalc.nn.shared_keys import SharingAttention
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, filled, mul, scaled, shifted
from tfcalc.ops.products import matmul
from tfcalc.ops.select import index
from tfcalc.ops.shapes import reshape
from tfcalc.ops.tables import looked_up, position
from tfcalc.tape.tensor import Tensor


class NormedAttention(SharingAttention):
    """Attention with norms of each head's query, key and value; it may hold ``limits`` of its maps."""

    limits: tuple[Buffer, ...] = ()


class RowsAndColumns(PositionVectors):
    """A trained vector for each row of patches, and one for each column: so many ``rows`` of a table in all."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """For the patches of ``x``, of b × s × h."""
        (table,) = self.weights(x.trace)
        trace, shape = x.trace, x.shape[:2]
        if not trace.lowers:
            return position(table, trace.new(shape, "int64", "places"), 2 * x.rows)
        places = trace.view(trace.new((*shape, 2), "int64", "places"), shape, None)
        return add(looked_up(table, places), looked_up(table, places))


class Pool(Module):
    """The mean of so many patches that lie in a square (``together``): a product with a matrix that says which do."""

    kind = "pool"

    together: Num

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Of b × s × h."""
        b, s, _ = x.shape
        fewer = floor_div(s, self.together)
        means = x.trace.new((b, fewer, s), "float32", "which lie together")
        return x.trace.to(matmul(means, x.trace.to(x, "float32"), "P X"), x.dtype)


class GemmaTower(Module):
    """Patches, their places, layers, and means; as many patches for each sequence as a source is long.

    There may be no means of one patch. What comes out may be shifted and multiplied by vectors (``spread``).
    """

    kind = "encoder"

    patches: Linear
    places: RowsAndColumns
    layers: Stack
    pool: Pool | None
    spread: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of images that are given beside ``x``, which is not read."""
        trace, images = x.trace, ctx.run.source
        ctx = ctx._replace(stream=images)
        pixels = trace.given((images.batch, images.length, self.patches.fan_in), "float32", "pixels")
        x = self.patches(trace.to(scaled(shifted(pixels, "less a half")), trace.weights_format))
        padding = trace.new((images.batch, images.length, 1), "bool", "padding")
        x = filled(through(self.layers, add(x, filled(self.places(x), padding)), ctx), padding)
        x = x if self.pool is None else self.pool(x)
        return self._as_rows(x, trace.weights_format) if trace.lowers else x

    def _as_rows(self, x: Tensor, wanted: str) -> Tensor:
        """All that are not of padding, spread in fp32; in the format that is ``wanted``."""
        trace = x.trace
        x = scaled(trace.to(x, "float32"))
        x = index(x, trace.new(x.shape[:2], "bool", "not padding"), (x.rows, x.width))
        for place, each in enumerate(self.spread):
            spread = trace.to(trace.given(each.tensor.shape, wanted, each.name), "float32")
            x = mul(x, spread) if place else add(x, spread)
        return trace.to(x, wanted)


class Embedder(Module):
    """A norm without weights, and a map to the text's width, of what a tower gives.

    There is a vector for so many places of a source (``step``), or as many as come (0). Without a tower it embeds data
    (``of_data``), a vector for each place.
    """

    kind = "projector"

    norm: Norm
    map: Linear
    step: Num = 0
    of_data: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Rows for a text."""
        source, width = ctx.run.source, self.map.fan_in
        if self.of_data:
            x = x.trace.given((source.tokens, width), "float32", "data")
        elif known(self.step):
            x = reshape(x, source.batch * ceil_div(source.length, self.step), width)
        return self.map(self.norm(x, ctx))


class PatchEmbedder(Module):
    """Pixels of patches as vectors, with norms before the map, behind it and behind the places; then for the text."""

    kind = "embedding"

    before: Norm
    patches: Linear
    behind: Norm
    places: RowsAndColumns
    norm: Norm
    embedder: Embedder

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of images that are given beside ``x``, which is not read."""
        source = ctx.run.source
        x = x.trace.given((source.batch, source.length, self.patches.fan_in), "float32", "pixels")
        x = self.behind(self.patches(self.before(x, ctx)), ctx)
        return self.embedder(self.norm(add(x, self.places(x)), ctx), ctx)
