"""Aya Vision: patches that lie side by side, through a gated network, among Cohere's words."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.core.number import floor_div
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks.vision_language import GatedProjector, heads, patches_of, reader, text_of, tower

AYA_VISION = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 384,
    "num_hidden_layers": 26,
    "num_attention_heads": 14,
    "vision_use_head": False,
}
cohere_text = text_of("cohere2")


@family("aya_vision", heads=heads(cohere_text))
def aya_vision(c: Config) -> Module:
    """Aya Vision (arXiv 2505.08751): patches side by side, normalised, through a gated network of half its width."""
    vision = subconfig(c, "vision_config", "siglip_vision_model", over=AYA_VISION, free=True)
    text, given = cohere_text(c), c.optional("alignment_intermediate_size")
    width, together = text.size("hidden_size"), c.size("downsample_factor") * c.size("downsample_factor")
    inner, wide = width if given is None else given, vision.size("hidden_size") * together
    half = floor_div(inner, 2)
    steps = (
        Norm("layernorm", "layernorm", wide),
        Linear("linear_1", wide, inner, "", True),
        Linear("linear_2", half, width, "", True),
    )
    projector = GatedProjector("multi_modal_projector", steps, "silu")
    return reader(tower(vision), (projector,), text, vectors=patches_of(vision), width=wide, together=together)
