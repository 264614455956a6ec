"""Vision transformers: ViT, and DeiT and DINOv2 that differ by tokens, scales and the feed-forward network."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import GATED, LLAMA_NAMES, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, floor_div, scaled
from tfcalc.families.images import (
    drops,
    feed_forward,
    image,
    image_classifier,
    norms,
    pair,
    patches,
    self_attention,
)
from tfcalc.families.llama import head_dim
from tfcalc.leaves import activation, convolution, learned_position, linear, norm, parameter
from tfcalc.workload import Sequences, Workload

MASKED = "ForMaskedImageModeling"
NORMS = ("layernorm_before", "layernorm_after")


def reconstruction(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """SimMIM (arXiv 2111.09886): each patch's pixels, by a convolution with a kernel of one."""
    yield base
    pixels = c.size("encoder_stride") * c.size("encoder_stride") * c.size("num_channels")
    yield convolution("decoder", c.size("hidden_size"), pixels, (1, 1), image(c, run).tokens)


IMAGE_HEADS = {"Model": bare, "ForImageClassification": image_classifier("classifier"), MASKED: reconstruction}


def embeddings(c: Config, run: Workload, stream: Sequences, *, tokens: tuple[str, ...], mask: bool) -> Component:
    """A vector for each patch, ``tokens`` before them, a trained position for all; a ``mask`` for hidden patches."""
    h, images = c.size("hidden_size"), image(c, run).tokens
    return Component(
        "embeddings",
        "embedding",
        parts=(
            *(parameter(name, h) for name in tokens),
            *([parameter("mask_token", h)] if mask else []),
            patches("patch_embeddings.projection", c, images, width=h, kernel=pair(c, "patch_size")),
            learned_position("position_embeddings", stream.length, h, stream.tokens),
        ),
    )


def attention(c: Config, run: Workload, stream: Sequences) -> Component:
    """Queries, keys and values with or without biases (``qkv_bias``), the output always with one."""
    return self_attention(
        c,
        run,
        stream,
        name="attention",
        names=LLAMA_NAMES,
        head_dim=head_dim(c),
        bias=c.flag("qkv_bias"),
        output_bias=True,
    )


def pooler(c: Config, run: Workload) -> Component:
    """A map of the first token: only where nothing else stands on the model."""
    wide = c.size("pooler_output_size") if c.get("pooler_output_size") else c.size("hidden_size")
    return Component(
        "pooler",
        "pooler",
        parts=(
            linear("dense", c.size("hidden_size"), wide, run.batch_size),
            activation("activation", c.word("pooler_act"), run.batch_size * wide),
        ),
    )


def encoder(c: Config, run: Workload, tokens: tuple[str, ...], name: str) -> Component:
    """Embeddings, pre-norm layers, a final norm, and a pooler where no head stands on it."""
    h, stream = c.size("hidden_size"), image(c, run, len(tokens))
    parts = (attention(c, run, stream), feed_forward(c, run, stream), *norms(NORMS, h, stream.tokens))
    return Component(
        name,
        "encoder",
        parts=(
            embeddings(c, run, stream, tokens=tokens, mask=c.head == MASKED),
            layer(
                "layers",
                parts,
                stream.tokens * h,
                copies=c.size("num_hidden_layers"),
                ends_with_sum=not drops(c, run),
            ),
            norm("layernorm", "layernorm", h, stream.tokens),
            *([pooler(c, run)] if c.head == "Model" else []),
        ),
    )


@family("vit", architecture="ViTForImageClassification", heads=IMAGE_HEADS)
def vit(c: Config, run: Workload) -> Component:
    """Dosovitskiy et al. 2020 (arXiv 2010.11929)."""
    return encoder(c, run, ("cls_token",), "vit")


@family(
    "deit",
    architecture="DeiTForImageClassification",
    heads=IMAGE_HEADS
    | {"ForImageClassificationWithTeacher": image_classifier("cls_classifier", "distillation_classifier")},
)
def deit(c: Config, run: Workload) -> Component:
    """Touvron et al. 2020 (arXiv 2012.12877): a second token that learns from a teacher."""
    return encoder(c, run, ("cls_token", "distillation_token"), "deit")


def _twice(c: Config) -> Num:
    return 2 * c.size("hidden_size")


@family(
    "dinov2",
    architecture="Dinov2ForImageClassification",
    heads={"Model": bare, "Backbone": bare, "ForImageClassification": image_classifier("classifier", width=_twice)},
)
def dinov2(c: Config, run: Workload) -> Component:
    """Oquab et al. 2023 (arXiv 2304.07193): scales for what is added; the head reads the class token and the mean."""
    h, stream = c.size("hidden_size"), image(c, run, 1)
    parts = (
        attention(c, run, stream),
        parameter("layer_scale1.lambda1", h, minor=True),
        dinov2_feed_forward(c, run, stream),
        parameter("layer_scale2.lambda1", h, minor=True),
        *norms(("norm1", "norm2"), h, stream.tokens),
    )
    return Component(
        "dinov2",
        "encoder",
        parts=(
            embeddings(c, run, stream, tokens=("cls_token",), mask=c.flag("use_mask_token")),
            layer("encoder.layer", parts, stream.tokens * h, copies=c.size("num_hidden_layers")),
            norm("layernorm", "layernorm", h, stream.tokens),
        ),
    )


def dinov2_feed_forward(c: Config, run: Workload, stream: Sequences) -> Component:
    """Of ``mlp_ratio`` times the hidden size; SwiGLU of two thirds of that, rounded up to a multiple of 8."""
    inner = scaled(c.size("hidden_size"), c.factor("mlp_ratio"))
    if not c.flag("use_swiglu_ffn"):
        return feed_forward(c, run, stream, inner=inner)
    inner = 8 * ceil_div(floor_div(2 * inner, 3), 8)
    block = FeedForward(c.size("hidden_size"), inner, "silu", bias=True, names=GATED, gated=True)
    return block("mlp", stream, run)


@family("dinov3_vit", architecture="DINOv3ViTModel", heads={"Model": bare, "Backbone": bare})
def dinov3(c: Config, run: Workload) -> Component:
    """Siméoni et al. 2025 (arXiv 2508.10104): rotary positions, and register tokens beside the class token."""
    h, registers = c.size("hidden_size"), c.size("num_register_tokens", least=0)
    stream, gate = image(c, run, 1 + registers), c.flag("use_gated_mlp")
    mixer = self_attention(
        c,
        run,
        stream,
        name="attention",
        names=LLAMA_NAMES,
        bias=c.flag("query_bias"),
        key_bias=c.flag("key_bias"),
        value_bias=c.flag("value_bias"),
        output_bias=c.flag("proj_bias"),
    )
    parts = (
        mixer,
        parameter("layer_scale1.lambda1", h, minor=True),
        feed_forward(c, run, stream, names=GATED if gate else GATED[1:], bias=c.flag("mlp_bias"), gated=gate),
        parameter("layer_scale2.lambda1", h, minor=True),
        *norms(("norm1", "norm2"), h, stream.tokens),
    )
    embedded = (
        *(parameter(name, h) for name in ("cls_token", "mask_token")),
        parameter("register_tokens", registers, h),
        patches("patch_embeddings", c, image(c, run).tokens, width=h, kernel=pair(c, "patch_size")),
    )
    return Component(
        "dinov3",
        "encoder",
        parts=(
            Component("embeddings", "embedding", parts=embedded),
            layer("model.layer", parts, stream.tokens * h, copies=c.size("num_hidden_layers")),
            norm("norm", "layernorm", h, stream.tokens),
        ),
    )
