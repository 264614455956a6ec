"""Llama 4: a vision tower before the text."""

from __future__ import annotations

from typing import cast

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.number import Num, product, scaled
from tfcalc.families import image_kit, kit
from tfcalc.families.images import grid
from tfcalc.families.names import LLAMA_NAMES
from tfcalc.families.reader_kit import tower
from tfcalc.nn.basic import Linear, parameter
from tfcalc.nn.images import PixelEmbeddings
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.reader import ImageReader
from tfcalc.nn.shuffled import Adapted, ShuffleAdapter, TwiceActivated


def shuffled(c: Config) -> Num:
    """The vectors that the tower gives to the text of an image: pixels move from both sides into the width."""
    (rows, columns), ratio = grid(c), c.factor("pixel_shuffle_ratio")
    count: Num = scaled(rows, ratio) * scaled(columns, ratio)
    return count


def adapter(c: Config) -> ShuffleAdapter:
    """Two linear maps of the shuffled pixels, each with an activation behind it."""
    wide, into, out = c.size("intermediate_size"), c.size("projector_input_dim"), c.size("projector_output_dim")
    network = TwiceActivated("mlp", Linear("fc1", wide, into), Linear("fc2", out, out), "gelu")
    return ShuffleAdapter("vision_adapter", network, shuffled(c))


@family("llama4_vision_model", architecture="Llama4VisionModel", heads={"Model": bare})
def llama4_vision_model(c: Config) -> Module:
    """Llama 4's images (Meta 2025): patches and a class token, biases everywhere but in the adapter."""
    h, patch, count = c.size("hidden_size"), c.size("patch_size"), product(grid(c))
    mixer = image_kit.attention(c, names=LLAMA_NAMES)
    layer = PreNorm("model.layers", (mixer, image_kit.network(c, act="gelu")), image_kit.norms(c, *kit.PRE_NORM))
    pixels = c.size("num_channels") * patch * patch
    patches = Linear("patch_embedding.linear", pixels, h)
    places = image_kit.positions(c, "positional_embedding_vlm", 1)
    table = PixelEmbeddings("embeddings", (parameter("class_embedding", h),), patches, places, count=count)
    first, last = image_kit.norms(c, "layernorm_pre", "layernorm_post")
    stack = image_kit.stack(c, layer)
    return Adapted("vision_model", (pixels,), count + 1, table, first, stack, last, adapter=adapter(c))


def without_images(_c: Config, base: Module) -> Module:
    """The text alone, with its head."""
    return cast(ImageReader, base).text


@family(
    "llama4",
    architecture="Llama4ForConditionalGeneration",
    heads={"ForConditionalGeneration": bare, "ForCausalLM": without_images},
)
def llama4(c: Config) -> Module:
    """Llama 4 Scout and Maverick (Meta 2025); only the text's own config can tie its head."""
    text, vision = c.sub("text_config", "llama4_text"), c.sub("vision_config", "llama4_vision_model")
    h, tied = text.size("hidden_size"), "embedding" if text.flag("tie_word_embeddings") else None
    head = Linear("lm_head", h, text.size("vocab_size"), "vocab", False, tied, "output")
    language = WithHead("language_model", image_kit.nested(text, "model"), head)
    wide = vision.size("vision_output_dim")
    map_ = Linear("multi_modal_projector.linear_1", wide, h)
    return ImageReader("model", tower(vision, "vision_model"), (map_,), language, shuffled(vision), wide)
