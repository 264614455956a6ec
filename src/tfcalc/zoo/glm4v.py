"""GLM-4V: a tower for images of any size, a merger that is a gated network, and GLM-4's text."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.core.number import product
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, native_resolution, vision_tower
from tfcalc.zoo.blocks.native_resolution import GatedMerger, PatchRows, Resampled
from tfcalc.zoo.blocks.vision_language import either, heads, reader
from tfcalc.zoo.blocks.vision_tower import grid


@family("glm4v_vision", heads={"Model": tops.bare})
def glm4v_vision(c: Config) -> Module:
    """GLM-4.1V (arXiv 2507.01006): layers are as wide inside as the text, ``intermediate_size`` is the merger's."""
    h, out, side, count = (
        c.size("hidden_size"),
        c.size("out_hidden_size"),
        c.size("spatial_merge_size"),
        product(grid(c)),
    )
    mixer = native_resolution.attention(c, bias=c.flag("attention_bias"), output_bias=False)
    mixer = mixer.replace(dropout=bool(c.get("attention_dropout")))
    layer = native_resolution.layer(h, mixer, decoders.gated(c, width=out), form="rmsnorm")
    network = decoders.gated(c, name="(ffn)", hidden=out)
    merger = GatedMerger("merger", Linear("proj", out, out), Norm("post_projection_norm", "layernorm", out), network)
    return native_resolution.tower(
        native_resolution.patch_rows(c, h, bias=True),
        native_resolution.tower_layers(c, layer),
        merger,
        positions=Resampled("embeddings.position_embedding", count, h),
        count=count,
        normed=Norm("post_conv_layernorm", "rmsnorm", h),
        norm=Norm("post_layernorm", "rmsnorm", h),
        downsample=PatchRows("downsample", (h, side, side), out),
    )


def text(c: Config) -> Config:
    """The text of the family's own."""
    return subconfig(c, "text_config", "glm4v_text")


@family("glm4v", heads=heads(text, tied=either))
def glm4v(c: Config) -> Module:
    """GLM-4.1V (arXiv 2507.01006)."""
    vision, width = subconfig(c, "vision_config", "glm4v_vision"), text(c).size("hidden_size")
    side, count = vision.size("spatial_merge_size"), product(grid(vision))
    tower = vision_tower.nested(vision, "visual")
    return reader(tower, (), text(c), vectors=count, width=width, together=side * side)
