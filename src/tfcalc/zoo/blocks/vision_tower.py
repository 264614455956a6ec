"""Towers that read images as sequences of patches: embeddings, layers, windows, and heads on their vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from tfcalc.configs.config import Config
from tfcalc.configs.family import find
from tfcalc.configs.tops import Top, labels
from tfcalc.core.component import Cost, Elementwise, Weight
from tfcalc.core.number import Num, divide, floor_div, product
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Parameter, PositionVectors, parameter
from tfcalc.nn.embeddings import BUFFER, rows_asked
from tfcalc.nn.encoder import Layers, through
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.heads import Headed
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import EqualLayers, Stack
from tfcalc.ops.convolution import convolution
from tfcalc.ops.elementwise import add, dropout, mul, residual
from tfcalc.ops.rows import mean_of_rows, position
from tfcalc.ops.select import index
from tfcalc.ops.shapes import beside, copied, expand, first, part, permute, reshape, transpose
from tfcalc.printable import quoted
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor
from tfcalc.zoo.blocks import layers
from tfcalc.zoo.blocks.layers import multi_head


class Patches(Module):
    """A convolution whose stride is its ``kernel``: each patch of an image, of a ``grid`` of them, becomes a vector.

    Pixels that are left over at the edges belong to none. Pixels are data, and need no gradient.

    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), section 3.1.
    """

    kind = "convolution"

    channels: Num
    width: Num
    kernel: tuple[Num, ...]
    grid: tuple[Num, ...]
    bias: bool = True

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, self.channels, *self.kernel))
        bias = [Weight("b", (self.width,), minor=True, key="bias")] if self.bias else []
        return Cost(weights=(weight, *bias))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return vectors of b × patches × h for pixels, of b × channels × height × width."""
        weight, bias, *_ = *self.weights(x.trace), None
        places = ctx.run.beside(product(self.grid)).length  # none where the image was seen before
        return transpose(convolution(x, weight, bias, places), 1, 2)


class ImagePositions(PositionVectors):
    """A trained vector of this ``width`` for each place of an image, which is added as it stands.

    Some programs look it up: by numbers that are a buffer, or that they make for each image (``looked_up``).
    """

    looked_up: str = ""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of all places of ``x``."""
        (table,) = self.weights(x.trace)
        if x.trace.emits_kernels and not self.looked_up:  # a view of the whole table in a program
            return reshape(table, 1, self.rows, self.width)
        return position(table, rows_asked(x.trace.view(x, x.shape[:2], None), self.looked_up or BUFFER, ctx), x.rows)


class ImageEmbeddings(Module):
    """The patches' vectors behind some ``tokens`` that are trained, with a position for all of them.

    Where positions are ``of_patches`` alone, they are added before. What an image's hidden patches would have in their
    place is ``unread``. Some of the sum is ``dropped``.
    """

    kind = "embedding"

    tokens: tuple[Parameter, ...]
    patches: Module
    positions: Module | None
    unread: tuple[Parameter, ...] = ()
    dropped: bool = False
    of_patches: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the embeddings of pixels."""
        made = self.patches(x, ctx)
        if self.of_patches and self.positions is not None:
            made = add(made, self.positions(made, ctx))
        if self.tokens:
            made = self._behind_tokens(made, ctx)
        if not self.of_patches and self.positions is not None:
            made = add(made, self.positions(made, ctx))
        return dropout(made, "embedding_dropout") if self.dropped and ctx.drops else made

    def _behind_tokens(self, x: Tensor, ctx: Context) -> Tensor:
        b, _, h = x.shape
        rows = [reshape(each.weight(x.trace), 1, *_rows(each), h) for each in self.tokens]
        parts = (*(expand(each, b, *each.shape[1:]) for each in rows), x)
        return beside(parts, (b, ctx.stream.length, h))


def _rows(token: Parameter) -> tuple[Num, ...]:
    """Return the number of vectors of a token, as a shape."""
    shape = token.tensor.shape
    return shape[:-1] or (1,)


