"""Granite Speech: a Conformer, a Q-Former over windows of its frames, and a Granite."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare
from tfcalc.errors import InvalidModel
from tfcalc.families.image_kit import nested_as
from tfcalc.families.kit import PLAIN
from tfcalc.families.layers import multi_head, network, stack
from tfcalc.families.qformer import reader
from tfcalc.families.sound_kit import ALONE, language, nested, writes
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.conformer import BatchNorm, BatchNormed, ConformerLayer, InBlocks, NormedNetwork
from tfcalc.nn.frames import Convolution
from tfcalc.nn.listener import Listener
from tfcalc.nn.module import Module
from tfcalc.nn.windowed_queries import GuessingEncoder, WindowedQueries

ALIASES = {
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_mel_bins": "input_dim",
}


@family("granite_speech_encoder", architecture="GraniteSpeechCTCEncoder", heads=ALONE)
@family("granite_speech_plus_encoder", architecture="GraniteSpeechPlusCTCEncoder", heads=ALONE)
def granite_speech_encoder(c: Config) -> Module:
    """Gulati et al. 2020 (arXiv 2005.08100), with attention within blocks; half-way, guessed letters are fed back."""
    h, letters = c.size("hidden_dim"), c.size("output_dim")
    beside = c.numbers("cat_hidden_layers") if c.get("cat_hidden_layers") is not None else []
    return GuessingEncoder(
        "encoder",
        Linear("input_linear", c.size("input_dim"), h, "", True),
        stack(c, _layer(c), "num_layers"),
        Linear("out", h, letters, "", True),
        Linear("out_mid", letters, h, "", True),
        guesses=c.number("num_layers") > 1,
        beside=len(beside),
    )


def _layer(c: Config) -> ConformerLayer:
    subs = _half_step(c, "ff1"), _attention(c), _convolutions(c), _half_step(c, "ff2")
    return ConformerLayer("layers", subs, (None,) * len(subs), last=_norm(c, "post_norm"))


def _norm(c: Config, name: str) -> Norm:
    return Norm(name, "layernorm", c.size("hidden_dim"))


def _half_step(c: Config, name: str) -> NormedNetwork:
    h = c.size("hidden_dim")
    made = network(name, PLAIN, h, h * c.size("feedforward_mult"), "silu")
    return NormedNetwork(name, _norm(c, "pre_norm"), made)


def _attention(c: Config) -> InBlocks:
    """Within blocks of ``context_size`` frames; Shaw's vectors for distances (1803.02155)."""
    h, a = c.size("hidden_dim"), c.size("num_heads")
    d = c.quotient("hidden_dim", "num_heads") if c.get("dim_head") is None else c.size("dim_head")
    return multi_head(
        InBlocks,
        "attn",
        ("to_q", "to_kv", "to_out"),
        *(h, a, d),
        output_bias=True,
        causal=False,
        context=c.number("context_size"),
        pre_norm=_norm(c, "pre_norm"),
        distances=parameter("rel_pos_emb", 2 * c.size("max_pos_emb") + 1, d),
    )


def _convolutions(c: Config) -> BatchNormed:
    """To channels and back, between them a convolution of each channel over time."""
    h, taps = c.size("hidden_dim"), c.size("conv_kernel_size")
    wide = h * c.size("conv_expansion_factor")
    return BatchNormed(
        "conv",
        _norm(c, "norm"),
        Convolution("up_conv", h, 2 * wide, (1,)),
        Convolution("depth_conv.conv", wide, wide, (taps,), bias=False, groups=wide, before=taps - 1),
        BatchNorm("batch_norm", wide),
        Convolution("down_conv", wide, h, (1,)),
    )


HEADS: dict[str, Top] = {"Model": bare, "ForConditionalGeneration": writes(tied=True, upcasts=False, cuts=True)}


@family("granite_speech", "granite_speech_plus", heads=HEADS)
def granite_speech(c: Config) -> Module:
    """Granite-speech (arXiv 2505.08699): in each window of frames a few queries make the vectors of as many words.

    The queries of its successor may read what several of the encoder's layers made, side by side.
    """
    encoder = c.sub("encoder_config", f"{c.model_type}_encoder")
    return Listener(
        "model",
        nested_as(encoder, GuessingEncoder, "encoder"),
        _projector(c, encoder),
        nested(language(c), "language_model"),
        copies_ids=True,
    )


def _projector(c: Config, encoder: Config) -> WindowedQueries:
    asks, window = c.sub("projector_config", "blip_2_qformer", head="Model"), c.number("window_size")
    if encoder.get("cat_hidden_layers") is not None:
        made = encoder.number("hidden_dim") * (len(encoder.numbers("cat_hidden_layers")) + 1)
        if asks.number("encoder_hidden_size") != made:
            raise InvalidModel(f"{asks.path('encoder_hidden_size')} is not what the encoder gives", f"write {made}")
    queries, width = window // c.number("downsample_rate"), asks.size("hidden_size")
    return WindowedQueries(
        "projector",
        parameter("query", queries, width),
        reader(asks, shared=True),
        Linear("linear", width, language(c).size("hidden_size"), "", True),
        window,
    )
