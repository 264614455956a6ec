"""Qwen's models of text and images: towers that take images of any size, and merge neighbouring patches."""

from __future__ import annotations

from tfcalc.blocks import GATED, layer, stack
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide, floor_div, scaled
from tfcalc.families import kit
from tfcalc.families.images import feed_forward, norms, part, self_attention
from tfcalc.families.llama import qwen3, upper_windows
from tfcalc.families.qwen_moe import qwen3_moe
from tfcalc.families.vision_language import either, heads, reader
from tfcalc.leaves import activation, convolution, learned_position, linear, norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.workload import Sequences, Workload

FUSED = ("qkv", "proj")
NORMS = ("norm1", "norm2")
SIDES = {"num_attention_heads": "num_heads", "num_hidden_layers": "depth"}


def patch_embed(c: Config, stream: Sequences, width: Num, *, bias: bool) -> Component:
    """A convolution over the frames, rows and columns of a patch."""
    kernel = (c.size("temporal_patch_size"), c.size("patch_size"), c.size("patch_size"))
    channels = c.size("in_channels")
    return convolution("patch_embed.proj", channels, width, kernel, stream.tokens, bias=bias, input_gradient=False)


def attention(
    c: Config, run: Workload, stream: Sequences, width: str = "hidden_size", pieces: Num | None = None
) -> Component:
    """Queries, keys and values by one matrix, with biases."""
    return self_attention(c, run, stream, name="attn", names=FUSED, width=width, heads="num_heads", pieces=pieces)


def merger(
    c: Config,
    stream: Sequences,
    *,
    width: Num,
    out: Num,
    kind: str = "layernorm",
    names: tuple[str, str, str] = ("norm", "linear_fc1", "linear_fc2"),
    together: bool = False,
) -> tuple[Component, ...]:
    """``spatial_merge_size``² neighbours become one vector; normalised each by itself, or all ``together``."""
    side = c.size("spatial_merge_size")
    wide, tokens = width * side * side, floor_div(stream.tokens, side * side)
    return (
        norm(names[0], kind, wide, tokens) if together else norm(names[0], kind, width, stream.tokens),
        linear(names[1], wide, wide, tokens),
        activation("act", "gelu", tokens * wide),
        linear(names[2], wide, out, tokens),
    )


MLP_OF_TWO = ("ln_q", "mlp.0", "mlp.2")


@family("qwen2_vl_vision", architecture="Qwen2VisionTransformerPretrainedModel", heads={"Model": bare}, aliases=SIDES)
def qwen2_vl_vision(c: Config, run: Workload) -> Component:
    """The tower of Qwen2-VL (arXiv 2409.12191): rotary positions; ``hidden_size`` is what it gives to the text."""
    e, stream = c.size("embed_dim"), run.source
    inner = scaled(e, c.factor("mlp_ratio"))
    parts = (
        attention(c, run, stream, "embed_dim"),
        feed_forward(c, run, stream, width="embed_dim", inner=inner),
        *norms(NORMS, e, stream.tokens),
    )
    merged = merger(c, stream, width=e, out=c.size("hidden_size"), names=MLP_OF_TWO)
    return Component(
        "visual",
        "encoder",
        parts=(
            patch_embed(c, stream, e, bias=False),
            layer("blocks", parts, stream.tokens * e, copies=c.size("depth"), ends_with_sum=True),
            Component("merger", "projector", parts=merged),
        ),
    )


@family(
    "qwen2_5_vl_vision", architecture="Qwen2_5_VisionTransformerPretrainedModel", heads={"Model": bare}, aliases=SIDES
)
def qwen2_5_vl_vision(c: Config, run: Workload) -> Component:
    """The tower of Qwen2.5-VL (arXiv 2502.13923): RMSNorm, SwiGLU with biases; most layers look only within windows."""
    h, stream, depth = c.size("hidden_size"), run.source, c.number("depth")
    everywhere = c.numbers("fullatt_block_indexes")

    def make(full: bool) -> Component:
        parts = (
            attention(c, run, stream, pieces=None if full else _window(c)),
            feed_forward(c, run, stream, names=GATED, gated=True),
            *norms(NORMS, h, stream.tokens, "rmsnorm"),
        )
        return layer("blocks", parts, stream.tokens * h, ends_with_sum=True)

    merged = merger(c, stream, width=h, out=c.size("out_hidden_size"), kind="rmsnorm", names=MLP_OF_TWO)
    return Component(
        "visual",
        "encoder",
        parts=(
            patch_embed(c, stream, h, bias=False),
            *stack("blocks", [place in everywhere for place in range(depth)], c.size("depth"), make),
            Component("merger", "projector", parts=merged),
        ),
    )


def _window(c: Config) -> Num:
    """Patches of a window of ``window_size`` pixels, merged ones whole.

    An image of any shape is counted as a strip of windows, of which the last may be narrower.
    """
    merge, patch = c.size("spatial_merge_size"), c.size("patch_size")
    if c.number("window_size") % (c.number("spatial_merge_size") * c.number("patch_size")) == 0:
        side: Num = divide(c.size("window_size"), patch)
    elif c.number("window_size") < c.number("spatial_merge_size") * c.number("patch_size"):
        side = merge
    else:
        side = merge * floor_div(c.size("window_size"), merge * patch)
    return side * side


