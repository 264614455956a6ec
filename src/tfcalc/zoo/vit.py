"""Vision transformers: ViT, and DeiT and DINOv2 that differ by tokens, scales and the feed-forward network."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.number import Num, ceil_div, floor_div, product, scaled
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Parameter, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope
from tfcalc.zoo.blocks import decoders, vision_tower
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, stack
from tfcalc.zoo.blocks.vision_tower import BOTH, MASKED, VIT_NORMS, LayerScale, Pooler, Tower, gated, grid

IMAGE_HEADS = {
    "Model": bare,
    "ForImageClassification": vision_tower.classifier("classifier"),
    MASKED: vision_tower.reconstruction,
}


def attention(c: Config) -> Attention:
    """Queries, keys and values with or without biases (``qkv_bias``), the output always with one."""
    drops, width = "attention_probs_dropout_prob", decoders.head_dim(c)
    bias = c.flag("qkv_bias")
    return vision_tower.attention(c, name="attention", names=LLAMA_NAMES, width=width, bias=bias, dropout=drops)


def pooler(c: Config) -> Pooler | None:
    """A map of the first token: only for a model without a head."""
    if c.head != "Model":
        return None
    h, wide = c.size("hidden_size"), c.optional("pooler_output_size")
    return Pooler("pooler", Linear("dense", h, h if wide is None else wide, "", True), c.word("pooler_act"))


def tower(c: Config, tokens: tuple[str, ...], name: str) -> Tower:
    """Embeddings, pre-norm layers, a final norm, and a pooler where there is no head."""
    drops, mask = bool(c.get("hidden_dropout_prob")), ("mask_token",) if c.head == MASKED else ()
    sublayers = attention(c), vision_tower.network(c)
    layer = PreNorm("layers", sublayers, vision_tower.norms(c, *VIT_NORMS), drops)
    patches = vision_tower.patches(c, "patch_embeddings.projection")
    places = vision_tower.positions(c, "position_embeddings", len(tokens))
    table = vision_tower.embeddings(c, tokens, patches, places, mask, dropped=drops)
    (last,) = vision_tower.norms(c, "layernorm")
    count = product(grid(c)) + len(tokens)
    return Tower(name, vision_tower.pixels(c), count, table, None, stack(c, layer), last, pooler(c))


@family("vit", heads=IMAGE_HEADS)
def vit(c: Config) -> Module:
    """Dosovitskiy et al. 2020 (arXiv 2010.11929)."""
    return tower(c, ("cls_token",), "vit")


@family(
    "deit",
    heads=IMAGE_HEADS
    | {"ForImageClassificationWithTeacher": vision_tower.classifier("cls_classifier", "distillation_classifier")},
)
def deit(c: Config) -> Module:
    """Touvron et al. 2020 (arXiv 2012.12877): a second token that learns from a teacher."""
    return tower(c, ("cls_token", "distillation_token"), "deit")


def _twice(c: Config) -> Num:
    return 2 * c.size("hidden_size")


def scales(c: Config) -> tuple[Parameter, ...]:
    """Factors of the outputs of both sub-layers."""
    return tuple(parameter(f"layer_scale{place}.lambda1", c.size("hidden_size"), minor=True) for place in (1, 2))


@family(
    "dinov2",
    heads={
        "Model": bare,
        "Backbone": bare,
        "ForImageClassification": vision_tower.classifier("classifier", width=_twice, reads=BOTH),
    },
)
def dinov2(c: Config) -> Module:
    """Oquab et al. 2023 (arXiv 2304.07193): scales for what is added; the head reads the class token and the mean."""
    mask = ("mask_token",) if c.flag("use_mask_token") else ()
    norms = vision_tower.norms(c, "norm1", "norm2")
    layer = LayerScale("encoder.layer", (attention(c), dinov2_network(c)), norms, scalers=scales(c))
    patches = vision_tower.patches(c, "patch_embeddings.projection")
    places = vision_tower.positions(c, "position_embeddings", 1)
    drops = bool(c.get("hidden_dropout_prob"))
    table = vision_tower.embeddings(c, ("cls_token",), patches, places, mask, dropped=drops)
    (last,) = vision_tower.norms(c, "layernorm")
    return Tower("dinov2", vision_tower.pixels(c), product(grid(c)) + 1, table, None, stack(c, layer), last)


def dinov2_network(c: Config) -> Module:
    """Network of ``mlp_ratio`` times the hidden size; SwiGLU of two thirds of that, rounded up to a multiple of 8."""
    inner = scaled(c.size("hidden_size"), c.factor("mlp_ratio"))
    if not c.flag("use_swiglu_ffn"):
        return vision_tower.network(c, inner=inner)
    return gated(c, 8 * ceil_div(floor_div(2 * inner, 3), 8), "silu")


@family("dinov3_vit", heads={"Model": bare, "Backbone": bare})
def dinov3(c: Config) -> Module:
    """Siméoni et al. 2025 (arXiv 2508.10104): rotary positions, and register tokens beside the class token."""
    h, registers = c.size("hidden_size"), c.size("num_register_tokens", least=0)
    mixer = vision_tower.attention(
        c,
        name="attention",
        names=LLAMA_NAMES,
        bias=(c.flag("query_bias"), c.flag("key_bias"), c.flag("value_bias")),
        output_bias=c.flag("proj_bias"),
        rope=Rope(c.quotient("hidden_size", "num_attention_heads"), behind=1 + registers),
    )
    bias, inner = c.flag("mlp_bias"), c.size("intermediate_size")
    if c.flag("use_gated_mlp"):
        network: Module = gated(c, inner, c.word("hidden_act"), bias=bias)
    else:
        network = vision_tower.network(c, names=decoders.PLAIN, bias=bias)
    layer = LayerScale("model.layer", (mixer, network), vision_tower.norms(c, "norm1", "norm2"), scalers=scales(c))
    tokens = parameter("cls_token", h), parameter("register_tokens", registers, h)
    table = vision_tower.embeddings(c, tokens, vision_tower.patches(c, "patch_embeddings"), None, ("mask_token",))
    (last,) = vision_tower.norms(c, "norm")
    count = product(grid(c)) + 1 + registers
    return Tower("dinov3", vision_tower.pixels(c), count, table, None, stack(c, layer), last)
