"""Qwen3-ASR: convolutions over pieces of a spectrogram, attention within windows, and a Qwen3."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare, labels
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.families.bart import attention, encoder_layer, feed_forward, half, side
from tfcalc.families.images import part
from tfcalc.families.sound_kit import ALIASES, language
from tfcalc.families.sound_trees import listener
from tfcalc.families.vision_language import conditional
from tfcalc.leaves import activation, convolution, linear
from tfcalc.workload import Workload

HALVED = 8
"""Three convolutions halve the time, and the bins: what is left of them is rounded up each time."""


@family(
    "qwen3_asr_encoder",
    architecture="Qwen3ASREncoder",
    heads={"Encoder": bare},
    aliases=ALIASES,
)
def qwen3_asr_encoder(c: Config, run: Workload) -> Component:
    """Whisper's layers; frames attend within windows of ``n_window_infer`` of the spectrogram's, the last shorter."""
    s, piece = side(c, "encoder"), 2 * c.number("n_window")
    window = max(c.number("n_window_infer") // piece, 1) * ceil_div(piece, HALVED)
    stream = run.source
    mixer = attention("self_attn", s, stream, stream, run, pieces=window)
    layers = encoder_layer(s, stream, mixer, feed_forward(s, stream, run))._replace(copies=s.layers)
    pieces = stream.batch * ceil_div(stream.length, ceil_div(piece, HALVED))
    return half("encoder", s, stream, *_stem(c, s.width, piece, pieces), layers, norms=("ln_post",))


def _stem(c: Config, width: Num, piece: int, pieces: Num) -> Iterator[Component]:
    """Each of so many ``pieces`` of a spectrogram by itself, the last one filled up."""
    channels, bins = c.size("downsample_hidden_size"), c.size("num_mel_bins")
    reads: Num = 1
    for place, shrunk in enumerate((2, 4, HALVED), 1):
        made = pieces * ceil_div(piece, shrunk) * ceil_div(bins, shrunk)
        yield convolution(f"conv2d{place}", reads, channels, (3, 3), made, input_gradient=place > 1)
        yield activation(f"conv2d{place}_activation", "gelu", made * channels)
        reads = channels
    yield linear("conv_out", channels * ceil_div(bins, HALVED), width, pieces * ceil_div(piece, HALVED), bias=False)


def _tokens(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Classes of each token: where in time a word stands."""
    yield base
    width, bias = language(c).size("hidden_size"), c.flag("token_classification_bias")
    yield linear("score", width, labels(c), run.target.tokens, bias=bias)


@family(
    "qwen3_asr",
    architecture="Qwen3ASRForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": conditional(language), "ForTokenClassification": _tokens},
)
def qwen3_asr(c: Config, run: Workload) -> Component:
    """Qwen3-ASR (arXiv 2601.21337): every frame is a vector among the words."""
    audio, frames = part(c, "audio_config", "qwen3_asr_encoder", free=True), run.source.tokens
    h = audio.size("d_model")
    return listener(
        c,
        run,
        nested(audio, run, "audio_tower"),
        linear("linear_1", h, h, frames),
        activation("act", audio.word("activation_function"), frames * h),
        linear("linear_2", h, audio.size("output_dim"), frames),
    )
