"""Qwen3-ASR: convolutions over pieces of a spectrogram, attention within windows, and a Qwen3."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare, labels
from tfcalc.core.number import Num, ceil_div
from tfcalc.families import seq2seq_kit as kit
from tfcalc.families.sound_kit import ALONE, language, listener, writes
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.frames import Convolution, SoundEncoder
from tfcalc.nn.listener import SoundProjector
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.pieces import HALVED, InPieces, PiecesStem


@family("qwen3_asr_encoder", heads=ALONE)
def qwen3_asr_encoder(c: Config) -> Module:
    """Whisper's layers; frames attend within windows of ``n_window_infer`` of the spectrogram's, the last shorter."""
    piece = 2 * c.number("n_window")
    window = max(c.number("n_window_infer") // piece, 1) * ceil_div(piece, HALVED)

    def mixer(c: Config, side: str, name: str, **more: Any) -> Attention:
        return kit.attention(c, side, name, InPieces, pieces=window, **more)

    stack = kit.equal_layers(c, "encoder", pre_norm=True, mixer=mixer)
    return SoundEncoder("encoder", _stem(c, piece), None, stack, kit.norm(c, "ln_post"))


def _stem(c: Config, piece: int) -> PiecesStem:
    channels, bins = c.size("downsample_hidden_size"), c.size("num_mel_bins")
    reads: tuple[Num, ...] = (1, channels, channels)
    convolutions = tuple(
        Convolution(f"conv2d{place}", each, channels, (3, 3), activation="gelu") for place, each in enumerate(reads, 1)
    )
    out = Linear("conv_out", channels * ceil_div(bins, HALVED), c.size("d_model"))
    return PiecesStem("", convolutions, out, bins, piece)


def _tokens(c: Config, base: Module) -> Module:
    """Classes of each token: where in time a word stands."""
    bias = c.flag("token_classification_bias")
    return WithHead("", base, Linear("score", language(c).size("hidden_size"), labels(c), "", bias))


@family(
    "qwen3_asr", heads={"Model": bare, "ForConditionalGeneration": writes(tied=True), "ForTokenClassification": _tokens}
)
def qwen3_asr(c: Config) -> Module:
    """Qwen3-ASR (arXiv 2601.21337): every frame is a vector among the words."""
    audio = subconfig(c, "audio_config", "qwen3_asr_encoder", free=True)
    h = audio.size("d_model")
    maps = Linear("linear_1", h, h, "", True), Linear("linear_2", h, audio.size("output_dim"), "", True)
    return listener(c, audio, SoundProjector("multi_modal_projector", maps, audio.word("activation_function")))
