"""Pixtral's tower, for images of any shape, and Mistral Small 3.1 that reads it."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare
from tfcalc.core.number import floor_div, product
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, stack
from tfcalc.zoo.blocks.vision_language import (
    PatchMerger,
    feature_layers,
    heads,
    late,
    patches_of,
    reader,
    text_of,
    tower,
    two_maps,
)
from tfcalc.zoo.blocks.vision_tower import Tower, gated, grid


class AmongImages(Attention):
    """Attention in a sequence of several images, which a mask keeps from each other."""

    @property
    def looks_at_mask(self) -> bool:
        """Constant True: the mask keeps images from each other."""
        return True


class Packed(Tower):
    """A tower that reads the patches of all images of a batch as one sequence (Pixtral, arXiv 2410.07073)."""

    def laid(self, x: Tensor, ctx: Context) -> tuple[Tensor, Context]:
        """The patches of all images behind each other."""
        row = ctx.stream._replace(batch=1, length=ctx.stream.tokens)
        return reshape(x, 1, row.length, x.width), ctx._replace(stream=row)

    def through(self, x: Tensor, ctx: Context) -> Tensor:
        """The layers, which read a mask of all pairs."""
        ctx = ctx.backend.begin(ctx, x, list(attentions(self.layers)), ())
        pairs = (1, 1, ctx.stream.length, ctx.stream.length)
        return self.layers(x, ctx._replace(masks=ctx.masks or {None: x.trace.new(pairs, x.dtype, "mask of images")}))


@family("pixtral", heads={"Model": bare})
def pixtral(c: Config) -> Module:
    """Pixtral's tower (arXiv 2410.07073): a Llama without biases, for images of any shape.

    The images of a batch lie in one sequence, and are masked from each other.
    """
    turned = Rope(c.quotient("hidden_size", "num_attention_heads"))
    mixer = vision_tower.attention(
        c, name="attention", names=LLAMA_NAMES, of=AmongImages, rope=turned, bias=False, output_bias=False
    )
    ffn = gated(c, c.size("intermediate_size"), c.word("hidden_act"), bias=False).replace(name="feed_forward")
    norms = vision_tower.norms(c, "attention_norm", "ffn_norm", form="rmsnorm")
    made = stack(c, PreNorm("transformer.layers", (mixer, ffn), norms))
    (first,) = vision_tower.norms(c, "ln_pre", form="rmsnorm")
    patches = vision_tower.patches(c, "patch_conv", bias=False)
    return Packed("vision_tower", vision_tower.pixels(c), product(grid(c)), patches, first, made, None)


PIXTRAL_LARGE = {
    "intermediate_size": 4096,
    "hidden_size": 1024,
    "patch_size": 14,
    "image_size": 1540,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "hidden_act": "gelu",
}
MISTRAL_SMALL = {
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 40,
    "num_key_value_heads": 8,
    "vocab_size": 131072,
}
mistral_text = text_of("mistral", over=MISTRAL_SMALL)


@family("mistral3", heads=heads(mistral_text))
def mistral3(c: Config) -> Module:
    """Mistral Small 3.1 (Mistral AI, 2025): neighbouring patches are merged before the projector."""
    vision, text = subconfig(c, "vision_config", "pixtral", over=PIXTRAL_LARGE, free=True), mistral_text(c)
    h, side = vision.size("hidden_size"), c.size("spatial_merge_size")
    fan_in = len(feature_layers(c)) * h
    merged = product(floor_div(length, side) for length in grid(vision))
    merger = PatchMerger("patch_merger.merging_layer", h * side * side, h, merged=merged)
    before = Norm("norm", "rmsnorm", h), merger
    projector = two_maps(c, fan_in, text.size("hidden_size"), *before, bias=c.flag("multimodal_projector_bias"))
    sees = tower(vision, late=late(c, vision))
    return reader(sees, (projector,), text, vectors=patches_of(vision), width=h)