def qwen3_tower(c: Config, run: Workload, *, deep: int = 0) -> Component:
    """A tower with trained positions, of which ``deep`` layers' vectors go into the text's first layers too."""
    h, stream = c.size("hidden_size"), run.beside(c.size("num_position_embeddings"))
    parts = (
        attention(c, run, stream),
        feed_forward(c, run, stream, names=("linear_fc1", "linear_fc2")),
        *norms(NORMS, h, stream.tokens),
    )
    last, early = (merger(c, stream, width=h, out=c.size("out_hidden_size"), together=deep) for deep in (False, True))
    return Component(
        "visual",
        "encoder",
        parts=(
            patch_embed(c, stream, h, bias=True),
            learned_position("pos_embed", stream.length, h, stream.tokens),
            layer("blocks", parts, stream.tokens * h, copies=c.size("depth"), ends_with_sum=True),
            Component("merger", "projector", parts=last),
            *([Component("deepstack_merger_list", "projector", parts=early, copies=deep)] if deep else []),
        ),
    )


@family("qwen3_vl_vision", architecture="Qwen3VLVisionModel", heads={"Model": bare}, aliases=SIDES)
@family("qwen3_vl_moe_vision", architecture="Qwen3VLMoeVisionModel", heads={"Model": bare}, aliases=SIDES)
def qwen3_vl_vision(c: Config, run: Workload) -> Component:
    """The tower of Qwen3-VL (arXiv 2511.21631): DeepStack (arXiv 2406.04334) merges early layers' vectors as well."""
    return qwen3_tower(c, run, deep=len(c.numbers("deepstack_visual_indexes")))


@family("qwen3_5_vision", architecture="Qwen3_5VisionModel", heads={"Model": bare}, aliases=SIDES)
@family("qwen3_5_moe_vision", architecture="Qwen3_5MoeVisionModel", heads={"Model": bare}, aliases=SIDES)
def qwen3_5_vision(c: Config, run: Workload) -> Component:
    """The tower of Qwen3.5: Qwen3-VL's without DeepStack."""
    return qwen3_tower(c, run)


@family("qwen2_vl_text", architecture="Qwen2VLTextModel", heads={"Model": tops.bare})
@family("qwen2_5_vl_text", architecture="Qwen2_5_VLTextModel", heads={"Model": tops.bare})
def qwen2_vl_text(c: Config) -> Module:
    """Qwen2 with rotary positions in three dimensions: those of a token depend on its sequence."""
    width = c.quotient("hidden_size", "num_attention_heads")
    rope = kit.rope(c, width, by_sequence=True)

    def one(window: int | None) -> PreNorm:
        mixer = kit.attention(c, bias=True, output_bias=False, width=width, window=window)
        return kit.layer(c, mixer.but(rope=rope), kit.gated(c))

    return kit.decoder(c, one, upper_windows(c), masks=(None,))


@family("qwen3_vl_text", architecture="Qwen3VLTextModel", heads={"Model": tops.bare})
def qwen3_vl_text(c: Config) -> Module:
    """Qwen3 with rotary positions in three dimensions."""
    return qwen3(c, by_sequence=True)


@family(
    "qwen3_vl_moe_text",
    architecture="Qwen3VLMoeTextModel",
    heads={"Model": tops.bare},
    aliases={"num_local_experts": "num_experts"},
)
def qwen3_vl_moe_text(c: Config) -> Module:
    """Qwen3-MoE with rotary positions in three dimensions."""
    return qwen3_moe(c, by_sequence=True, normalized=True)


def text(c: Config) -> Config:
    """The text's config; the files of Qwen2-VL and Qwen2.5-VL have its fields at the top."""
    kind = f"{c.model_type}_text"
    if c.get("text_config") is not None or not c.model_type.startswith("qwen2"):
        return part(c, "text_config", kind)
    return c.read_as(kind, head="Model")


def seeing(c: Config, run: Workload) -> Component:
    """A tower and a text of the family's own."""
    vision = part(c, "vision_config", f"{c.model_type}_vision")
    return reader(run, text(c), nested(vision, run, "visual"))


@family("qwen2_vl", architecture="Qwen2VLForConditionalGeneration", heads=heads(text, tied=either))
@family("qwen2_5_vl", architecture="Qwen2_5_VLForConditionalGeneration", heads=heads(text, tied=either))
@family("qwen3_vl", architecture="Qwen3VLForConditionalGeneration", heads=heads(text))
@family("qwen3_vl_moe", architecture="Qwen3VLMoeForConditionalGeneration", heads=heads(text))
@family("qwen3_5", architecture="Qwen3_5ForConditionalGeneration", heads=heads(text))
@family("qwen3_5_moe", architecture="Qwen3_5MoeForConditionalGeneration", heads=heads(text))
def qwen_vl(c: Config, run: Workload) -> Component:
    """Qwen2-VL (arXiv 2409.12191), Qwen2.5-VL (2502.13923), Qwen3-VL (2511.21631), Qwen3.5 (Qwen team, 2026)."""
    return seeing(c, run)
