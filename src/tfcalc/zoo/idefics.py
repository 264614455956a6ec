"""Idefics3 and SmolVLM: patches that lie side by side, through one linear map, among Llama's words."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare
from tfcalc.core.number import product
from tfcalc.nn.basic import Linear
from tfcalc.nn.embeddings import TOKENS
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.vision_language import heads, llama_text, patches_of, reader, tower
from tfcalc.zoo.blocks.vision_tower import Tower, grid
from tfcalc.zoo.clip import encoder


@family("idefics3_vision", "smolvlm_vision", heads={"Transformer": bare})
def idefics3_vision(c: Config) -> Module:
    """SigLIP without its head."""
    places = vision_tower.positions(c, "position_embedding", looked_up=TOKENS)
    table = vision_tower.embeddings(c, (), vision_tower.patches(c, "patch_embedding"), places)
    (last,) = vision_tower.norms(c, "post_layernorm")
    return Tower("vision_model", vision_tower.pixels(c), product(grid(c)), table, None, encoder(c), last)


@family("idefics3", "smolvlm", heads=heads(llama_text))
def idefics3(c: Config) -> Module:
    """Idefics3 (arXiv 2408.12637), SmolVLM (arXiv 2504.05299): patches side by side, through one linear map."""
    vision, text = subconfig(c, "vision_config", f"{c.model_type}_vision"), llama_text(c)
    together = c.size("scale_factor") * c.size("scale_factor")
    wide = vision.size("hidden_size") * together
    map_ = Linear("connector.modality_projection.proj", wide, text.size("hidden_size"))
    sees, vectors = tower(vision, "vision_model"), patches_of(vision)
    return reader(sees, (map_,), text, vectors=vectors, width=wide, together=together, name="text_model")
