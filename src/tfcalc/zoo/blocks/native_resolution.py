"""Towers for images of any size, whose patches lie in one row: those of one image behind those of another."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, Pairs, floor_div, in_pieces, product
from tfcalc.core.traced import value_of
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Linear, Norm, PositionVectors
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add
from tfcalc.ops.patches import bag, gathered, patches, sampled
from tfcalc.ops.select import index
from tfcalc.ops.shapes import reshape, split, stack, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import layers
from tfcalc.zoo.blocks.layers import multi_head

MANY = 16
"""Pieces that run one by one; of more that are alike, one stands for all."""


class PackedAttention(Attention):
    """Attention within each image of a row by itself, or within each of an image's windows of ``pieces`` patches.

    There is no mask: the kernel runs for each piece, and what it made is put together in new memory.
    """

    causal: bool = False
    pieces: Num | None = None

    def pairs(self, ctx: Context) -> Pairs:
        """Return the query-key pairs within each piece."""
        if self.pieces is None:
            return super().pairs(ctx)
        within = ctx.stream.batch * in_pieces(ctx.stream.length, self.pieces)
        return Pairs((2, within), within, ctx.run.fused)

    def kernel(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for the queries, piece by piece."""
        trace, sizes = q.trace, self._sizes(ctx.stream)
        few = sum(value_of(count) for count, _ in sizes) <= MANY
        runs = [(1, size) for count, size in sizes for _ in range(value_of(count))] if few else sizes
        cut = [split(each, [size for _, size in runs], 2) for each in (q, k, v)]
        made: list[Tensor] = []
        for (count, _), one, keys, values in zip(runs, *cut, strict=True):
            with trace.turns(count):
                made.append(transpose(ctx.backend.attend(one, keys, values, self, ctx), 1, 2))
            made[-1].storage.repeat()
        shape = (1, q.shape[2], q.shape[1], v.width)
        return transpose(stack(made, shape), 1, 2)

    def _sizes(self, images: Sequences) -> list[tuple[Num, Num]]:
        """Return the sizes of pieces, each with the number of pieces that have it."""
        if self.pieces is None:
            return [(images.batch, images.length)]
        whole: Num = floor_div(images.length, self.pieces)
        rest = images.length - whole * self.pieces
        sizes = [(images.batch * whole, self.pieces), (images.batch, rest)]
        return [(count, size) for count, size in sizes if value_of(count) and value_of(size)]


class PatchRows(Module):
    """A convolution that makes a vector of each patch: of its colours, frames, rows and columns (``patch``)."""

    kind = "convolution"

    patch: tuple[Num, ...]
    width: Num
    bias: bool = True

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, *self.patch))
        return Cost(weights=(weight, *([Weight("b", (self.width,), minor=True, key="bias")] if self.bias else [])))

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Return a vector for each of n patches, of n × h."""
        weight, bias, *_ = *self.weights(x.trace), None
        return patches(x, weight, bias)


class Resampled(PositionVectors):
    """A trained vector for each place of a grid, of which an image of another size has the means of neighbours.

    They are looked up, ``neighbours`` of them for each place (and ``summed`` by the same kernel), or a kernel makes
    them of the whole table (0).
    """

    neighbours: int = 0
    summed: bool = False

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the position vectors for rows of patches."""
        (table,) = self.weights(x.trace)
        if not self.neighbours:
            return sampled(table, x)
        return (bag if self.summed else gathered)(table, x, self.neighbours)


class Merger(Module):
    """Merger of ``neighbours`` vectors into one, by two maps, with a norm of each by itself, or of all ``together``.

    There may be several mergers (``count``) of the vectors of other layers. The activation is counted by the name that
    it has in the program (``activated``).
    """

    kind = "projector"

    norm: Norm
    first: Linear
    last: Linear
    neighbours: Num
    together: bool = False
    count: Num = 1
    activated: str = "act"

    @property
    def copies(self) -> Num:
        """The mergers."""
        return self.count

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the merged vectors of rows of patches, those of each image by themselves."""
        images = ctx.stream
        shape = images.batch * floor_div(images.length, self.neighbours), x.width * self.neighbours
        x = self.norm(reshape(x, *shape), ctx) if self.together else reshape(self.norm(x, ctx), *shape)
        inner = self.first(x)
        inner = ctx.activation("gelu", inner, self.activated)
        return self.last(inner)


class GatedMerger(Module):
    """A map, a norm and an activation of each vector, then a gated network."""

    kind = "projector"

    map: Linear
    norm: Norm
    network: GatedFeedForward

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the network's output for rows of vectors."""
        x = self.norm(self.map(x), ctx)
        x = ctx.activation("gelu", x, "act1")
        return self.network(x, ctx)


