"""Granite Speech: a Conformer, a Q-Former over windows of its frames, and a Granite."""

from __future__ import annotations

from typing import Any

from tfcalc.blocks import Attention, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.families.qformer import reader
from tfcalc.families.sound_kit import language
from tfcalc.families.vision_language import conditional
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.leaves.batch_norm import batch_norm
from tfcalc.leaves.convolution import convolution
from tfcalc.leaves.relative import relative_scores
from tfcalc.nn.context import Context
from tfcalc.nn.counted import counted
from tfcalc.nn.queries import Given
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences, Workload

ENCODER: dict[str, Any] = {
    "heads": {"Encoder": bare},
    "aliases": {
        "hidden_size": "hidden_dim",
        "num_hidden_layers": "num_layers",
        "num_attention_heads": "num_heads",
        "num_mel_bins": "input_dim",
    },
}


@family("granite_speech_encoder", architecture="GraniteSpeechCTCEncoder", **ENCODER)
@family("granite_speech_plus_encoder", architecture="GraniteSpeechPlusCTCEncoder", **ENCODER)
def granite_speech_encoder(c: Config, run: Workload) -> Component:
    """Gulati et al. 2020 (arXiv 2005.08100), with attention within blocks; half-way, guessed letters are fed back."""
    h, letters, t = c.size("hidden_dim"), c.size("output_dim"), run.source.tokens
    guessed = t if c.number("num_layers") > 1 else 0  # after half of the layers, if that is one at least
    parts = (
        _half_step(c, "ff1", t),
        _attention(c, run),
        _convolutions(c, t),
        _half_step(c, "ff2", t),
        norm("post_norm", "layernorm", h, t),
    )
    return Component(
        "encoder",
        "encoder",
        parts=(
            linear("input_linear", c.size("input_dim"), h, t, input_gradient=False),
            layer("layers", parts, t * h, copies=c.size("num_layers")),
            linear("out", h, letters, guessed),
            linear("out_mid", letters, h, guessed),
        ),
    )


def _half_step(c: Config, name: str, tokens: Num) -> Component:
    h = c.size("hidden_dim")
    inner = h * c.size("feedforward_mult")
    return Component(
        name,
        "ffn",
        parts=(
            norm("pre_norm", "layernorm", h, tokens),
            linear("up_proj", h, inner, tokens, letter="1"),
            activation("silu", "silu", tokens * inner),
            linear("down_proj", inner, h, tokens, letter="2"),
        ),
    )


def _attention(c: Config, run: Workload) -> Component:
    """Within blocks of ``context_size`` frames, the last one filled up; Shaw's vectors for distances (1803.02155)."""
    h, a = c.size("hidden_dim"), c.size("num_heads")
    d = c.quotient("hidden_dim", "num_heads") if c.get("dim_head") is None else c.size("dim_head")
    stream, context = run.source, c.number("context_size")
    blocks = Sequences(stream.batch * ceil_div(stream.length, context), context)
    within = (
        parameter("rel_pos_emb", 2 * c.size("max_pos_emb") + 1, d),
        relative_scores("relative", a, d, blocks.tokens, context, blocks.tokens * context),
        norm("pre_norm", "layernorm", h, stream.tokens),
    )
    names = ("to_q", "to_kv", "to_out")
    block = Attention(h, a, a, d, d, output_bias=True, names=names, within=within)(
        "attn", blocks, blocks, run, causal=False
    )
    out = linear("to_out", a * d, h, stream.tokens, letter="O")  # what was filled up is cut off before it
    return block._replace(parts=(*block.parts[:-1], out))


def _convolutions(c: Config, tokens: Num) -> Component:
    """To channels and back, between them a convolution of each channel over time."""
    h = c.size("hidden_dim")
    inner = h * c.size("conv_expansion_factor")
    return Component(
        "conv",
        "convolutions",
        parts=(
            norm("norm", "layernorm", h, tokens),
            convolution("up_conv", h, 2 * inner, (1,), tokens),
            activation("glu", "sigmoid", tokens * inner),
            convolution(
                "depth_conv.conv", inner, inner, (c.size("conv_kernel_size"),), tokens, groups=inner, bias=False
            ),
            batch_norm("batch_norm", inner, tokens),
            activation("silu", "silu", tokens * inner),
            convolution("down_conv", inner, h, (1,), tokens),
        ),
    )


HEADS: dict[str, Head] = {"Model": bare, "ForConditionalGeneration": conditional(language)}


@family("granite_speech", architecture="GraniteSpeechForConditionalGeneration", heads=HEADS)
@family("granite_speech_plus", architecture="GraniteSpeechPlusForConditionalGeneration", heads=HEADS)
def granite_speech(c: Config, run: Workload) -> Component:
    """Granite-speech (arXiv 2505.08699): in each window of frames a few queries make the vectors of as many words.

    The queries of its successor may read what several of the encoder's layers made, side by side.
    """
    encoder = c.sub("encoder_config", f"{c.model_type}_encoder")
    parts = (
        nested(encoder, run, "encoder"),
        _projector(c, run, encoder),
        nested(language(c), run, "language_model"),
    )
    return Component("model", "listener", parts=parts)


class Asked(Given):
    """One sequence of queries for all that is read."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of no token ids."""
        return super().forward(x.trace.given((1, *x.shape[1:]), "int64", "queries"), ctx)


def _projector(c: Config, run: Workload, encoder: Config) -> Component:
    inner, window = c.sub("projector_config", "blip_2_qformer", head="Model"), c.number("window_size")
    if encoder.get("cat_hidden_layers") is not None:
        made = encoder.number("hidden_dim") * (len(encoder.numbers("cat_hidden_layers")) + 1)
        if inner.number("encoder_hidden_size") != made:
            raise InvalidModel(f"{inner.path('encoder_hidden_size')} is not what the encoder gives", f"write {made}")
    queries, width = window // c.number("downsample_rate"), inner.size("hidden_size")
    windows = run.batch_size * ceil_div(run.source.length, window)
    within = run.replaced(batch_size=windows, seq_len=queries, source_len=window)
    model = (Given if run.decoding else Asked)("qformer", reader(inner, shared=not run.decoding), width)
    reads = counted(model, within)._replace(kind="encoder")
    return Component(
        "projector",
        "projector",
        parts=(
            parameter("query", queries, width),
            reads,
            linear("linear", width, language(c).size("hidden_size"), windows * queries),
        ),
    )
