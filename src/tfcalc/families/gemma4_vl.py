"""Gemma 4 with images and sounds, where a config has a part for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.core.number import Num
from tfcalc.families import image_kit
from tfcalc.families.kit import SANDWICH, kv_heads
from tfcalc.families.layers import stack
from tfcalc.families.names import GATED, LLAMA_NAMES
from tfcalc.families.reader_kit import heads
from tfcalc.nn.basic import Buffer, Linear, Norm, buffer, parameter
from tfcalc.nn.chunked import ChunkedAttention
from tfcalc.nn.experts_beside import Beside
from tfcalc.nn.frames import Convolution
from tfcalc.nn.gemma_tower import Embedder, GemmaTower, NormedAttention, PatchEmbedder, Pool, RowsAndColumns
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.light_conformer import (
    Conformer,
    HalfNetwork,
    LightConformerLayer,
    LightConvolution,
    SubsampledSpectrogram,
)
from tfcalc.nn.limits import Clipped, FeedForwardWithLimits
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.reader import Multimodal
from tfcalc.nn.rope import Rope
from tfcalc.nn.shared_keys import SharingAttention
from tfcalc.nn.stack import around

COLOURS = 3
LIMITS = ("input_min", "input_max", "output_min", "output_max")


def clipped(names: tuple[str, ...]) -> tuple[str, ...]:
    """Matrices whose input and output may be clipped stand in a module of their own."""
    return tuple(f"{name}.linear" for name in names)


def maps(
    c: Config, names: Sequence[str], sizes: Sequence[tuple[Num, Num]], letters: Sequence[str]
) -> tuple[Clipped, ...]:
    """Matrices whose input and output may be clipped."""
    clips = c.flag("use_clipped_linears")
    made = zip(clipped(tuple(names)), sizes, letters, strict=True)
    return tuple(Clipped(name, *size, letter, clipped=clips) for name, size, letter in made)


def held_limits(c: Config, names: Sequence[str]) -> tuple[Buffer, ...]:
    """Where ``use_clipped_linears``: four numbers, kept with each matrix."""
    made = (f"{name}.{limit}" for name in names for limit in LIMITS) if c.flag("use_clipped_linears") else ()
    return tuple(buffer(name, 1) for name in made)


@family("gemma4_vision", heads={"Model": tops.bare})
def gemma4_vision(c: Config) -> Module:
    """A tower built as the text is; a table of positions for rows and one for columns."""
    h, patch, together = c.size("hidden_size"), c.size("patch_size"), c.number("pooling_kernel_size") ** 2
    layer = Sandwich("encoder.layers", (vision_attention(c), vision_network(c)), tuple(_norms(SANDWICH, h)))
    spread = ("std_bias", "std_scale") if c.flag("standardize") else ()
    return GemmaTower(
        "vision_tower",
        Linear("patch_embedder.input_proj", COLOURS * patch * patch, h),
        RowsAndColumns("patch_embedder.position_embedding_table", 2 * c.size("position_embedding_size"), h),
        stack(c, layer),
        Pool("pooler", together) if together > 1 else None,
        tuple(buffer(name, h) for name in spread),
    )


def _norms(names: Sequence[str], width: Num, form: str = "rmsnorm") -> Iterator[Norm]:
    return (Norm(name, form, width, "gemma4") for name in names)


def vision_attention(c: Config) -> NormedAttention:
    """Norms of each head's query, key and value; angles in two parts, one for rows and one for columns."""
    h, a, g, d = c.size("hidden_size"), c.size("num_attention_heads"), kv_heads(c), c.size("head_dim")
    *inward, outward = maps(c, LLAMA_NAMES, [(h, a * d), (h, g * d), (h, g * d), (a * d, h)], "QKVO")
    (value_norm,) = _norms(("v_norm",), d, "rmsnorm-plain")
    return NormedAttention(
        "self_attn",
        a,
        g,
        d,
        d,
        tuple(inward),
        tuple(_norms(("q_norm", "k_norm"), d)),
        outward,
        rope=Rope(d, by_sequence=True, copies=True),
        causal=False,
        dropout=bool(c.get("attention_dropout")),
        value_norm=value_norm,
        limits=held_limits(c, LLAMA_NAMES),
    )


def vision_network(c: Config) -> FeedForwardWithLimits:
    """Three maps."""
    h, f = c.size("hidden_size"), c.size("intermediate_size")
    gate, up, down = maps(c, GATED, [(h, f), (h, f), (f, h)], "g12")
    return FeedForwardWithLimits("mlp", gate, up, down, c.word("hidden_activation"), limits=held_limits(c, GATED))


@family("gemma4_audio", heads={"Model": tops.bare})
def gemma4_audio(c: Config) -> Module:
    """A Conformer (arXiv 2005.08100) over chunks: attention and a convolution between two feed-forward networks."""
    h = c.size("hidden_size")
    before, behind, out = _norms(("norm_pre_attn", "norm_post_attn", "norm_out"), h)
    first, last = half(c, "feed_forward1"), half(c, "feed_forward2")
    one = LightConformerLayer("layers", first, hearing(c), light_convolution(c), last, (before, behind, out))
    return Conformer(
        "audio_tower",
        subsampling(c),
        stack(c, one),
        Linear("output_proj", h, c.size("output_proj_dims"), "", True),
    )


