"""Phi-4-multimodal: a Phi-3 that sees with SigLIP and hears with a Conformer."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare, lm_head
from tfcalc.core.number import Num, ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.families import image_kit, kit
from tfcalc.families.clip import pooling, siglip_vision
from tfcalc.families.images import grid
from tfcalc.families.layers import stack
from tfcalc.families.llama import phi3
from tfcalc.families.names import FUSED, LLAMA_NAMES
from tfcalc.families.reader_kit import tower
from tfcalc.nn.basic import Linear, buffer, parameter
from tfcalc.nn.conformer import ConformerLayer, GatedByHalf, NormedNetwork
from tfcalc.nn.frames import Convolution
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.senses import Crops, Sense, Senses, WithSenses
from tfcalc.nn.spectrogram import DistanceTable, Halvings, SpectrogramEncoder, Standardized

CROPS, LATE = 2, 1
"""Of the smallest image: the whole, and a crop; and the layers after the one that is read."""


@family("phi4_multimodal_vision", architecture="Phi4MultimodalVisionModel", heads={"Model": bare})
def phi4_multimodal_vision(c: Config) -> Module:
    """SigLIP with its head, though the text reads an earlier layer."""
    return siglip_vision(c).but(pooler=pooling(c))


@family("phi4_multimodal_audio", architecture="Phi4MultimodalAudioModel", heads={"Model": bare})
def phi4_multimodal_audio(c: Config) -> Module:
    """A Conformer (arXiv 2005.08100); a trained number for each distance and head is added to the scores."""
    held = (buffer(f"global_{name}", c.size("input_size")) for name in ("mean", "invstd"))
    distances = c.size("bias_max_distance") * (1 if c.flag("bias_symmetric") else 2)
    return SpectrogramEncoder(
        "encoder",
        Standardized("encoder_embedding", *held),
        _stem(c),
        DistanceTable("relative_attention_bias_layer.bias_values", distances, c.size("num_attention_heads")),
        stack(c, _layer(c), "num_blocks"),
    )


def _layer(c: Config) -> ConformerLayer:
    mixer = image_kit.attention(c, names=LLAMA_NAMES, width=c.optional("head_dim"), dropout="")
    subs = (_network(c, "feed_forward_in"), mixer, _convolutions(c), _network(c, "feed_forward_out"))
    att, last = image_kit.norms(c, "layer_norm_att", "layer_norm")
    return ConformerLayer("encoders", subs, (None, att, None, None), last=last)


def _network(c: Config, name: str) -> NormedNetwork:
    (norm,) = image_kit.norms(c, "layer_norm")
    return NormedNetwork(name, norm, kit.gated(c, bias=True, names=FUSED, act="activation"))


def _stem(c: Config) -> Halvings:
    """Convolutions that each halve the time and the bins; all but the first are of each channel by itself."""
    channels, bins, reduction = c.size("nemo_conv_channels"), c.size("input_size"), c.number("time_reduction")
    if reduction % 2:
        raise InvalidModel(f"{c.path('time_reduction')} {reduction} is odd", f"nearest: {reduction + 1}")
    halvings, given = reduction.bit_length() - 1, c.optional("nemo_final_size")
    left = ceil_div(bins, 2**halvings) if given is None else given
    out = Linear("out", channels * left, c.size("hidden_size"), "", True)
    return Halvings("embed", tuple(_halvings(c, channels, halvings)), out, bins)


def _halvings(c: Config, channels: Num, count: int) -> Iterator[Convolution]:
    act = c.word("nemo_activation")
    yield Convolution("conv.0", 1, channels, (3, 3), activation=act)
    for place in range(1, count):
        yield Convolution(f"conv.{3 * place - 1}", channels, channels, (3, 3), groups=channels)
        yield Convolution(f"conv.{3 * place}", channels, channels, (1, 1), activation=act)


def _convolutions(c: Config) -> GatedByHalf:
    width, inner, made = c.size("hidden_size"), c.size("ext_pw_out_channel"), c.size("depthwise_separable_out_channel")
    several = width * c.size("depthwise_multiplier")
    (norm,) = image_kit.norms(c, "layer_norm")
    return GatedByHalf(
        "conv",
        norm,
        Convolution("glu.ext_pw_conv_1d", width, 2 * inner, (1,)),
        (parameter("glu.b1", inner, minor=True), parameter("glu.b2", inner, minor=True)),
        c.word("conv_glu_type"),
        Convolution("dw_sep_conv_1d.dw_conv", width, several, (c.size("kernel_size"),), groups=width),
        Convolution("dw_sep_conv_1d.pw_conv", several, made, (1,)),
        c.word("conv_activation"),
        Convolution("ext_pw_conv_1d", width, inner, (1,)),
    )


@family("phi4_multimodal", heads={"Model": bare, "ForCausalLM": lm_head()})
def phi4_multimodal(c: Config) -> Module:
    """Phi-4-Mini and Phi-4-multimodal (arXiv 2503.01743): Phi-3, and what makes vectors of images and of sound.

    Its adapters (LoRA) are no part of transformers' model.
    """
    base = phi3(c)
    assert isinstance(base, Decoder)
    return WithSenses(base.name, base, Senses("embed_tokens_extend", (_images(c), _sound(c))))


def _images(c: Config) -> Crops:
    """Four neighbouring patches become one vector; trained ones stand at the ends of rows and between crops.

    An image is seen twice: as a whole, and as a crop, which at its smallest is the whole again.
    """
    vision, h = subconfig(c, "vision_config", "phi4_multimodal_vision"), c.size("hidden_size")
    rows, columns = (ceil_div(side, 2) for side in grid(vision))
    width = vision.size("hidden_size")
    names = ("global_img_feature_extensor", "sub_img_feature_extensor")  # as it is spelt
    return Crops(
        "image_embed",
        tower(vision, "img_processor", LATE),
        Linear("img_projection_up", width, h, "", True),
        Linear("img_projection_down", h, h, "", True),
        ends=tuple(parameter(name, width) for name in names),
        crops=CROPS,
        vectors=CROPS * rows * (columns + 1) + 1,
    )


def _sound(c: Config) -> Sense:
    """Frames go through the maps of speech by itself; those of speech beside an image stand by."""
    audio, h = subconfig(c, "audio_config", "phi4_multimodal_audio"), c.size("hidden_size")
    wide = audio.size("hidden_size") * audio.size("downsample_rate")
    up, down = Linear("up_proj_for_speech", wide, h, "", True), Linear("down_proj_for_speech", h, h, "", True)
    unread = (
        up.but(name="up_proj_for_vision_speech"),
        down.but(name="down_proj_for_vision_speech"),
    )
    return Sense("audio_embed", image_kit.nested(audio, "encoder"), up, down, unread)
