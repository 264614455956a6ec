"""Gemma 4 with images and sounds, where a config has a part for them."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.blocks.chunked_attention import ChunkedAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.families.images import norms, part
from tfcalc.families.llama import SANDWICH, kv_heads
from tfcalc.families.vision_language import heads
from tfcalc.leaves import activation, buffer, convolution, learned_position, linear, norm
from tfcalc.leaves.convolution import depthwise
from tfcalc.leaves.pool import pool
from tfcalc.workload import Sequences, Workload

COLOURS = 3
LIMITS = ("input_min", "input_max", "output_min", "output_max")


def clipped(names: tuple[str, ...]) -> tuple[str, ...]:
    """Matrices whose input and output may be clipped stand in a module of their own."""
    return tuple(f"{name}.linear" for name in names)


def limits(c: Config, names: tuple[str, ...]) -> Iterator[Component]:
    """Where ``use_clipped_linears``: four numbers, kept with each matrix."""
    if c.flag("use_clipped_linears"):
        yield from (buffer(f"{name}.{limit}", 1) for name in names for limit in LIMITS)


@family("gemma4_vision", architecture="Gemma4VisionModel", heads={"Model": bare})
def gemma4_vision(c: Config, run: Workload) -> Component:
    """A tower built as the text is; a table of positions for rows and one for columns."""
    h, patch, stream = c.size("hidden_size"), c.size("patch_size"), run.source
    spread = ("std_bias", "std_scale") if c.flag("standardize") else ()
    return Component(
        "vision_tower",
        "encoder",
        parts=(
            linear(
                "patch_embedder.input_proj",
                COLOURS * patch * patch,
                h,
                stream.tokens,
                bias=False,
                input_gradient=False,
            ),
            learned_position(
                "patch_embedder.position_embedding_table", 2 * c.size("position_embedding_size"), h, 2 * stream.tokens
            ),
            _vision_layers(c, run, stream),
            *_pooled(c, stream),
            *(buffer(name, h) for name in spread),
        ),
    )


def _pooled(c: Config, stream: Sequences) -> Iterator[Component]:
    """Squares of patches become their mean, by a matrix that says which lie together."""
    together = c.number("pooling_kernel_size") ** 2
    if together > 1:
        fewer = floor_div(stream.length, together)
        yield pool("pooler", stream.batch, stream.length, fewer, c.size("hidden_size"))


def _vision_layers(c: Config, run: Workload, stream: Sequences) -> Component:
    h, a, g, d = c.size("hidden_size"), c.size("num_attention_heads"), kv_heads(c), c.size("head_dim")
    tokens, act = stream.tokens, c.word("hidden_activation")
    within = (
        norm("q_norm", "rmsnorm", d, tokens * a),
        norm("k_norm", "rmsnorm", d, tokens * g),
        norm("v_norm", "rmsnorm-plain", d, tokens * g),
        *limits(c, LLAMA_NAMES),
    )
    mixer = Attention(h, a, g, d, d, names=clipped(LLAMA_NAMES), within=within)
    mlp = FeedForward(
        h, c.size("intermediate_size"), act, names=clipped(GATED), gated=True, within=tuple(limits(c, GATED))
    )
    parts = (
        mixer("self_attn", stream, stream, run, causal=False),
        mlp("mlp", stream, run),
        *norms(SANDWICH, h, tokens, "rmsnorm"),
    )
    return layer("encoder.layers", parts, tokens * h, copies=c.size("num_hidden_layers"))


@family("gemma4_audio", architecture="Gemma4AudioModel", heads={"Model": bare})
def gemma4_audio(c: Config, run: Workload) -> Component:
    """A Conformer (arXiv 2005.08100) over chunks: attention and a convolution between two feed-forward networks."""
    h, heard = c.size("hidden_size"), run.source
    stream = heard._replace(length=ceil_div(heard.length, 4))
    tokens = stream.tokens
    parts = (
        _half(c, "feed_forward1", tokens),
        _hearing(c, run, stream),
        _convolving(c, tokens),
        _half(c, "feed_forward2", tokens),
        *norms(("norm_pre_attn", "norm_post_attn", "norm_out"), h, tokens, "rmsnorm"),
    )
    blocks = layer("layers", parts, tokens * h, copies=c.size("num_hidden_layers"))
    return Component(
        "audio_tower",
        "encoder",
        parts=(
            Component("subsample_conv_projection", "embedding", parts=tuple(_subsampling(c, heard))),
            blocks._replace(kind="conformer"),  # which transformers does not checkpoint
            linear("output_proj", h, c.size("output_proj_dims"), tokens),
        ),
    )


def _subsampling(c: Config, heard: Sequences) -> Iterator[Component]:
    """Two convolutions that halve time and pitch, of as many pitches as the first has channels (in fours)."""
    first, second = c.numbers("subsampling_conv_channels", 2, least=1)
    half, tokens = (heard.batch * ceil_div(heard.length, times) for times in (2, 4))
    for name, fan_in, out, positions in (
        ("layer0", 1, first, half * (first // 4 * 2)),
        ("layer1", first, second, tokens * (first // 4)),
    ):
        is_data = name == "layer0"
        yield convolution(f"{name}.conv", fan_in, out, (3, 3), positions, bias=False, input_gradient=not is_data)
        yield norm(f"{name}.norm", "layernorm-no-bias", out, positions)
        yield activation(f"{name}.act", "relu", positions * out)
    yield linear("input_proj_linear", first // 4 * second, c.size("hidden_size"), tokens, bias=False)


def _half(c: Config, name: str, tokens: Num) -> Component:
    h, names = c.size("hidden_size"), ("ffw_layer_1", "ffw_layer_2")
    return Component(
        name,
        "ffn",
        parts=(
            norm("pre_layer_norm", "rmsnorm", h, tokens),
            linear("ffw_layer_1.linear", h, 4 * h, tokens, bias=False),
            activation("activation", c.word("hidden_act"), tokens * 4 * h),
            linear("ffw_layer_2.linear", 4 * h, h, tokens, bias=False),
            norm("post_layer_norm", "rmsnorm", h, tokens),
            *limits(c, names),
        ),
    )


def _hearing(c: Config, run: Workload, stream: Sequences) -> Component:
    names = ("q_proj", "k_proj", "v_proj", "post")
    chunk = c.number("attention_chunk_size")
    around = c.number("attention_context_left") - 1 + c.number("attention_context_right", least=0)
    block = ChunkedAttention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        c.quotient("hidden_size", "num_attention_heads"),
        chunk,
        chunk + around,
        names=clipped(names),
        within=tuple(limits(c, names)),
    )
    return block("self_attn", stream, run)


def _convolving(c: Config, tokens: Num) -> Component:
    h, names = c.size("hidden_size"), ("linear_start", "linear_end")
    return Component(
        "lconv1d",
        "convolution",
        parts=(
            norm("pre_layer_norm", "rmsnorm", h, tokens),
            linear("linear_start.linear", h, 2 * h, tokens, bias=False),
            activation("gate", "sigmoid", tokens * h),
            depthwise("depthwise_conv1d", h, c.size("conv_kernel_size"), tokens, bias=False),
            norm("conv_norm", "rmsnorm", h, tokens),
            activation("activation", c.word("hidden_act"), tokens * h),
            linear("linear_end.linear", h, h, tokens, bias=False),
            *limits(c, names),
        ),
    )


def text(c: Config) -> Config:
    """The text of the family's own."""
    return part(c, "text_config", f"{c.model_type}_text")


