"""Gemma with images: PaliGemma and Gemma 3, which read SigLIP's vectors."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks.vision_language import Projector, heads, patches_of, reader, text_of, tower


def has_no_row(c: Config, text: Config) -> bool:
    """Return whether the word that an image stands for is none of the vocabulary's."""
    return c.number("image_token_index", least=0) >= text.number("vocab_size")


def gemma3_text(c: Config) -> Config:
    """Gemma 3's own text."""
    return subconfig(c, "text_config", "gemma3_text")


@family("gemma3", heads=heads(gemma3_text))
def gemma3(c: Config) -> Module:
    """Gemma 3 (arXiv 2503.19786): an image's patches are averaged to ``mm_tokens_per_image``, then projected."""
    vision, text = subconfig(c, "vision_config", "siglip_vision_model", free=True), gemma3_text(c)
    h = vision.size("hidden_size")
    map_ = Linear("mm_input_projection", h, text.size("hidden_size"))
    projector = Projector("multi_modal_projector", (Norm("mm_soft_emb_norm", "rmsnorm", h), map_))
    made = reader(tower(vision), (projector,), text, vectors=c.number("mm_tokens_per_image"), width=h)
    return made.replace(copies_ids=has_no_row(c, text))


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
gemma_text = text_of("gemma", over=GEMMA_2B)


@family("paligemma", heads=heads(gemma_text, cap="final_logit_softcapping"))
def paligemma(c: Config) -> Module:
    """PaliGemma (arXiv 2407.07726): one linear map of each patch's vector."""
    vision, text = subconfig(c, "vision_config", "siglip_vision_model", over=SIGLIP_SO, free=True), gemma_text(c)
    h = vision.size("hidden_size")
    projector = Linear("multi_modal_projector.linear", h, c.size("projection_dim"), "", True)
    made = reader(tower(vision), (projector,), text, vectors=patches_of(vision), width=h)
    return made.replace(copies_ids=has_no_row(c, text))
