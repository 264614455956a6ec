"""GIT: BERT's layers as a decoder that reads an image's patches before the text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfcalc.blocks.keeping import by_token, keeping
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num, product
from tfcalc.families.bert import attention, embeddings, layers, positions
from tfcalc.families.clip import clip_vision
from tfcalc.families.images import grid
from tfcalc.leaves import linear, norm, parameter
from tfcalc.nn.counted import counted
from tfcalc.workload import Workload


@family("git_vision_model", architecture="GitVisionModel", heads={"Model": bare})
def git_vision(c: Config, run: Workload) -> Component:
    """CLIP's vision tower."""
    return Component("image_encoder", "encoder", parts=(counted(clip_vision(c), run),))


def projection(c: Config, seen: Num, vectors: Num) -> Component:
    """A map from the image's width to the text's, and a norm."""
    h = c.size("hidden_size")
    parts = (linear("0", seen, h, vectors), norm("1", "layernorm", h, vectors))
    return Component("visual_projection.visual_projection", "projection", parts=parts)


def patches(c: Config) -> Num:
    """The vectors of all images that stand before the text."""
    images = c.optional("num_image_with_embedding")
    return (1 if images is None else images) * (product(grid(c.sub("vision_config", "git_vision_model"))) + 1)


def with_images(c: Config, run: Workload) -> Workload:
    """The text behind the vectors of its images, of which a decoded token sees the keys as well."""
    before = patches(c)
    return replace(run, seq_len=before + run.seq_len, cached=before + run.size("cached"))


def logits(c: Config, run: Workload, base: Component) -> Iterable[Component]:
    """Logits of every vector, those of the images too."""
    return lm_head("output", bias=True)(c, with_images(c, run), base)


def mixer(c: Config, run: Workload) -> Component:
    """Images see each other both ways, words only back; of all, keys and values are kept."""
    a, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    return keeping(attention(c, run), *by_token(run.target, run.target, a, {"K": d, "V": d}))


@family("git", architecture="GitForCausalLM", heads={"Model": bare, "ForCausalLM": logits})
def git(c: Config, run: Workload) -> Component:
    """Wang et al. 2022 (arXiv 2205.14100); several images (frames of a film) have a vector each for their place."""
    vision, images = c.sub("vision_config", "git_vision_model"), c.optional("num_image_with_embedding")
    seen, count = vision.size("hidden_size"), 1 if images is None else images
    both = with_images(c, run)
    times = parameter("img_temporal_embedding", 1, 1, seen)._replace(copies=count)
    return Component(
        "git",
        "decoder",
        parts=(
            embeddings(c, run, positions(c, run)),
            git_vision(vision, replace(run, batch_size=run.batch_size * count)),
            Component("encoder", "encoder", parts=(layers(c, both, mixer(c, both)),)),
            projection(c, seen, run.beside(patches(c)).tokens),
            *([] if images is None else [times]),
        ),
    )
