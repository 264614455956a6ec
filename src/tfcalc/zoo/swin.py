"""Swin: attention in windows, in stages that halve the image and double the width."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.number import Num, ceil_div, floor_div, product, scaled
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.encoder import through
from tfcalc.nn.heads import Headed
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, dropout
from tfcalc.ops.shapes import copied
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.layers import network
from tfcalc.zoo.blocks.vision_tower import (
    FC,
    MASKED,
    MEAN,
    VIT_NORMS,
    ImageEmbeddings,
    ImagePositions,
    Patches,
    Pixels,
    Tower,
    WindowedAttention,
    sides_of,
)


class NormedPatches(ImageEmbeddings):
    """Patches' vectors with a norm, before positions are added."""

    norm: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the embeddings of an image's pixels."""
        made = self.patches(x, ctx)
        made = made if self.norm is None else self.norm(made, ctx)
        made = made if self.positions is None else add(made, self.positions(made, ctx))
        return dropout(made, "embedding_dropout") if self.dropped and ctx.drops else made


class Merging(Module):
    """Four neighbours, side by side, become one vector of twice their width: ``count`` vectors of each image.

    Source: Liu et al. 2021 (Swin, arXiv 2103.14030), section 3.1.
    """

    kind = "merging"

    norm: Norm
    reduction: Linear
    count: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the merged vectors, for ``x`` of b × patches × h."""
        shape = (x.shape[0], ctx.run.beside(self.count).length, self.norm.width)
        return self.reduction(self.norm(copied(x, shape, "cat"), ctx))


class Stage(Module):
    """Layers that see an image as ``count`` vectors, and a merging that makes fewer of them."""

    kind = "stage"

    layers: Stack
    merging: Merging | None
    count: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the stage's output for all vectors of an image."""
        x = through(self.layers, x, ctx._replace(stream=ctx.run.beside(self.count)))
        return x if self.merging is None else self.merging(x, ctx)


class Stages(Module):
    """Stages that run one after another."""

    kind = "encoder"

    stages: tuple[Stage, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the last stage's output for the embeddings."""
        for stage in self.stages:
            x = stage(x, ctx)
        return x


class Staged(Tower):
    """A tower of stages; the mean of the last vectors stands for the image."""

    stages: Stages | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Embeddings, stages, and the norm."""
        return iter(each for each in (self.table, self.stages, self.norm) if each is not None)

    def through(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the stages' output."""
        assert self.stages is not None
        return self.stages(x, ctx)


Grid = tuple[int, int]
NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")


def last_width(c: Config) -> Num:
    """The width doubles from each stage to the next."""
    width: Num = c.size("embed_dim") * 2 ** (len(c.numbers("depths")) - 1)
    return width


def reconstruction(c: Config, base: Module) -> Module:
    """SimMIM (arXiv 2111.09886): the pixels of what each last vector saw."""
    made = c.size("encoder_stride") * c.size("encoder_stride") * c.size("num_channels")
    grids = list(_grids(c, len(c.numbers("depths"))))
    return Headed("", base, Pixels("decoder", last_width(c), made, product(grids[-1])))


@family(
    "swin",
    heads={
        "Model": bare,
        "ForImageClassification": vision_tower.classifier("classifier", width=last_width, reads=MEAN),
        MASKED: reconstruction,
    },
)
def swin(c: Config) -> Module:
    """Liu et al. 2021 (arXiv 2103.14030)."""
    depths = c.numbers("depths", least=1, some=True)
    heads = c.numbers("num_heads", len(depths), least=1)
    sizes = list(_grids(c, len(depths)))
    stages = tuple(
        stage(c, place, depth, n_heads, size, last=place == len(depths) - 1)
        for place, (depth, n_heads, size) in enumerate(zip(depths, heads, sizes, strict=True))
    )
    pixels = (c.size("num_channels"), *sides_of(c, "image_size"))
    last = Norm("layernorm", "layernorm", last_width(c))
    none, table = Stack("layers", (), 0), embeddings(c, sizes[0])
    return Staged("swin", pixels, product(sizes[0]), table, None, none, last, stages=Stages("encoder", stages))


def embeddings(c: Config, size: Grid) -> NormedPatches:
    """A normalised vector for each patch; a mask and absolute positions where they are asked for."""
    e, sides = c.size("embed_dim"), sides_of(c, "patch_size")
    patches = Patches("patch_embeddings.projection", c.size("num_channels"), e, sides, size)
    count = product(pixels // side for pixels, side in zip(sides_of(c, "image_size"), sides, strict=True))
    placed, mask = c.flag("use_absolute_embeddings"), c.head == MASKED
    places = ImagePositions("position_embeddings", count, e) if placed else None
    unread, dropped = ((parameter("mask_token", e),) if mask else ()), bool(c.get("hidden_dropout_prob"))
    return NormedPatches("embeddings", (), patches, places, unread, dropped, norm=Norm("norm", "layernorm", e))


def stage(c: Config, place: int, depth: int, n_heads: int, size: Grid, *, last: bool) -> Stage:
    """``depth`` layers at one resolution, then a map of each four neighbours to one vector of twice the width."""
    width = c.size("embed_dim") * 2**place
    if c.number("embed_dim") * 2**place % n_heads:
        raise InvalidModel(
            f"{c.path('num_heads')}: {n_heads} cannot share the {c.number('embed_dim') * 2**place} of stage {place}",
            "give a divisor of it",
        )
    inner, drops = scaled(width, c.factor("mlp_ratio")), bool(c.get("hidden_dropout_prob"))
    ffn = network("mlp", FC, width, inner, c.word("hidden_act"))
    norms = tuple(Norm(name, "layernorm", width) for name in VIT_NORMS)
    layer = PreNorm("blocks", (attention(c, width, n_heads, size), ffn), norms, drops)
    rows, columns = (ceil_div(side, 2) for side in size)
    merging = Merging(
        "downsample",
        Norm("norm", "layernorm", 4 * width),
        Linear("reduction", 4 * width, 2 * width),
        product((rows, columns)),
    )
    return Stage(f"layers[{place}]", Stack("blocks", (layer,) * depth, depth), None if last else merging, product(size))


def attention(c: Config, width: Num, n_heads: int, size: Grid) -> WindowedAttention:
    """Windows that cover the image: of the image's own size where it is smaller; edges are filled up."""
    window, d, bias = min(c.number("window_size"), *size), floor_div(width, n_heads), c.flag("qkv_bias")
    maps = tuple(Linear(name, width, width, letter, bias) for name, letter in zip(NAMES, "QKV", strict=False))
    side = 2 * c.number("window_size") - 1
    table = parameter("relative_position_bias.relative_position_bias_table", side * side, n_heads)
    return WindowedAttention(
        "attention",
        *(n_heads, n_heads, d, d, maps, (), Linear(NAMES[3], width, width, "O", True)),
        dropout=bool(c.get("attention_probs_dropout_prob")),
        windows=product(ceil_div(each, window) for each in size),
        patches=window * window,
        position_table=table,
    )


def _grids(c: Config, stages: int) -> Iterator[Grid]:
    """Rows and columns in each stage; they are numbers, for what is filled up at the edges depends on them."""
    images, sides = sides_of(c, "image_size"), sides_of(c, "patch_size")
    rows, columns = (ceil_div(image, side) for image, side in zip(images, sides, strict=True))
    for _ in range(stages):
        yield rows, columns
        rows, columns = ceil_div(rows, 2), ceil_div(columns, 2)