def subsampling(c: Config) -> SubsampledSpectrogram:
    """Two convolutions that halve time and pitch, of as many pitches as the first has channels (in fours)."""
    first, second = c.numbers("subsampling_conv_channels", 2, least=1)
    return SubsampledSpectrogram(
        "subsample_conv_projection",
        Convolution("layer0.conv", 1, first, (3, 3), bias=False),
        Norm("layer0.norm", "layernorm-no-bias", first),
        Convolution("layer1.conv", first, second, (3, 3), bias=False),
        Norm("layer1.norm", "layernorm-no-bias", second),
        Linear("input_proj_linear", first // 4 * second, c.size("hidden_size")),
        first // 4 * 4,
    )


def half(c: Config, name: str) -> HalfNetwork:
    """A network four times as wide as the stream."""
    h, names = c.size("hidden_size"), ("ffw_layer_1", "ffw_layer_2")
    before, behind = _norms(("pre_layer_norm", "post_layer_norm"), h)
    up, down = maps(c, names, [(h, 4 * h), (4 * h, h)], ("", ""))
    return HalfNetwork(name, before, up, down, behind, c.word("hidden_act"), held_limits(c, names))


def hearing(c: Config) -> ChunkedAttention:
    """What a chunk sees of the past counts its own token."""
    h, a, names = c.size("hidden_size"), c.size("num_attention_heads"), ("q_proj", "k_proj", "v_proj", "post")
    d = c.quotient("hidden_size", "num_attention_heads")
    q, k, v, output = maps(c, names, [(h, a * d)] * 3 + [(a * d, h)], "QKVO")
    return ChunkedAttention(
        "self_attn",
        a,
        d,
        (q, k, v),
        parameter("per_dim_scale", d, minor=True),
        Linear("relative_k_proj", h, a * d, "R"),
        output,
        c.number("attention_chunk_size"),
        c.number("attention_context_left") - 1,
        c.number("attention_context_right", least=0),
        held_limits(c, names),
    )


def light_convolution(c: Config) -> LightConvolution:
    """Over as many tokens as the kernel is long."""
    h, k, names = c.size("hidden_size"), c.size("conv_kernel_size"), ("linear_start", "linear_end")
    before, norm = _norms(("pre_layer_norm", "conv_norm"), h)
    start, end = maps(c, names, [(h, 2 * h), (h, h)], ("", ""))
    channels = Convolution("depthwise_conv1d", h, h, (k,), bias=False, groups=h, before=k - 1)
    return LightConvolution("lconv1d", before, start, channels, norm, end, c.word("hidden_act"), held_limits(c, names))


def text(c: Config) -> Config:
    """The text of the family's own."""
    return subconfig(c, "text_config", f"{c.model_type}_text")


HEADS = heads(text, cap="final_logit_softcapping")


def embedder(name: str, fan_in: Num, width: Num, **more: Any) -> Embedder:
    """What a tower gives, or data, normalised without weights, as vectors of the text's width."""
    (norm,) = _norms(("embedding_pre_projection_norm",), fan_in, "rmsnorm-plain")
    return Embedder(name, norm, Linear("embedding_projection", fan_in, width), **more)


@family("gemma4", heads=HEADS)
def gemma4(c: Config) -> Module:
    """Gemma 4 (Google 2026): a tower for images, one for sounds, both or none."""
    chains: list[tuple[Module, ...]] = []
    width = text(c).size("hidden_size")
    if c.get("vision_config") is not None:
        vision = subconfig(c, "vision_config", "gemma4_vision")
        embed = embedder("embed_vision", vision.size("hidden_size"), width)
        chains.append((image_kit.nested(vision, "vision_tower"), embed))
    if c.get("audio_config") is not None:
        audio = subconfig(c, "audio_config", "gemma4_audio")
        embed = embedder("embed_audio", audio.size("output_proj_dims"), width, step=4)
        chains.append((image_kit.nested(audio, "audio_tower"), embed))
    return Multimodal("model", image_kit.nested(text(c), "language_model"), tuple(chains), copies_ids=True)


@family("gemma4_unified", heads=HEADS)
def gemma4_unified(c: Config) -> Module:
    """Gemma 4 without towers: pixels and samples of sound are projected at once."""
    chains: list[tuple[Module, ...]] = []
    width = text(c).size("hidden_size")
    if c.get("vision_config") is not None:
        chains.append((vision_embedder(c.within("vision_config", "gemma4_unified_vision"), width),))
    if c.get("audio_config") is not None:
        audio = c.within("audio_config", "gemma4_unified_audio")
        chains.append((embedder("embed_audio", audio.size("audio_embed_dim"), width, of_data=True),))
    return Multimodal("model", masked(text(c)), tuple(chains), copies_ids=True)


def masked(text: Config) -> Module:
    """The text; where images see all of themselves, its masks are made whether there are images or not."""
    made = image_kit.nested(text, "language_model")
    if text.get("use_bidirectional_attention") != "vision":
        return made
    assert isinstance(made, Decoder)
    stack = made.layers
    return made.but(layers=stack.but(layers=tuple(around(_always_masked, stack.layers))))


def _always_masked(layer: Module) -> Module:
    assert isinstance(layer, Beside)
    mixer, network = layer.subs
    assert isinstance(mixer, SharingAttention)
    return layer.but(subs=(mixer.but(always_masked=True), network))


def vision_embedder(c: Config, width: Num) -> PatchEmbedder:
    """Patches of patches' pixels, with positions of row and column, normalised before, between and after."""
    side, m = c.size("patch_size") * c.size("pooling_kernel_size"), c.size("mm_embed_dim")
    pixels = COLOURS * side * side
    return PatchEmbedder(
        "embed_vision",
        Norm("patch_ln1", "layernorm", pixels),
        Linear("patch_dense", pixels, m, "", True),
        Norm("patch_ln2", "layernorm", m),
        RowsAndColumns("pos_embedding", 2 * c.size("mm_posemb_size"), m),
        Norm("pos_norm", "layernorm", m),
        embedder("multimodal_embedder", c.size("output_proj_dims"), width),
    )
