"""LLaVA: CLIP's patches through a network of one hidden layer, among the words of any text model."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.core.number import Num, ceil_div, product
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Parameter, parameter
from tfcalc.nn.module import Module
from tfcalc.printable import quoted
from tfcalc.zoo.blocks.vision_language import (
    either,
    feature_layers,
    heads,
    late,
    llama_text,
    reader,
    taken,
    tower,
    two_maps,
)

CLIP_LARGE = {
    "intermediate_size": 4096,
    "hidden_size": 1024,
    "patch_size": 14,
    "image_size": 336,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}


def _llava(c: Config, *further: Parameter, tiles: Num = 1) -> Module:
    """Return the model whose tower reads every tile as an image of its own."""
    vision, text = subconfig(c, "vision_config", "clip_vision_model", over=CLIP_LARGE, free=True), llama_text(c)
    sees = tower(vision, late=late(c, vision))
    fan_in = len(feature_layers(c)) * vision.size("hidden_size")
    projector = two_maps(c, fan_in, text.size("hidden_size"), bias=c.flag("multimodal_projector_bias"))
    vectors = taken(c, vision, sees)
    return reader(sees, (projector, *further), text, vectors=vectors, width=fan_in, tiles=tiles)


@family("llava", heads=heads(llama_text, tied=either))
def llava(c: Config) -> Module:
    """Liu et al. 2023 (arXiv 2310.03744): CLIP's patches through a network of one hidden layer."""
    return _llava(c)


@family(
    "llava_next",
    heads=heads(llama_text),
    image_grid_pinpoints=((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),  # by __post_init__
)
def llava_next(c: Config) -> Module:
    """LLaVA-NeXT (2024): an image in tiles, with a trained vector at the end of each row."""
    newline = parameter("image_newline", llama_text(c).size("hidden_size"))
    return _llava(c, newline, tiles=1 + tiles(c))


def tiles(c: Config) -> Num:
    """Number of tiles for an image of the tower's size, in the shape that shows most of it, and wastes least.

    Source: Liu et al. 2024 (LLaVA-NeXT); transformers' select_best_resolution.
    """
    tower = subconfig(c, "vision_config", "clip_vision_model", over=CLIP_LARGE, free=True)
    side = tower.number("image_size")
    shapes = c.get("image_grid_pinpoints")
    if not isinstance(shapes, list | tuple) or not shapes or not all(_is_shape(shape) for shape in shapes):
        raise InvalidModel(f"{c.path('image_grid_pinpoints')} {quoted(shapes)} are not shapes", "such as [[336, 672]]")

    def shown(shape: Sequence[int]) -> tuple[int, int]:
        most = min(min(shape), side) ** 2
        return most, most - prod(shape)

    return product(ceil_div(length, tower.size("image_size")) for length in max(shapes, key=shown))


def _is_shape(shape: object) -> bool:
    return isinstance(shape, list | tuple) and len(shape) == 2 and all(type(side) is int and side > 0 for side in shape)
