"""Phi-4-multimodal: a Phi-3 that sees with SigLIP and hears with a Conformer."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FUSED, LLAMA_NAMES, FeedForward, layer
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.families.clip import pooling, siglip_vision
from tfcalc.families.images import grid, part, self_attention
from tfcalc.families.llama import phi3
from tfcalc.families.unread import read_early, unread_heads
from tfcalc.leaves import activation, buffer, embedding, linear, norm, parameter
from tfcalc.leaves.convolution import convolution, grouped_convolution
from tfcalc.nn.counted import counted
from tfcalc.nn.module import Module
from tfcalc.workload import Sequences, Workload

CROPS, LATE = 2, 1
"""Of the smallest image: the whole, and a crop; and the layers after the one that is read."""


@family("phi4_multimodal_vision", architecture="Phi4MultimodalVisionModel", heads={"Model": tops.bare})
def phi4_multimodal_vision(c: Config) -> Module:
    """SigLIP with its head, though the text reads an earlier layer."""
    return siglip_vision(c).but(pooler=pooling(c))


@family("phi4_multimodal_audio", architecture="Phi4MultimodalAudioModel", heads={"Model": bare})
def phi4_multimodal_audio(c: Config, run: Workload) -> Component:
    """A Conformer (arXiv 2005.08100); a trained number for each distance and head is added to the scores."""
    h, a, stream = c.size("hidden_size"), c.size("num_attention_heads"), run.source
    t, distances = stream.tokens, c.size("bias_max_distance") * (1 if c.flag("bias_symmetric") else 2)
    ffn = FeedForward(
        h,
        c.size("intermediate_size"),
        c.word("activation"),
        bias=True,
        names=FUSED,
        gated=True,
        within=(norm("layer_norm", "layernorm", h, t),),
    )
    parts = (
        ffn("feed_forward_in", stream, run),
        norm("layer_norm_att", "layernorm", h, t),
        self_attention(c, run, stream, names=LLAMA_NAMES, head_dim=c.optional("head_dim")),
        Component("conv", "convolutions", parts=tuple(_convolutions(c, run, h, stream))),
        ffn("feed_forward_out", stream, run),
        norm("layer_norm", "layernorm", h, t),
    )
    held = tuple(buffer(f"global_{name}", c.size("input_size")) for name in ("mean", "invstd"))
    return Component(
        "encoder",
        "encoder",
        parts=(
            Component("encoder_embedding", "norm", parts=held),
            Component("embed", "stem", parts=tuple(_stem(c, h, t))),
            embedding("relative_attention_bias_layer.bias_values", distances, a, t * stream.length),
            layer("encoders", parts, t * h, copies=c.size("num_blocks")),
        ),
    )


def _stem(c: Config, width: Num, frames: Num) -> Iterator[Component]:
    """Convolutions that each halve the time and the bins; all but the first are of each channel by itself."""
    channels, bins, reduction = c.size("nemo_conv_channels"), c.size("input_size"), c.number("time_reduction")
    if reduction % 2:
        raise InvalidModel(f"{c.path('time_reduction')} {reduction} is odd", f"nearest: {reduction + 1}")
    halvings = reduction.bit_length() - 1
    for place in range(halvings):
        made = 2 ** (halvings - 1 - place) * frames * ceil_div(bins, 2 ** (place + 1))
        if place == 0:
            yield convolution("conv.0", 1, channels, (3, 3), made, input_gradient=False)
        else:
            yield convolution(f"conv.{3 * place - 1}", channels, channels, (3, 3), made, groups=channels)
            yield convolution(f"conv.{3 * place}", channels, channels, (1, 1), made)
        yield activation(f"conv.{3 * place + 1}", c.word("nemo_activation"), made * channels)
    given = c.optional("nemo_final_size")
    left = ceil_div(bins, 2**halvings) if given is None else given
    yield linear("out", channels * left, width, frames)


def _convolutions(c: Config, run: Workload, width: Num, stream: Sequences) -> Iterator[Component]:
    """A gate, a convolution over time of each channel by itself, and maps of each frame around it.

    That is filled up on both sides; what is too much is truncated after the map that follows.
    """
    tokens, kernel = stream.tokens, c.size("kernel_size")
    filled = 0 if run.decoding else stream.batch * (stream.length + kernel - 1)
    inner, made = c.size("ext_pw_out_channel"), c.size("depthwise_separable_out_channel")
    several = width * c.size("depthwise_multiplier")
    yield norm("layer_norm", "layernorm", width, tokens)
    yield convolution("glu.ext_pw_conv_1d", width, 2 * inner, (1,), tokens)
    yield parameter("glu.b1", inner, minor=True)
    yield parameter("glu.b2", inner, minor=True)
    yield activation("glu.act", c.word("conv_glu_type"), tokens * inner)
    yield grouped_convolution("dw_sep_conv_1d.dw_conv", 1, several, kernel, filled, width)
    yield convolution("dw_sep_conv_1d.pw_conv", several, made, (1,), filled)
    yield activation("act", c.word("conv_activation"), tokens * made)
    yield convolution("ext_pw_conv_1d", width, inner, (1,), tokens)


@family("phi4_multimodal", architecture="Phi4MultimodalForCausalLM", heads={"Model": bare, "ForCausalLM": lm_head()})
def phi4_multimodal(c: Config, run: Workload) -> Component:
    """Phi-4-Mini and Phi-4-multimodal (arXiv 2503.01743): Phi-3, and what makes vectors of images and of sound.

    Its adapters (LoRA) are no part of transformers' model.
    """
    base = counted(phi3(c), run)
    extended = Component("embed_tokens_extend", "embeddings", parts=(_images(c, run), _sound(c, run)))
    return base._replace(parts=(base.parts[0], extended, *base.parts[1:]))


def _images(c: Config, run: Workload) -> Component:
    """Four neighbouring patches become one vector; trained ones stand at the ends of rows and between crops.

    An image is seen twice: as a whole, and as a crop, which at its smallest is the whole again.
    """
    vision, h = part(c, "vision_config", "phi4_multimodal_vision"), c.size("hidden_size")
    rows, columns = (ceil_div(side, 2) for side in grid(vision))
    images = run.beside(CROPS * rows * (columns + 1) + 1)
    width, tokens = vision.size("hidden_size"), images.tokens
    crops = nested(vision, run.replaced(batch_size=run.batch_size * CROPS), "img_processor")
    parts = (
        parameter("global_img_feature_extensor", width),  # as it is spelt
        parameter("sub_img_feature_extensor", width),
        read_early(unread_heads(crops, run), run, LATE),
        linear("img_projection_up", width, h, tokens),
        activation("act", "gelu", tokens * h),
        linear("img_projection_down", h, h, tokens),
    )
    return Component("image_embed", "embeddings", parts=parts)


def _sound(c: Config, run: Workload) -> Component:
    """Frames go through the maps of speech by itself; those of speech beside an image stand by."""
    audio, h = part(c, "audio_config", "phi4_multimodal_audio"), c.size("hidden_size")
    wide, t = audio.size("hidden_size") * audio.size("downsample_rate"), run.source.tokens
    parts = (
        nested(audio, run, "encoder"),
        linear("up_proj_for_speech", wide, h, t),
        activation("act", "gelu", t * h),
        linear("down_proj_for_speech", h, h, t),
        linear("up_proj_for_vision_speech", wide, h, 0),
        linear("down_proj_for_vision_speech", h, h, 0),
    )
    return Component("audio_embed", "embeddings", parts=parts)