def embedder(name: str, fan_in: Num, width: Num, tokens: Num, *, is_data: bool = False) -> Component:
    """What a tower gives, or data, normalised without weights, as vectors of the text's width."""
    return Component(
        name,
        "projector",
        parts=(
            norm("embedding_pre_projection_norm", "rmsnorm-plain", fan_in, tokens),
            linear("embedding_projection", fan_in, width, tokens, bias=False, input_gradient=not is_data),
        ),
    )


@family("gemma4", architecture="Gemma4ForConditionalGeneration", heads=heads(text))
def gemma4(c: Config, run: Workload) -> Component:
    """Gemma 4 (Google 2026): a tower for images, one for sounds, both or none."""
    parts, width = [nested(text(c), run, "language_model")], text(c).size("hidden_size")
    if c.get("vision_config") is not None:
        vision = part(c, "vision_config", "gemma4_vision")
        pooled = run.source.batch * floor_div(run.source.length, vision.number("pooling_kernel_size") ** 2)
        parts += [
            nested(vision, run, "vision_tower"),
            embedder("embed_vision", vision.size("hidden_size"), width, pooled),
        ]
    if c.get("audio_config") is not None:
        audio = part(c, "audio_config", "gemma4_audio")
        frames = run.source.batch * ceil_div(run.source.length, 4)
        parts += [
            nested(audio, run, "audio_tower"),
            embedder("embed_audio", audio.size("output_proj_dims"), width, frames),
        ]
    return Component("model", "multimodal", parts=tuple(parts))


@family("gemma4_unified", architecture="Gemma4UnifiedForConditionalGeneration", heads=heads(text))
def gemma4_unified(c: Config, run: Workload) -> Component:
    """Gemma 4 without towers: pixels and samples of sound are projected at once."""
    parts, width, tokens = [nested(text(c), run, "language_model")], text(c).size("hidden_size"), run.source.tokens
    if c.get("vision_config") is not None:
        parts += [vision_embedder(c.within("vision_config", "gemma4_unified_vision"), width, tokens)]
    if c.get("audio_config") is not None:
        audio = c.within("audio_config", "gemma4_unified_audio")
        parts += [embedder("embed_audio", audio.size("audio_embed_dim"), width, tokens, is_data=True)]
    return Component("model", "multimodal", parts=tuple(parts))


def vision_embedder(c: Config, width: Num, tokens: Num) -> Component:
    """Patches of patches' pixels, with positions of row and column, normalised before, between and after."""
    side, m = c.size("patch_size") * c.size("pooling_kernel_size"), c.size("mm_embed_dim")
    pixels = COLOURS * side * side
    return Component(
        "embed_vision",
        "embedding",
        parts=(
            norm("patch_ln1", "layernorm", pixels, tokens),
            linear("patch_dense", pixels, m, tokens),
            norm("patch_ln2", "layernorm", m, tokens),
            learned_position("pos_embedding", 2 * c.size("mm_posemb_size"), m, 2 * tokens),
            norm("pos_norm", "layernorm", m, tokens),
            embedder("multimodal_embedder", c.size("output_proj_dims"), width, tokens),
        ),
    )
