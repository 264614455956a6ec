"""CLIP and SigLIP: a text and a vision tower whose vectors are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tfcalc.blocks import Attention, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, product
from tfcalc.families.images import (
    feed_forward,
    grid,
    image,
    image_classifier,
    norms,
    pair,
    part,
    patches,
    self_attention,
)
from tfcalc.families.unread import unread_heads
from tfcalc.leaves import embedding, learned_position, linear, norm, parameter, sinusoidal_position
from tfcalc.leaves.similarity import similarity
from tfcalc.workload import Sequences, Workload

Table = Callable[[str, Num, Num, Num], Component]
IMAGES_ONLY = "ForImageClassification"
NORMS = ("layer_norm1", "layer_norm2")
FUSED = ("in_proj[q]", "in_proj[k]", "in_proj[v]", "out_proj")
"""torch.nn.MultiheadAttention keeps one matrix for three, here told apart: the query is one vector."""


def encoder(c: Config, run: Workload, stream: Sequences, *, causal: bool = False) -> Component:
    """Pre-norm layers with biases everywhere."""
    h = c.size("hidden_size")
    parts = (
        self_attention(c, run, stream, causal=causal),
        feed_forward(c, run, stream),
        *norms(NORMS, h, stream.tokens),
    )
    layers = layer("layers", parts, stream.tokens * h, copies=c.size("num_hidden_layers"), ends_with_sum=True)
    return Component("encoder", "encoder", parts=(layers,))


def text_tower(
    c: Config, run: Workload, *further: Component, causal: bool, position: Table = learned_position
) -> Component:
    """Tokens with positions, layers, a final norm."""
    h, stream = c.size("hidden_size"), run.target
    tokens = embedding("token_embedding", c.size("vocab_size"), h, stream.tokens)
    positions = position("position_embedding", c.size("max_position_embeddings"), h, stream.tokens)
    return Component(
        "text_model",
        "encoder",
        parts=(
            Component("embeddings", "embedding", parts=(tokens, positions)),
            encoder(c, run, stream, causal=causal),
            norm("final_layer_norm", "layernorm", h, stream.tokens),
            *further,
        ),
    )


def vision_tower(c: Config, run: Workload, *embeddings: Component, stream: Sequences) -> Component:
    """Embeddings of patches, layers, a final norm."""
    return Component(
        "vision_model",
        "encoder",
        parts=(
            Component("embeddings", "embedding", parts=embeddings),
            encoder(c, run, stream),
            norm("post_layernorm", "layernorm", c.size("hidden_size"), stream.tokens),
        ),
    )


def projected(name: str) -> Head:
    """A tower's vector in the space that both share."""

    def head(c: Config, run: Workload, base: Component) -> Iterator[Component]:
        yield base
        yield linear(name, c.size("hidden_size"), c.size("projection_dim"), run.batch_size, bias=False)

    return head


@family(
    "clip_text_model",
    architecture="CLIPTextModel",
    heads={"Model": bare, "ModelWithProjection": projected("text_projection")},
)
def clip_text(c: Config, run: Workload) -> Component:
    """CLIP's text tower looks only back."""
    return text_tower(c, run, causal=True)


@family(
    "clip_vision_model",
    architecture="CLIPVisionModel",
    heads={"Model": bare, "ModelWithProjection": projected("visual_projection")},
)
def clip_vision(c: Config, run: Workload) -> Component:
    """A class token before the patches, which have no bias; a norm before the layers too."""
    h, stream = c.size("hidden_size"), image(c, run, 1)
    whole = vision_tower(
        c,
        run,
        parameter("class_embedding", h),
        patches("patch_embedding", c, image(c, run).tokens, width=h, kernel=pair(c, "patch_size"), bias=False),
        learned_position("position_embedding", stream.length, h, stream.tokens),
        stream=stream,
    )
    first, *rest = whole.parts
    return whole._replace(parts=(first, norm("pre_layrnorm", "layernorm", h, stream.tokens), *rest))  # as it is spelt


def both(c: Config, run: Workload, text: str, vision: str) -> tuple[Component, ...]:
    """The text and the vision tower; only the latter where images are classified."""
    seen = nested(tower(c, "vision", vision), run, "vision_model")
    return (seen,) if c.head == IMAGES_ONLY else (nested(tower(c, "text", text), run, "text_model"), seen)


def tower(c: Config, which: str, model_type: str) -> Config:
    """The config of a tower: old files have it twice, and the one that ends in ``_dict`` wins."""
    twice = c.get(f"{which}_config_dict") is not None
    return part(c, f"{which}_config_dict" if twice else f"{which}_config", model_type)


def width(c: Config, which: str, model_type: str) -> Num:
    """The hidden size of a tower."""
    return tower(c, which, model_type).size("hidden_size")


def classifier(model_type: str) -> Head:
    """Classes of an image, from its vision tower."""
    return image_classifier("classifier", width=lambda c: width(c, "vision", model_type))


