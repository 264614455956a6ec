"""Qwen3-ASR: convolutions over pieces of a spectrogram, attention within windows, and a Qwen3."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare, labels
from tfcalc.core.number import Num, Pairs, ceil_div, in_pieces
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.ops.select import index
from tfcalc.ops.shapes import contiguous, permute, reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoder_decoders
from tfcalc.zoo.blocks.sound import ALONE, Convolution, SoundEncoder, SoundProjector, language, listener, writes

HALVED = 8
"""Three convolutions halve the time, and the bins: what is left of them is rounded up each time."""


class InPieces(Attention):
    """Attention within pieces of ``pieces`` frames, the last perhaps shorter: no mask, but products of their own."""

    pieces: Num = 0

    def pairs(self, ctx: Context) -> Pairs:
        """Pairs of query and key within each piece."""
        within = ctx.stream.batch * in_pieces(ctx.stream.length, self.pieces)
        return Pairs((2, within), within, ctx.run.fused)


class PiecesStem(Module):
    """Convolutions over time and bins of one ``piece`` of frames at a time, the last of which is padded.

    A map makes a vector of all bins and channels of a place.
    """

    kind = "stem"

    convolutions: tuple[Convolution, ...]
    map: Linear
    bins: Num
    piece: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard."""
        trace, stream, made = x.trace, ctx.stream, ceil_div(self.piece, HALVED)
        pieces = stream.batch * ceil_div(stream.length, made)
        x = trace.given((pieces, 1, self.bins, self.piece), trace.weights_format, "spectrogram")
        for place, each in enumerate(self.convolutions, 1):
            x = each.activated(x, ctx, ceil_div(self.bins, 2**place), ceil_div(self.piece, 2**place))
        x = contiguous(permute(x, (0, 3, 1, 2)))
        x = self.map(reshape(x, pieces, made, self.map.fan_in))
        there = trace.new((stream.tokens,), "int64", "frames that are there")
        return index(x, there, (stream.batch, stream.length, x.width))


@family("qwen3_asr_encoder", heads=ALONE)
def qwen3_asr_encoder(c: Config) -> Module:
    """Whisper's layers; frames attend within windows of ``n_window_infer`` of the spectrogram's, the last shorter."""
    piece = 2 * c.number("n_window")
    window = max(c.number("n_window_infer") // piece, 1) * ceil_div(piece, HALVED)

    def mixer(c: Config, side: str, name: str, **more: Any) -> Attention:
        return encoder_decoders.attention(c, side, name, InPieces, pieces=window, **more)

    stack = encoder_decoders.equal_layers(c, "encoder", pre_norm=True, mixer=mixer)
    return SoundEncoder("encoder", _stem(c, piece), None, stack, encoder_decoders.norm(c, "ln_post"))


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
    return ModelWithHead("", base, Linear("score", language(c).size("hidden_size"), labels(c), "", bias))


@family(
    "qwen3_asr", heads={"Model": bare, "ForConditionalGeneration": writes(tied=True), "ForTokenClassification": _tokens}
)
def qwen3_asr(c: Config) -> Module:
    """Qwen3-ASR (arXiv 2601.21337): every frame is a vector among the words."""
    audio = subconfig(c, "audio_config", "qwen3_asr_encoder", free=True)
    h = audio.size("d_model")
    maps = Linear("linear_1", h, h, "", True), Linear("linear_2", h, audio.size("output_dim"), "", True)
    return listener(c, audio, SoundProjector("multi_modal_projector", maps, audio.word("activation_function")))
