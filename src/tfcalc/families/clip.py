"""CLIP and SigLIP: a text and a vision tower whose vectors are compared."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import Attention, layer
from tfcalc.core.component import Component
from tfcalc.core.number import Num, product
from tfcalc.families.config import Config
from tfcalc.families.family import family
from tfcalc.families.heads import bare
from tfcalc.families.images import (
    feed_forward,
    grid,
    image_classifier,
    norms,
    pair,
    patches,
    self_attention,
    tower,
)
from tfcalc.leaves import embedding, learned_position, linear, norm, parameter
from tfcalc.workload import Sequences, Workload

IMAGES_ONLY = "ForImageClassification"
NORMS = ("layer_norm1", "layer_norm2")


def encoder(c: Config, run: Workload, stream: Sequences, *, causal: bool = False) -> Component:
    """Pre-norm layers with biases everywhere."""
    h = c.size("hidden_size")
    parts = (
        self_attention(c, run, stream, causal=causal),
        feed_forward(c, run, stream),
        *norms(NORMS, h, stream.tokens),
    )
    return Component(
        "encoder", "encoder", parts=(layer("layers", parts, stream.tokens * h, copies=c.size("num_hidden_layers")),)
    )


def text_tower(c: Config, run: Workload, *further: Component, causal: bool) -> Component:
    """Tokens with trained positions, layers, a final norm."""
    h, stream = c.size("hidden_size"), run.target
    return Component(
        "text_model",
        "encoder",
        parts=(
            Component(
                "embeddings",
                "embedding",
                parts=(
                    embedding("token_embedding", c.size("vocab_size"), h, stream.tokens),
                    learned_position("position_embedding", c.size("max_position_embeddings"), h, stream.tokens),
                ),
            ),
            encoder(c, run, stream, causal=causal),
            norm("final_layer_norm", "layernorm", h, stream.tokens),
            *further,
        ),
    )


def vision_tower(c: Config, run: Workload, embeddings: Component, stream: Sequences, *further: Component) -> Component:
    """Embeddings, layers, a final norm."""
    final = norm("post_layernorm", "layernorm", c.size("hidden_size"), stream.tokens)
    return Component("vision_model", "encoder", parts=(embeddings, encoder(c, run, stream), final, *further))


def projection(field: str, name: str) -> object:
    """Placeholder."""


@family(
    "clip_text_model",
    architecture="CLIPTextModel",
    heads={"Model": bare, "ModelWithProjection": lambda c, run, base: _projected(c, run, base, "text_projection")},
    vocab_size=49408,
    hidden_size=512,
    intermediate_size=2048,
    projection_dim=512,
    num_hidden_layers=12,
    num_attention_heads=8,
    max_position_embeddings=77,
    hidden_act="quick_gelu",
)
def clip_text(c: Config, run: Workload) -> Component:
    """CLIP's text tower looks only back."""
    return text_tower(c, run, causal=True)


@family(
    "clip_vision_model",
    architecture="CLIPVisionModel",
    heads={"Model": bare, "ModelWithProjection": lambda c, run, base: _projected(c, run, base, "visual_projection")},
    hidden_size=768,
    intermediate_size=3072,
    projection_dim=512,
    num_hidden_layers=12,
    num_attention_heads=12,
    num_channels=3,
    image_size=224,
    patch_size=32,
    hidden_act="quick_gelu",
)
def clip_vision(c: Config, run: Workload) -> Component:
    """A class token before the patches, which have no bias; a norm before the layers too."""
    h, count = c.size("hidden_size"), product(grid(c))
    stream = Sequences(run.batch_size, count + 1)
    embeddings = Component(
        "embeddings",
        "embedding",
        parts=(
            parameter("class_embedding", h),
            patches(
                "patch_embedding", c, run.batch_size * count, width=h, kernel=pair(c, "patch_size"), bias=False
            ),
            learned_position("position_embedding", stream.length, h, stream.tokens),
        ),
    )
    whole = vision_tower(c, run, embeddings, stream)
    # the name is misspelt in the checkpoint
    return whole._replace(parts=(embeddings, norm("pre_layrnorm", "layernorm", h, stream.tokens), *whole.parts[1:]))


def _projected(c: Config, run: Workload, base: Component, name: str) -> Iterator[Component]:
    yield base
    yield linear(name, c.size("hidden_size"), c.size("projection_dim"), run.batch_size, bias=False)


def _sub(c: Config, part: str) -> str:
    """Where the config of a tower stands: old files have it twice, and the one that ends in ``_dict`` wins."""
    return f"{part}_config_dict" if c.get(f"{part}_config_dict") else f"{part}_config"


@family(
    "clip",
    architecture="CLIPForImageClassification",
    heads={
        "Model": bare,
        IMAGES_ONLY: lambda c, run, base: _classified(c, run, base, "clip_vision_model"),
    },
    projection_dim=512,
)
def clip(c: Config, run: Workload) -> Component:
    """Radford et al. 2021 (arXiv 2103.00020): both towers are projected without bias; a trained temperature."""
    vision = tower(c, run, _sub(c, "vision"), "vision_model", "clip_vision_model")
    if c.head == IMAGES_ONLY:
        return Component("clip", "model", parts=(vision,))
    shared, widths = c.size("projection_dim"), _widths(c, "clip_vision_model", "clip_text_model")
    return Component(
        "clip",
        "model",
        parts=(
            tower(c, run, _sub(c, "text"), "text_model", "clip_text_model"),
            vision,
            *(
                linear(f"{name}_projection", width, shared, run.batch_size, bias=False)
                for name, width in zip(("visual", "text"), widths, strict=True)
            ),
            parameter("logit_scale"),
        ),
    )


def _widths(c: Config, vision: str, text: str) -> tuple[Num, Num]:
    return c.sub(_sub(c, "vision"), vision).size("hidden_size"), c.sub(_sub(c, "text"), text).size("hidden_size")


def _classified(c: Config, run: Workload, base: Component, vision: str) -> Iterator[Component]:
    """The vision tower by itself, with a matrix for the classes."""
    yield from base.parts
    head = image_classifier("classifier", width=lambda c: c.sub(_sub(c, "vision"), vision).size("hidden_size"))
    yield from list(head(c, run, base))[1:]
