"""GIT: BERT's layers as a decoder that reads an image's patches before the text."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import product
from tfcalc.families import bert_kit as kit
from tfcalc.families.clip import clip_vision
from tfcalc.families.images import grid
from tfcalc.nn.basic import Linear
from tfcalc.nn.captioner import BehindImages, Captioner, Moments, PlainTower
from tfcalc.nn.encoder import Layers
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.reader import Projector
from tfcalc.nn.tower import Tower


@family("git_vision_model", architecture="GitVisionModel", heads={"Model": bare})
def git_vision(c: Config) -> Module:
    """CLIP's vision tower, whose last norm is that of all vectors."""
    tower = clip_vision(c)
    assert isinstance(tower, Tower)
    return PlainTower("image_encoder", tower.but(alone=False, pools=False))


def logits(c: Config, base: Module) -> Module:
    """Logits of every vector, those of the images too; the loss reads those of words."""
    tied = "embedding" if c.flag("tie_word_embeddings") else None
    head = Linear("output", c.size("hidden_size"), c.size("vocab_size"), "vocab", True, tied, "output")
    return WithHead("", base, head, cuts=True)


@family("git", heads={"Model": bare, "ForCausalLM": logits})
def git(c: Config) -> Module:
    """Wang et al. 2022 (arXiv 2205.14100); several images (frames of a film) have a vector each for their place."""
    vision, images = c.sub("vision_config", "git_vision_model"), c.optional("num_image_with_embedding")
    h, seen, vectors = c.size("hidden_size"), vision.size("hidden_size"), product(grid(vision)) + 1
    maps = Linear("0", seen, h, "", True), kit.norm(c, "1")
    place = Weight("img_temporal_embedding", (1, 1, seen), key="")
    return Captioner(
        "git",
        kit.embeddings(c, kit.positions(c)),
        git_vision(vision),
        Layers("encoder", (), kit.stack(c, kit.attention(c, of=BehindImages))),
        Projector("visual_projection.visual_projection", maps),
        None if images is None else Moments(place.name, place, images),
        1 if images is None else images,
        vectors,
        seen,
    )