class PackedTower(Module):
    """Patches, perhaps with positions, layers, and what makes fewer vectors of them.

    Each image has ``count`` patches, or as many as a source is long. After the last layer and a norm, squares of them
    may become one vector each (``downsample``). A program may put those of a window beside each other before the
    layers, ``sorted_by`` of them at a time. A tower by itself answers with the vectors of its last layer: what is made
    of them for a text leaves no graph there.

    Source: Wang et al. 2024 (Qwen2-VL, arXiv 2409.12191), section 2.1.
    """

    kind = "encoder"

    patches: PatchRows
    positions: Module | None
    layers: Stack
    mergers: tuple[Module, ...]
    count: Num | None = None
    normed: Norm | None = None
    norm: Norm | None = None
    downsample: PatchRows | None = None
    sorted_by: Num | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Rows for a text; in a program, those of the last layer. Images are given beside ``x``."""
        trace = x.trace
        images = ctx.run.source if self.count is None else ctx.run.beside(self.count)
        x = self._behind(trace.given((images.tokens, *self.patches.patch), "float32", "pixels"), images, ctx)
        ctx = ctx._replace(stream=images)
        # rows for a text are the last merger's; a program by itself returns those of the layers
        if not trace.emits_kernels:
            merged = [each(x, ctx) for each in reversed(self.mergers)]
            return merged[-1] if merged else x
        with trace.without_gradients():
            for each in self.mergers:
                each(x, ctx)
        return x

    def _behind(self, x: Tensor, images: Sequences, ctx: Context) -> Tensor:
        trace, row = x.trace, Sequences(1, images.tokens)
        x = self.patches(trace.to(x, trace.weights_format))
        x = x if self.normed is None else self.normed(x, ctx)
        x = x if self.positions is None else add(x, self.positions(x, ctx))
        x = reshape(x, 1, *x.shape)
        if trace.emits_kernels:  # the mask of all images, and their order, are the program's
            if self.sorted_by is not None:
                x = _sorted(x, self.sorted_by)
            ctx = ctx.backend.begin(ctx._replace(stream=row), x, list(attentions(self.layers)), ())
        x = self.layers(x, ctx._replace(stream=images))
        x = x if self.norm is None else self.norm(x, ctx)
        if self.downsample is None:
            return x
        channels, *side = self.downsample.patch
        squares = images.batch * floor_div(images.length, product(side))
        return self.downsample(reshape(x, squares, channels, *side))


def _sorted(x: Tensor, together: Num) -> Tensor:
    places = x.trace.new((floor_div(x.rows, together),), "int64", "places by windows")
    return index(x, places, x.shape)


FUSED = ("qkv", "proj")
NORMS = ("norm1", "norm2")
MERGED = ("norm", "linear_fc1", "linear_fc2")
MERGED_OF_TWO = ("ln_q", "mlp.0", "mlp.2")
SIDES = {"num_attention_heads": "num_heads", "num_hidden_layers": "depth"}


def patch_rows(c: Config, width: Num, *, bias: bool) -> PatchRows:
    """A convolution over the colours, frames, rows and columns of a patch."""
    side = c.size("patch_size")
    return PatchRows(
        "patch_embed.proj", (c.size("in_channels"), c.size("temporal_patch_size"), side, side), width, bias
    )


def attention(
    c: Config, width: str = "hidden_size", pieces: Num | None = None, *, bias: bool = True, output_bias: bool = True
) -> PackedAttention:
    """Queries, keys and values by one matrix; angles in fp32 for all that is turned."""
    h, a, d = c.size(width), c.size("num_heads"), c.quotient(width, "num_heads")
    made = multi_head(PackedAttention, "attn", FUSED, h, a, d, bias=bias, output_bias=output_bias)
    return made.replace(rope=Rope(d, RopeCode(angles="float32", in_float32=True)), pieces=pieces)


def network(c: Config, names: tuple[str, str], *, width: str = "hidden_size", inner: Num | None = None) -> FeedForward:
    """Two maps, of ``intermediate_size`` or of the ``inner`` width."""
    f = c.size("intermediate_size") if inner is None else inner
    return layers.network("mlp", names, c.size(width), f, c.word("hidden_act"))


def layer(width: Num, *sublayers: Module, form: str = "layernorm") -> PreNorm:
    """A layer of these sub-layers."""
    return PreNorm("blocks", sublayers, tuple(Norm(name, form, width) for name in NORMS))


def tower_layers(c: Config, *layers: Module, depth: str = "depth") -> Stack:
    """Layers that are all alike, or a module for each place."""
    made = layers * c.number(depth) if len(layers) == 1 else layers
    return Stack(layers[0].name, made, c.size(depth))


def merger(
    c: Config,
    width: Num,
    out: Num,
    *,
    name: str = "merger",
    form: str = "layernorm",
    names: tuple[str, str, str] = MERGED,
    **more: Any,
) -> Merger:
    """``spatial_merge_size``² neighbours become one vector."""
    side = c.size("spatial_merge_size")
    wide = width * side * side
    norm = Norm(names[0], form, wide if more.get("together") else width)
    return Merger(
        name, norm, Linear(names[1], wide, wide, "", True), Linear(names[2], wide, out, "", True), side * side, **more
    )


def tower(
    patches: PatchRows, layers: Stack, *mergers: Module, positions: Module | None = None, **more: Any
) -> PackedTower:
    """The whole, by the name that it has in the model."""
    return PackedTower("visual", patches, positions, layers, mergers, **more)
