"""Kimi K2.5: DeepSeek-V3's text behind a vision tower of its own."""

from __future__ import annotations

from math import prod

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.zoo.blocks import native_resolution, vision_tower
from tfcalc.zoo.blocks.layers import multi_head, stack
from tfcalc.zoo.blocks.native_resolution import Merger, PackedAttention, PackedTower, PatchRows, Resampled
from tfcalc.zoo.blocks.vision_language import conditional, reader
from tfcalc.zoo.blocks.vision_tower import FC

VISION_NAMES = ("q_proj", "k_proj", "v_proj", "proj")


def merged(c: Config) -> int:
    """Return the number of patches that the projector takes together."""
    return prod(c.numbers("merge_kernel_size", 2, least=1))


def patches(c: Config) -> Num:
    """Return the number of patches of an image: as many as the table of positions has."""
    return c.size("pos_emb_height") * c.size("pos_emb_width")


@family(
    "kimi_k25_vision",
    heads={"Model": tops.bare},
    aliases={
        "vt_hidden_size": "hidden_size",
        "vt_intermediate_size": "intermediate_size",
        "vt_num_hidden_layers": "num_hidden_layers",
        "vt_num_attention_heads": "num_attention_heads",
        "init_pos_emb_height": "pos_emb_height",
        "init_pos_emb_width": "pos_emb_width",
    },
)
def kimi_k25_vision(c: Config) -> Module:
    """MoonViT-3D (Kimi K2.5, arXiv 2602.02276): a table of positions of an image, fixed ones of its time."""
    h, a, patch = c.size("hidden_size"), c.size("num_attention_heads"), c.size("patch_size")
    d, count = c.quotient("hidden_size", "num_attention_heads"), patches(c)
    rope = Rope(d, RopeCode(angles="float32", in_float32=True))
    mixer = multi_head(PackedAttention, "attn", VISION_NAMES, h, a, d, bias=True, rope=rope)
    layer = native_resolution.layer(h, mixer, native_resolution.network(c, FC)).replace(name="layers")
    return PackedTower(
        "vision_tower",
        PatchRows("patch_embed.proj", (3, patch, patch), h),
        Resampled("patch_embed.pos_emb.position_embeddings", count, h, neighbours=16, summed=True),
        stack(c, layer),
        (),
        count,
        norm=Norm("final_layernorm", "layernorm", h),
    )


def projector(c: Config, vision: Config, width: Num) -> Merger:
    """Patches that lie together become one vector of the text's width."""
    together = merged(vision)
    wide, norm = vision.size("hidden_size") * together, Norm("pre_norm", "layernorm", c.size("projection_hidden_size"))
    first, last = Linear("in_proj", wide, wide, "", True), Linear("out_proj", wide, width, "", True)
    return Merger("mm_projector", norm, first, last, together, activated="activation")


def text(c: Config) -> Config:
    """DeepSeek-V3's."""
    return c.sub("text_config", "deepseek_v3")


@family(
    "kimi_k25",
    heads={"Model": tops.bare, "ForConditionalGeneration": conditional(text)},
    aliases={"mm_hidden_size": "projection_hidden_size"},
)
def kimi_k25(c: Config) -> Module:
    """Kimi K2.5 (arXiv 2602.02276)."""
    vision = c.sub("vision_config", "kimi_k25_vision")
    between = (projector(c, vision, text(c).size("hidden_size")),)
    tower, width = vision_tower.nested(vision, "vision_tower"), vision.size("hidden_size")
    return reader(tower, between, text(c), vectors=patches(vision), width=width).replace(copies_ids=True)
