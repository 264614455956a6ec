"""Granite Speech: a Conformer, a Q-Former over windows of its frames, and a Granite."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare
from tfcalc.core.number import ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.encoder import through
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import cat, copied, pad, reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks.decoders import PLAIN
from tfcalc.zoo.blocks.layers import multi_head, network, stack
from tfcalc.zoo.blocks.q_former import QueryReader, reader
from tfcalc.zoo.blocks.sound import (
    ALONE,
    AudioLanguageModel,
    BatchNorm,
    BatchNormed,
    ConformerLayer,
    Convolution,
    InBlocks,
    NormedNetwork,
    language,
    writes,
)
from tfcalc.zoo.blocks.vision_tower import nested, nested_as


class GuessingEncoder(Module):
    """A map of each frame, and layers; half-way, what they made is mapped to letters, and the guess is fed back.

    The guess is made if half of the layers are one at least (``guesses``). Its place in the stack is of no consequence
    to what is counted: here it is behind the last layer. The outputs of ``beside`` layers may be concatenated to what
    leaves the stack; they are as wide.

    Source: Lee and Watanabe 2021 (arXiv 2102.03216); Nozaki and Komatsu 2021 (arXiv 2104.02724).
    """

    kind = "encoder"

    input: Linear
    layers: Stack
    letters: Linear
    back: Linear
    guesses: bool
    beside: int = 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for one clip per sequence; ``x`` are the words beside it."""
        stream, trace = ctx.run.source, x.trace
        ctx = ctx.alone(stream)
        x = trace.given((stream.batch, stream.length, self.input.fan_in), trace.weights_format, "spectrogram")
        x = through(self.layers, self.input(x), ctx)
        if self.guesses:
            guess = self.letters(copied(x))
            x = add(x, self.back(softmax(guess)))
        return cat([x] * (self.beside + 1)) if self.beside else x


class WindowedQueries(Module):
    """Trained queries, the same for each window of ``window`` frames, what reads a window with them, and a map.

    The last window is filled up. Source: transformers' GraniteSpeechEncoderProjector; see also arXiv 2505.08699.
    """

    kind = "projector"

    query: Parameter
    reader: QueryReader
    map: Linear
    window: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mapped queries of all windows of ``x``, of b × n × h."""
        b, n, h = x.shape
        count, (queries, width) = ceil_div(n, self.window), self.query.tensor.shape
        windows = b * count
        x = reshape(pad(x, 1, count * self.window), windows, self.window, h)
        run = ctx.run.replaced(batch_size=windows, seq_len=queries, source_len=self.window)
        ctx = ctx._replace(run=run, cache=None)
        ctx = ctx.asking(Sequences(windows, queries), x, Sequences(windows, self.window))
        asked = 0 if run.decoding else 1  # one for all; none where the frames were heard before
        made = self.reader(reshape(self.query.weight(x.trace), asked, queries, width), ctx)
        return self.map(reshape(made, b, count * queries, width))


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
        stack(c, _query_layer(c), "num_layers"),
        Linear("out", h, letters, "", True),
        Linear("out_mid", letters, h, "", True),
        guesses=c.number("num_layers") > 1,
        beside=len(beside),
    )


def _query_layer(c: Config) -> ConformerLayer:
    sublayers = _half_step(c, "ff1"), _attention(c), _convolutions(c), _half_step(c, "ff2")
    return ConformerLayer("layers", sublayers, (None,) * len(sublayers), last=_norm(c, "post_norm"))


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
    """Return maps to channels and back, with a convolution of each channel over time between them."""
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
    return AudioLanguageModel(
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