@family(
    "clip",
    architecture="CLIPForImageClassification",
    heads={"Model": bare, IMAGES_ONLY: classifier("clip_vision_model")},
)
def clip(c: Config, run: Workload) -> Component:
    """Radford et al. 2021 (arXiv 2103.00020): both towers are projected without bias; a trained temperature."""
    towers = both(c, run, "clip_text_model", "clip_vision_model")
    if c.head == IMAGES_ONLY:
        return towers[0]
    shared = c.size("projection_dim")
    seen, read = width(c, "vision", "clip_vision_model"), width(c, "text", "clip_text_model")
    return Component(
        "clip",
        "model",
        parts=(
            *towers,
            linear("visual_projection", seen, shared, run.batch_size, bias=False),
            linear("text_projection", read, shared, run.batch_size, bias=False),
            similarity("logits", run.batch_size, run.batch_size, shared),
            parameter("logit_scale"),
        ),
    )


@family("siglip_text_model", architecture="SiglipTextModel", heads={"Model": bare})
@family("siglip2_text_model", architecture="Siglip2TextModel", heads={"Model": bare})
def siglip_text(c: Config, run: Workload) -> Component:
    """SigLIP's text tower looks both ways, and projects its last vector itself."""
    h, given = c.size("hidden_size"), c.optional("projection_size")
    return text_tower(c, run, linear("head", h, h if given is None else given, run.batch_size), causal=False)


@family("siglip_vision_model", architecture="SiglipVisionModel", heads={"Model": bare})
def siglip_vision(c: Config, run: Workload) -> Component:
    """No class token: a trained query reads the patches."""
    stream = image(c, run)
    embed = patches("patch_embedding", c, stream.tokens, width=c.size("hidden_size"), kernel=pair(c, "patch_size"))
    return _with_head(c, run, embed, product(grid(c)), stream)


@family("siglip2_vision_model", architecture="Siglip2VisionModel", heads={"Model": bare})
def siglip2_vision(c: Config, run: Workload) -> Component:
    """Images of any shape, of up to ``num_patches`` patches."""
    h, count, side = c.size("hidden_size"), c.size("num_patches"), c.size("patch_size")
    stream = run.beside(count)
    embed = linear("patch_embedding", c.size("num_channels") * side * side, h, stream.tokens, input_gradient=False)
    return _with_head(c, run, embed, count, stream)


def _with_head(c: Config, run: Workload, embed: Component, count: Num, stream: Sequences) -> Component:
    positions = learned_position("position_embedding", count, c.size("hidden_size"), stream.tokens)
    whole = vision_tower(c, run, embed, positions, stream=stream)
    head = [pooling(c, run, stream)] if c.flag("vision_use_head") else []
    return whole._replace(parts=(*whole.parts, *head))


def pooling(c: Config, run: Workload, stream: Sequences) -> Component:
    """One trained query attends to all patches; a feed-forward network after it."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    probe = run.beside(1)
    block = Attention(h, a, a, d, d, bias=True, names=FUSED)
    return Component(
        "head",
        "pooler",
        parts=(
            parameter("probe", h),
            block("attention", probe, stream, run, causal=False),
            norm("layernorm", "layernorm", h, probe.tokens),
            feed_forward(c, run, probe),
        ),
    )


@family(
    "siglip",
    architecture="SiglipForImageClassification",
    heads={"Model": bare, IMAGES_ONLY: classifier("siglip_vision_model")},
)
def siglip(c: Config, run: Workload) -> Component:
    """Zhai et al. 2023 (arXiv 2303.15343): a trained temperature and bias for each pair's logit."""
    return _compared(c, run, "siglip_text_model", "siglip_vision_model")


@family(
    "siglip2",
    architecture="Siglip2ForImageClassification",
    heads={"Model": bare, IMAGES_ONLY: classifier("siglip2_vision_model")},
)
def siglip2(c: Config, run: Workload) -> Component:
    """Tschannen et al. 2025 (arXiv 2502.14786)."""
    return _compared(c, run, "siglip2_text_model", "siglip2_vision_model")


def _compared(c: Config, run: Workload, text: str, vision: str) -> Component:
    towers = both(c, run, text, vision)
    if c.head == IMAGES_ONLY:
        return unread_heads(towers[0], run)
    pairs = similarity("logits", run.batch_size, run.batch_size, width(c, "vision", vision))
    return Component("siglip", "model", parts=(*towers, pairs, parameter("logit_scale"), parameter("logit_bias")))


@family("tipsv2_text_model", architecture="Tipsv2TextModel", heads={"Model": bare})
def tipsv2_text(c: Config, run: Workload) -> Component:
    """The text tower of TIPSv2 (transformers' Tipsv2TextModel): fixed positions, which are not stored."""
    return text_tower(c, run, causal=False, position=partial(sinusoidal_position, stored="nothing"))
