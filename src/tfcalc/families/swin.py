"""Swin: attention in windows, in stages that halve the image and double the width."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward, layer
from tfcalc.blocks.window_attention import WindowAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, product, scaled
from tfcalc.errors import InvalidModel
from tfcalc.families.images import FC, drops, image_classifier, norms, patches
from tfcalc.families.vit import MASKED, NORMS
from tfcalc.leaves import convolution, learned_position, linear, norm, parameter
from tfcalc.workload import Sequences, Workload

Grid = tuple[int, int]


def last_width(c: Config) -> Num:
    """The width doubles from each stage to the next."""
    width: Num = c.size("embed_dim") * 2 ** (len(c.numbers("depths")) - 1)
    return width


def reconstruction(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """SimMIM (arXiv 2111.09886): the pixels of what each last vector saw."""
    yield base
    pixels = c.size("encoder_stride") * c.size("encoder_stride") * c.size("num_channels")
    grids = list(_grids(c, len(c.numbers("depths"))))
    yield convolution("decoder", last_width(c), pixels, (1, 1), run.batch_size * product(grids[-1]))


@family(
    "swin",
    architecture="SwinForImageClassification",
    heads={
        "Model": bare,
        "ForImageClassification": image_classifier("classifier", width=last_width),
        MASKED: reconstruction,
    },
    aliases={"num_attention_heads": "num_heads"},
)
def swin(c: Config, run: Workload) -> Component:
    """Liu et al. 2021 (arXiv 2103.14030)."""
    depths = c.numbers("depths", least=1)
    heads = c.numbers("num_heads", len(depths), least=1)
    stages = [
        stage(c, run, f"layers[{place}]", place, depth, n_heads, size, last=place == len(depths) - 1)
        for place, (depth, n_heads, size) in enumerate(zip(depths, heads, _grids(c, len(depths)), strict=True))
    ]
    tokens = run.batch_size * product(list(_grids(c, len(depths)))[-1])
    return Component(
        "swin",
        "encoder",
        parts=(
            embeddings(c, run),
            Component("encoder", "encoder", parts=tuple(stages)),
            norm("layernorm", "layernorm", last_width(c), tokens),
        ),
    )


def embeddings(c: Config, run: Workload) -> Component:
    """A normalised vector for each patch; a mask and absolute positions where they are asked for."""
    e, sides = c.size("embed_dim"), _sides(c, "patch_size")
    count = product(pixels // side for pixels, side in zip(_sides(c, "image_size"), sides, strict=True))
    images = run.batch_size * count
    return Component(
        "embeddings",
        "embedding",
        parts=(
            patches("patch_embeddings.projection", c, images, width=e, kernel=sides),
            *([parameter("mask_token", e)] if c.head == MASKED else []),
            *([learned_position("position_embeddings", count, e, images)] if c.flag("use_absolute_embeddings") else []),
            norm("norm", "layernorm", e, images),
        ),
    )


def stage(
    c: Config, run: Workload, name: str, place: int, depth: int, n_heads: int, size: Grid, *, last: bool
) -> Component:
    """``depth`` layers at one resolution, then a map of each four neighbours to one vector of twice the width."""
    width = c.size("embed_dim") * 2**place
    if c.number("embed_dim") * 2**place % n_heads:
        raise InvalidModel(
            f"{c.path('num_heads')}: {n_heads} cannot share the {c.number('embed_dim') * 2**place} of stage {place}",
            "give a divisor of it",
        )
    rows, columns = size
    stream = Sequences(run.batch_size, rows * columns)
    block = WindowAttention(width, n_heads, c.number("window_size"), c.flag("qkv_bias"))
    mlp = FeedForward(width, scaled(width, c.factor("mlp_ratio")), c.word("hidden_act"), bias=True, names=FC)
    parts = (
        block("attention", _windows(c, run, size), run),
        mlp("mlp", stream, run),
        *norms(NORMS, width, stream.tokens),
    )
    return Component(
        name,
        "stage",
        parts=(
            layer("blocks", parts, stream.tokens * width, copies=depth, ends_with_sum=not drops(c, run)),
            *([] if last else [merging(width, run.batch_size * ceil_div(rows, 2) * ceil_div(columns, 2))]),
        ),
    )


def merging(width: Num, tokens: Num) -> Component:
    """Four neighbours, side by side, become one vector of twice their width."""
    return Component(
        "downsample",
        "merging",
        parts=(
            norm("norm", "layernorm", 4 * width, tokens),
            linear("reduction", 4 * width, 2 * width, tokens, bias=False),
        ),
    )


def _windows(c: Config, run: Workload, size: Grid) -> Sequences:
    """Windows that cover the image: of the image's own size where it is smaller; edges are filled up."""
    window = min(c.number("window_size"), *size)
    rows, columns = (ceil_div(side, window) for side in size)
    return run.beside(window * window)._replace(batch=run.batch_size * rows * columns)


def _grids(c: Config, stages: int) -> Iterator[Grid]:
    """Rows and columns in each stage; they are numbers, for what is filled up at the edges depends on them."""
    images, sides = _sides(c, "image_size"), _sides(c, "patch_size")
    rows, columns = (ceil_div(image, side) for image, side in zip(images, sides, strict=True))
    for _ in range(stages):
        yield rows, columns
        rows, columns = ceil_div(rows, 2), ceil_div(columns, 2)


def _sides(c: Config, name: str) -> tuple[int, ...]:
    """A height and a width, as numbers."""
    return tuple(c.numbers(name, 2, least=1)) if isinstance(c.get(name), list | tuple) else (c.number(name),) * 2
