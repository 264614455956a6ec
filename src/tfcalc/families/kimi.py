"""Kimi K2.5: DeepSeek-V3's text behind a vision tower of its own."""

from __future__ import annotations

from math import prod

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.families import packed_kit
from tfcalc.families.images import FC
from tfcalc.families.windows import LAYERS
from tfcalc.leaves import activation, linear, norm
from tfcalc.nn.any_size import PackedAttention, PackedTower, PatchRows, Resampled
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope
from tfcalc.workload import Sequences, Workload

VISION_NAMES = ("q_proj", "k_proj", "v_proj", "proj")


def merged(c: Config) -> int:
    """How many patches the projector takes together."""
    return prod(c.numbers("merge_kernel_size", 2, least=1))


def images(c: Config, run: Workload) -> Sequences:
    """One image per sequence, of as many patches as the table of positions has."""
    return run.beside(c.size("pos_emb_height") * c.size("pos_emb_width"))


@family(
    "kimi_k25_vision",
    architecture="Kimi_K25VisionModel",
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
    d, count = c.quotient("hidden_size", "num_attention_heads"), c.size("pos_emb_height") * c.size("pos_emb_width")
    *inward, outward = VISION_NAMES
    maps = tuple(Linear(name, h, a * d, letter, True) for name, letter in zip(inward, "QKV", strict=True))
    rope = Rope(d, angles="float32", in_float32=True)
    mixer = PackedAttention("attn", a, a, d, d, maps, (), Linear(outward, a * d, h, "O", True), rope=rope)
    layer = packed_kit.layer(h, mixer, packed_kit.network(c, FC)).but(name="layers")
    return PackedTower(
        "vision_tower",
        PatchRows("patch_embed.proj", (3, patch, patch), h),
        Resampled("patch_embed.pos_emb.position_embeddings", count, h, neighbours=16, summed=True),
        packed_kit.stack(c, layer, depth=LAYERS),
        (),
        count,
        norm=Norm("final_layernorm", "layernorm", h),
    )


def projector(c: Config, vision: Config, width: Num, run: Workload) -> Component:
    """Patches that lie together become one vector of the text's width."""
    seen, together = images(vision, run), merged(vision)
    t, wide = seen.batch * ceil_div(seen.length, together), vision.size("hidden_size") * together
    parts = (
        norm("pre_norm", "layernorm", c.size("projection_hidden_size"), seen.tokens),
        linear("in_proj", wide, wide, t),
        activation("activation", "gelu", t * wide),
        linear("out_proj", wide, width, t),
    )
    return Component("mm_projector", "projector", parts=parts)


def conditional(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Logits of the text; the whole's config says whether they are made by the embedding."""
    text = c.sub("text_config", "deepseek_v3")
    tied = c.flag("tie_word_embeddings")
    return base, output("lm_head", text.size("hidden_size"), text.size("vocab_size"), run, tied=tied)


@family(
    "kimi_k25",
    architecture="Kimi_K25ForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": conditional},
    aliases={"mm_hidden_size": "projection_hidden_size"},
)
def kimi_k25(c: Config, run: Workload) -> Component:
    """Kimi K2.5 (arXiv 2602.02276)."""
    text, vision = c.sub("text_config", "deepseek_v3"), c.sub("vision_config", "kimi_k25_vision")
    return Component(
        "model",
        "multimodal",
        parts=(
            nested(vision, run, "vision_tower"),
            nested(text, run, "language_model"),
            projector(c, vision, text.size("hidden_size"), run),
        ),
    )
