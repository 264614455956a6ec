"""Gemma with images: PaliGemma and Gemma 3, which read SigLIP's vectors."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.core.component import Component
from tfcalc.families.images import part
from tfcalc.families.unread import unread_heads
from tfcalc.families.vision_language import heads, reader, seen
from tfcalc.leaves import linear, norm
from tfcalc.workload import Workload


def gemma3_text(c: Config) -> Config:
    """Gemma 3's own text."""
    return part(c, "text_config", "gemma3_text")


@family("gemma3", architecture="Gemma3ForConditionalGeneration", heads=heads(gemma3_text))
def gemma3(c: Config, run: Workload) -> Component:
    """Gemma 3 (arXiv 2503.19786): an image's patches are averaged to ``mm_tokens_per_image``, then projected."""
    vision, text = part(c, "vision_config", "siglip_vision_model", free=True), gemma3_text(c)
    h, tokens = vision.size("hidden_size"), run.beside(c.number("mm_tokens_per_image")).tokens
    parts = (
        norm("mm_soft_emb_norm", "rmsnorm", h, tokens),
        linear("mm_input_projection", h, text.size("hidden_size"), tokens, bias=False),
    )
    projector = Component("multi_modal_projector", "projector", parts=parts)
    return reader(run, text, unread_heads(nested(vision, run, "vision_tower"), run), projector)


SIGLIP_SO = {
    "intermediate_size": 4096,
    "hidden_size": 1152,
    "patch_size": 14,
    "image_size": 224,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "vision_use_head": False,
}
GEMMA_2B = {
    "hidden_size": 2048,
    "num_hidden_layers": 18,
    "intermediate_size": 16384,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "vocab_size": 257152,
}


def gemma_text(c: Config) -> Config:
    """Gemma 1 or 2, as the config names it."""
    return part(c, "text_config", "gemma", over=GEMMA_2B, free=True)


@family("paligemma", architecture="PaliGemmaForConditionalGeneration", heads=heads(gemma_text))
def paligemma(c: Config, run: Workload) -> Component:
    """PaliGemma (arXiv 2407.07726): one linear map of each patch's vector."""
    vision = part(c, "vision_config", "siglip_vision_model", over=SIGLIP_SO, free=True)
    projector = linear(
        "multi_modal_projector.linear", vision.size("hidden_size"), c.size("projection_dim"), seen(vision, run)
    )
    return reader(run, gemma_text(c), unread_heads(nested(vision, run, "vision_tower"), run), projector)
