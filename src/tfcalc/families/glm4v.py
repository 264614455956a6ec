"""GLM-4V: a tower for images of any size, a merger that is a gated network, and GLM-4's text."""

from __future__ import annotations

from tfcalc.blocks import FUSED, GATED, FeedForward, layer
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import floor_div
from tfcalc.families import kit
from tfcalc.families.glm import BOTH_SIDES
from tfcalc.families.images import feed_forward, image, norms, part, self_attention
from tfcalc.families.qwen_vl import FUSED as QKV
from tfcalc.families.qwen_vl import NORMS, SIDES, patch_embed
from tfcalc.families.vision_language import either, heads, reader
from tfcalc.leaves import activation, convolution, learned_position, linear, norm
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.module import Module
from tfcalc.workload import Sequences, Workload


@family("glm4v_vision", architecture="Glm4vVisionModel", heads={"Model": bare}, aliases=SIDES)
def glm4v_vision(c: Config, run: Workload) -> Component:
    """GLM-4.1V (arXiv 2507.01006): layers are as wide inside as the text, ``intermediate_size`` is the merger's."""
    h, out, side = c.size("hidden_size"), c.size("out_hidden_size"), c.size("spatial_merge_size")
    stream = image(c, run)
    merged = stream._replace(length=floor_div(stream.length, side * side))
    bias = c.flag("attention_bias")
    parts = (
        self_attention(c, run, stream, name="attn", names=QKV, heads="num_heads", bias=bias, output_bias=False),
        feed_forward(c, run, stream, names=GATED, bias=False, gated=True, inner=out),
        *norms(NORMS, h, stream.tokens, "rmsnorm"),
    )
    return Component(
        "visual",
        "encoder",
        parts=(
            learned_position("embeddings.position_embedding", stream.length, h, stream.tokens),
            patch_embed(c, stream, h, bias=True),
            norm("post_conv_layernorm", "rmsnorm", h, stream.tokens),
            layer("blocks", parts, stream.tokens * h, copies=c.size("depth"), ends_with_sum=True),
            norm("post_layernorm", "rmsnorm", h, stream.tokens),
            convolution("downsample", h, out, (side, side), merged.tokens),
            merger(c, run, merged),
        ),
    )


def merger(c: Config, run: Workload, stream: Sequences) -> Component:
    """A map with a norm and an activation, then a gated network."""
    out = c.size("out_hidden_size")
    network = FeedForward(out, c.size("intermediate_size"), c.word("hidden_act"), names=GATED, gated=True)
    return Component(
        "merger",
        "projector",
        parts=(
            linear("proj", out, out, stream.tokens, bias=False),
            norm("post_projection_norm", "layernorm", out, stream.tokens),
            activation("act1", "gelu", stream.tokens * out),
            network("(ffn)", stream, run),
        ),
    )


@family("glm4v_text", architecture="Glm4vTextModel", heads={"Model": tops.bare})
def glm4v_text(c: Config) -> Module:
    """GLM-4 with biases of queries, keys and values, and rotary positions in three dimensions."""
    width = c.quotient("hidden_size", "num_attention_heads")
    rope = kit.rope(c, width, by_sequence=True, copies=True)
    mixer = kit.attention(c, bias=True, output_bias=False, width=width).but(rope=rope)
    return kit.decoder(c, kit.layer(c, mixer, kit.gated(c, names=FUSED), of=Sandwich, names=BOTH_SIDES))


def text(c: Config) -> Config:
    """The text of the family's own."""
    return part(c, "text_config", "glm4v_text")


@family("glm4v", architecture="Glm4vForConditionalGeneration", heads=heads(text, tied=either))
def glm4v(c: Config, run: Workload) -> Component:
    """GLM-4.1V (arXiv 2507.01006)."""
    return reader(run, text(c), nested(part(c, "vision_config", "glm4v_vision"), run, "visual"))
