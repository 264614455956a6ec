"""Language models that hear with encoders of other kinds than Whisper's."""

from __future__ import annotations

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family, nested
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.families.llama import PRE_NORM, attention, decoder, gated, head_dim, kv_heads, norms
from tfcalc.families.sound_kit import language
from tfcalc.families.sound_trees import listener, stem
from tfcalc.families.vision_language import conditional, two_maps
from tfcalc.leaves import activation, linear, norm
from tfcalc.workload import Sequences, Workload

ENCODER: dict[str, Head] = {"Encoder": bare}
HEADS: dict[str, Head] = {"Model": bare, "ForConditionalGeneration": conditional(language)}
ADAPTED = 32
"""The inner width of Voxtral Realtime's adaptive norms, which no field says."""


def heard(c: Config, run: Workload) -> Sequences:
    """A clip's frames, as many as the encoder has positions."""
    return run.beside(c.size("max_position_embeddings"))


def mixer(c: Config, run: Workload, stream: Sequences, *, causal: bool) -> Component:
    """Whisper's attention, its keys without bias, under Llama's names."""
    d = head_dim(c)
    block = Attention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        kv_heads(c),
        d,
        d,
        bias=True,
        key_bias=False,
        names=LLAMA_NAMES,
    )
    return block("self_attn", stream, stream, run, causal=causal)


@family("glmasr_encoder", architecture="GlmAsrEncoder", heads=ENCODER)
def glmasr_encoder(c: Config, run: Workload) -> Component:
    """Whisper's encoder with rotary positions and grouped heads (transformers' GlmAsrEncoder)."""
    h, stream = c.size("hidden_size"), heard(c, run)
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_act"), bias=True, names=("fc1", "fc2"))
    parts = (
        mixer(c, run, stream, causal=False),
        ffn("mlp", stream, run),
        *(norm(name, "layernorm", h, stream.tokens) for name in PRE_NORM),
    )
    return Component(
        "encoder",
        "encoder",
        parts=(
            *stem(h, c.size("num_mel_bins"), stream.tokens),
            layer("layers", parts, stream.tokens * h, copies=c.size("num_hidden_layers")),
            norm("norm", "layernorm", h, stream.tokens),
        ),
    )


@family("glmasr", architecture="GlmAsrForConditionalGeneration", heads=HEADS)
def glmasr(c: Config, run: Workload) -> Component:
    """GLM-ASR-Nano (transformers' GlmAsrModel): a projector that is twice as wide as the language model."""
    audio = c.sub("audio_config", "glmasr_encoder")
    inner = audio.size("intermediate_size")
    vectors = divide(heard(audio, run).tokens * audio.size("hidden_size"), inner)
    width = language(c).size("hidden_size")
    return listener(
        c,
        run,
        nested(audio, run, "audio_tower"),
        linear("linear_1", inner, 2 * width, vectors),
        activation("act", c.word("projector_hidden_act"), vectors * 2 * width),
        linear("linear_2", 2 * width, width, vectors),
    )


@family(
    "voxtral_realtime_encoder",
    architecture="VoxtralRealtimeEncoder",
    heads=ENCODER,
    aliases={
        "d_model": "hidden_size",
        "encoder_layers": "num_hidden_layers",
        "encoder_attention_heads": "num_attention_heads",
        "encoder_ffn_dim": "intermediate_size",
    },
)
def voxtral_realtime_encoder(c: Config, run: Workload) -> Component:
    """Llama's layers that hear, and look only back, as many frames as the source is long; biases where Whisper's."""
    h, stream = c.size("hidden_size"), run.source
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_act"), names=GATED, gated=True, down_bias=True)
    parts = (
        mixer(c, run, stream, causal=True),
        ffn("mlp", stream, run),
        *(norm(name, "rmsnorm", h, stream.tokens) for name in ("self_attn_layer_norm", "final_layer_norm")),
    )
    return Component(
        "encoder",
        "encoder",
        parts=(
            Component("embedder", "stem", parts=tuple(stem(h, c.size("num_mel_bins"), stream.tokens))),
            layer("layers", parts, stream.tokens * h, copies=c.size("num_hidden_layers")),
            norm("norm", "rmsnorm", h, stream.tokens),
        ),
    )


@family("voxtral_realtime_text", architecture="VoxtralRealtimeTextModel", heads={"Model": bare})
def voxtral_realtime_text(c: Config, run: Workload) -> Component:
    """Llama; two small maps of the chosen delay, one for all, scale what each feed-forward network reads."""
    h, delays = c.size("hidden_size"), 1
    scale = Component(
        "ada_rms_norm",
        "adapter",
        parts=(
            linear("linear1", h, ADAPTED, delays, bias=False, input_gradient=False),
            activation("gelu", "gelu", delays * ADAPTED),
            linear("linear2", ADAPTED, h, delays, bias=False),
        ),
    )
    parts = (attention(c, run), gated(c, run), *norms(PRE_NORM, "rmsnorm", c, run))
    made = layer("layers", parts, run.target.tokens * h, copies=c.size("num_hidden_layers"))
    return decoder(c, run, made._replace(parts=(*made.parts, scale)))


@family("voxtral_realtime", architecture="VoxtralRealtimeForConditionalGeneration", heads=HEADS)
def voxtral_realtime(c: Config, run: Workload) -> Component:
    """Voxtral Realtime (transformers' VoxtralRealtimeModel): each four frames are added to a word."""
    audio, joined = c.sub("audio_config", "voxtral_realtime_encoder"), c.size("downsample_factor")
    vectors, width = run.beside(run.seq_len).tokens, language(c).size("hidden_size")
    projector = two_maps(c, audio.size("hidden_size") * joined, width, vectors, bias=False)
    hears = nested(audio, run.replaced(source_len=run.seq_len * joined), "audio_tower")
    return listener(c, run, hears, *projector)