class PixelEmbeddings(ImageEmbeddings):
    """Embeddings of an image that comes cut into ``count`` patches of pixels."""

    count: Num = 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the embeddings of pixels, of b × patches × pixels of each."""
        return super().forward(part(x, 1, ctx.run.beside(self.count).length), ctx)


class Resized(ImagePositions):
    """A table of places of a square, which is drawn out to the shape of each image."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of all patches of all images."""
        (table,) = self.weights(x.trace)
        if x.trace.emits_kernels:  # interpolated: a copy in a program, a look-up to what is counted
            return copied(table, x.shape, "resized")
        return position(table, x.trace.given((1, x.shape[1]), "int64", "places"), x.rows)


class Pooler(Module):
    """A map of the first vector, and an activation."""

    kind = "pooler"

    dense: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the pooled vector, given all vectors."""
        made = self.dense(first(x))
        return ctx.activation(self.activation, made)


class Tower(Module):
    """Patches' vectors (and a norm), layers, a norm: one image for each sequence, of ``count`` vectors.

    ``pixels`` are an image's colours, height and width, or how many each of its patches has, where it comes cut. What a
    ``pooler`` makes of it all is read by some (``pools``), but not by those who read a vector for each patch; a
    program's loss does not read it either. The norm may be of the first vector ``alone``, which then stands for the
    whole.

    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), section 3.1.
    """

    kind = "encoder"

    pixels: tuple[Num, ...]
    count: Num
    table: Module
    first: Norm | None
    layers: Layers | Stack
    norm: Norm | None
    pooler: Module | None = None
    pools: bool = True
    alone: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each patch; the images are given beside ``x``, which is not read."""
        # the pooler has a backward pass by itself, and none in a program, whose loss reads the patches
        return self._seen(x, ctx, reads=self.pools and not x.trace.emits_kernels)[0]

    def pooled(self, x: Tensor, ctx: Context) -> Tensor:
        """One vector for each image."""
        with x.trace.inside(self):
            return self._seen(x, ctx, reads=True)[1]

    def _seen(self, x: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor]:
        trace, ctx = x.trace, ctx._replace(stream=ctx.run.beside(self.count))
        cut = (ctx.stream.length,) if len(self.pixels) == 1 else ()
        x = trace.given((ctx.stream.batch, *cut, *self.pixels), "float32", "pixels")
        x, ctx = self.laid(self.embedded(trace.to(x, trace.weights_format), ctx), ctx)
        x = self.through(x if self.first is None else self.first(x, ctx), ctx)
        x = x if self.norm is None or self.alone else self.norm(x, ctx)
        with nullcontext() if reads or not ctx.run.training else trace.without_gradients():
            return x, self._whole(x, ctx)

    def embedded(self, x: Tensor, ctx: Context) -> Tensor:
        """The patches' vectors, and where they stand."""
        return self.table(x, ctx)

    def laid(self, x: Tensor, ctx: Context) -> tuple[Tensor, Context]:
        """The sequences that the layers read: those of each image by itself."""
        return x, ctx

    def through(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layers' output."""
        return self.layers(x, ctx) if isinstance(self.layers, Layers) else through(self.layers, x, ctx)

    def _whole(self, x: Tensor, ctx: Context) -> Tensor:
        if self.pooler is not None:
            return self.pooler(x, ctx)
        return self.norm(first(x), ctx) if self.alone and self.norm is not None else first(x)


class InlineTower(Tower):
    """One whose embeddings are no module of their own."""

    @property
    def parts(self) -> Iterator[Module]:
        """Parts of the embeddings, beside the others."""
        return iter((*self.table.parts, *(each for each in super().parts if each is not self.table)))

    def embedded(self, x: Tensor, ctx: Context) -> Tensor:
        """The patches' vectors, and where they stand."""
        return self.table.forward(x, ctx)


class ReadEarly(Stack):
    """Layers of which the ``late`` last ones make what nobody reads: in training, they are a group of their own."""

    late: Num = 0

    def run(self, given: list[Tensor], ctx: Context) -> Tensor:
        """Run the layers; in training, the late ones by themselves and without gradients."""
        if not ctx.run.training:
            return super().run(given, ctx)
        x, layer = given.pop(), self.layers[0]
        read = EqualLayers(self.name, layer, self.count - self.late, self.count, mark="[read]")
        with x.trace.group(read):
            x = layer.forward(x, ctx)
        late = EqualLayers(self.name, Unread(layer.name, layer), self.late, self.count, mark="[unread]")
        with x.trace.group(late), x.trace.without_gradients():
            layer.forward(x, ctx)
        return x


class Unread(Module):
    """A layer that makes what nobody reads: no layer to recomputation."""

    kind = "unread"

    layer: Module

    @property
    def parts(self) -> Iterator[Module]:
        """The layer's."""
        return self.layer.parts

    def own_params(self) -> Cost:
        """Return the layer's own weights and buffers."""
        return self.layer.own_params()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layer's output."""
        return self.layer.forward(x, ctx)


FIRST, MEAN, OTHERS, BOTH = "first", "mean", "others", "both"
"""What of an image's vectors is read: the first, their mean, that of all others, or both side by side."""


class ImageClassifier(Module):
    """A tower, and maps that make classes of what is read of its vectors, side by side."""

    kind = "model"

    base: Module
    maps: tuple[Linear, ...]
    reads: str = FIRST

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the class logits of an image for each sequence."""
        made = self.base(x, ctx)
        if not self.maps:
            return made
        read = self._read(made)
        classes = [each(read) for each in self.maps]
        return classes[0]

    def _read(self, made: Tensor) -> Tensor:
        if self.reads == FIRST:
            return first(made)
        if self.reads == MEAN:
            return mean_of_rows(made)
        others = mean_of_rows(part(made, 1, made.shape[1] - 1))
        if self.reads == OTHERS:
            return others
        return beside((first(made), others), (made.shape[0], 2 * made.width))


class Pixels(Module):
    """The convolution over all vectors but those before the ``patches``."""

    kind = "convolution"

    width: Num
    made: Num
    patches: Num

    def own_params(self) -> Cost:
        """W and b."""
        return Cost(
            weights=(Weight("w", (self.made, self.width, 1, 1)), Weight("b", (self.made,), minor=True, key="bias"))
        )

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the pixels of patches for ``x``, of b × vectors × h."""
        weight, bias = self.weights(x.trace)
        places = ctx.run.beside(self.patches).length
        return convolution(transpose(part(x, 1, places), 1, 2), weight, bias, places)


class WindowedAttention(Attention):
    """Attention of patches to those of their own window alone, of ``patches``; an image has ``windows`` of them.

    Windows fill an image up at its edges; without a number of them, all patches see each other. A ``position_table``
    has a number for each head and each way in which two patches can lie to each other.

    Source: Liu et al. 2021 (Swin, arXiv 2103.14030), section 3.2.
    """

    causal: bool = False
    windows: Num | None = None
    patches: Num = 1
    position_table: Parameter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for all patches of an image, window by window."""
        if self.windows is None:
            return super().forward(x, ctx)
        stream = ctx.run.beside(self.patches)
        stream = stream._replace(batch=ctx.stream.batch * self.windows)
        made = super().forward(
            copied(x, (stream.batch, stream.length, x.width), "windows"), ctx._replace(stream=stream)
        )
        return copied(made, x.shape, "windows")

    def with_bias(self, x: Tensor, ctx: Context) -> Context:
        """Return the context with the table's bias for each pair of patches, in new memory.

        The rows of the table are found by a buffer.
        """
        if self.position_table is None:
            return ctx
        n, a = self.patches, self.heads
        rows = index(self.position_table.weight(x.trace), x.trace.given((n * n,), "int64", "pairs"), (n * n, a))
        return ctx._replace(bias=reshape(copied(permute(reshape(rows, n, n, a), (2, 0, 1))), 1, a, n, n))


class AlongSides(WindowedAttention):
    """Windowed attention with vectors for distances along both ``sides``, which queries are multiplied by.

    Source: Kirillov et al. 2023 (SAM, arXiv 2304.02643); Li et al. 2022 (MViTv2, arXiv 2112.01526), eq. 4.
    """

    sides: tuple[Num, ...] = ()
    tables: tuple[Parameter, ...] = ()

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend with vectors for distances along the sides."""
        for table, side in zip(self.tables, self.sides, strict=True):
            _along(q, table, side, k.shape[2])
        return super().attend(q, k, v, ctx, name)


def _along(q: Tensor, table: Parameter, side: Num, keys: Num) -> Tensor:
    """``Q Rᵀ``: each head's query with a vector for each distance along a side, ``2·t·r·a·d`` FLOPs."""
    trace, (b, a, l, d) = q.trace, q.shape
    places = trace.new((side, side), "int64", "distances")
    vectors = index(table.weight(trace), places, (side, side, d))
    call = Call(
        "Q Rᵀ",
        (q, vectors),
        (b, a, l, side),
        q.dtype,
        products=(MatMul("Q Rᵀ", (2, b * l, side, a, d), (q, vectors)),),
        elementwise=(Elementwise("+ Q Rᵀ", a * b * l * keys, forward=1, backward=1),),
        saves=(q, vectors),
        leaf=Leaf(f"{table.name}.scores", "attend"),
    )
    return trace.call(call)


class LayerScale(PreNorm):
    """``x + λ · f(norm(x))`` for each sub-layer, with a λ for each number of a vector.

    Source: Touvron et al. 2021 (CaiT, arXiv 2103.17239), eq. 4.
    """

    scalers: tuple[Parameter, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for (norm, sub), scale in zip(self.running(ctx), self.scalers, strict=True):
            made = self.dropping(sub, sub(norm(x, ctx), ctx), ctx)
            x = residual(x, mul(made, scale.weight(x.trace)), sub.name)
        return x


OUT_PROJ = ("q_proj", "k_proj", "v_proj", "out_proj")
FC = ("fc1", "fc2")


def pair(c: Config, name: str) -> tuple[Num, Num]:
    """A height and a width: one size for both, or a list of two."""
    if isinstance(c.get(name), list | tuple):
        height, width = c.numbers(name, 2, least=1)
        return height, width
    return c.size(name), c.size(name)


def sides_of(c: Config, name: str) -> tuple[int, ...]:
    """A height and a width as numbers: one size for both, or a list of two."""
    return tuple(c.numbers(name, 2, least=1)) if isinstance(c.get(name), list | tuple) else (c.number(name),) * 2


def grid(c: Config, image: str = "image_size", patch: str = "patch_size") -> tuple[Num, Num]:
    """Rows and columns of whole patches in an image; pixels that are left over at its edges belong to none.

    ``I/p`` where both are sizes and the one divides the other, ``⌊I/p⌋`` otherwise. Raises InvalidModel where an image
    is smaller than a patch, which no convolution reads.
    """
    sides, kernel = sides_of(c, image), sides_of(c, patch)
    if any(side < each for side, each in zip(sides, kernel, strict=True)):
        raise InvalidModel(
            f"{c.path(image)} {quoted(c.get(image))} is smaller than {c.path(patch)} {quoted(c.get(patch))}",
            "an image has at least one patch",
        )
    listed = isinstance(c.get(image), list | tuple) or isinstance(c.get(patch), list | tuple)
    exact = not listed and sides[0] % kernel[0] == 0
    rows, columns = map(divide if exact else floor_div, pair(c, image), pair(c, patch))
    return rows, columns


M = TypeVar("M", bound=Module)


def pixels(c: Config) -> tuple[Num, ...]:
    """An image's colours, height and width."""
    return (c.size("num_channels"), *pair(c, "image_size"))


def patches(c: Config, name: str, *, bias: bool = True) -> Patches:
    """A vector for each patch of an image."""
    kernel = pair(c, "patch_size")
    return Patches(name, c.size("num_channels"), c.size("hidden_size"), kernel, grid(c), bias)


def positions(c: Config, name: str, further: int = 0, *, looked_up: str = "") -> ImagePositions:
    """A trained vector for each patch, and for ``further`` vectors beside them."""
    return ImagePositions(name, product(grid(c)) + further, c.size("hidden_size"), looked_up)


def embeddings(
    c: Config,
    tokens: Sequence[Parameter] | Sequence[str],
    patches: Module,
    positions: Module | None,
    unread: Sequence[str] = (),
    **more: Any,
) -> ImageEmbeddings:
    """Patches, the ``tokens`` before them, and where they stand; what is ``unread`` is stored all the same."""
    h = c.size("hidden_size")
    made = tuple(parameter(each, h) if isinstance(each, str) else each for each in tokens)
    held = tuple(parameter(each, h) for each in unread)
    return ImageEmbeddings("embeddings", made, patches, positions, held, **more)


def attention(
    c: Config,
    *,
    name: str = "self_attn",
    names: Sequence[str] = OUT_PROJ,
    width: Num | None = None,
    bias: bool | tuple[bool, bool, bool] = True,
    output_bias: bool = True,
    dropout: str = "attention_dropout",
    of: type[Attention] = Attention,
    heads: str = "num_attention_heads",
    **more: Any,
) -> Attention:
    """Attention among all patches, of heads that share nothing; queries, keys and values may differ in their bias."""
    h, a, drops = c.size("hidden_size"), c.size(heads), bool(dropout and c.get(dropout))
    d = c.quotient("hidden_size", heads) if width is None else width
    how = {"causal": False, "dropout": drops} | more
    return multi_head(of, name, names, h, a, d, bias=bias, output_bias=output_bias, **how)


def network(
    c: Config,
    *,
    name: str = "mlp",
    names: Sequence[str] = FC,
    bias: bool = True,
    inner: Num | None = None,
    act: str = "",
) -> FeedForward:
    """Two maps, of ``intermediate_size`` or of the ``inner`` width."""
    h, f = c.size("hidden_size"), c.size("intermediate_size") if inner is None else inner
    return layers.network(name, names, h, f, act or c.word("hidden_act"), bias=bias)


def norms(c: Config, *names: str, form: str = "layernorm", code: str = "") -> tuple[Norm, ...]:
    """A norm of the hidden size for each name."""
    return tuple(Norm(name, form, c.size("hidden_size"), code) for name in names)


def classifier(*names: str, width: Callable[[Config], Num] | None = None, reads: str = FIRST) -> Top:
    """Classes of an image by each of these matrices; none where there are no labels."""

    def top(c: Config, base: Module) -> Module:
        if c.get("num_labels") == 0:
            return ImageClassifier("", base, ())
        wide = c.size("hidden_size") if width is None else width(c)
        return ImageClassifier("", base, tuple(Linear(name, wide, labels(c), "", True) for name in names), reads)

    return top


def reconstruction(c: Config, base: Module) -> Module:
    """Model that predicts each patch's pixels (SimMIM)."""
    made = c.size("encoder_stride") * c.size("encoder_stride") * c.size("num_channels")
    return Headed("", base, Pixels("decoder", c.size("hidden_size"), made, product(grid(c))))


def nested(c: Config, name: str) -> Module:
    """The base model of a nested config, under the name that the whole gives it."""
    return find(c.model_type).base(c).replace(name=name)


def nested_as(c: Config, kind: type[M], name: str) -> M:
    """Base model of a nested config where the whole asks for a model of this ``kind``, under the name that it gives it.

    Raises InvalidModel for another.
    """
    made = nested(c, name)
    if not isinstance(made, kind):
        raise InvalidModel(
            f"{c.path('model_type')} {quoted(c.model_type)} is not what this model reads its input with",
            "leave it out, or name the model_type of its checkpoint",
        )
    return made


MASKED = "ForMaskedImageModeling"


VIT_NORMS = ("layernorm_before", "layernorm_after")


def gated(c: Config, inner: Num, act: str, *, bias: bool = True) -> GatedFeedForward:
    """A feed-forward network with a gate, of this ``inner`` width."""
    return layers.gated("mlp", layers.GATED, c.size("hidden_size"), inner, act, bias=bias)
