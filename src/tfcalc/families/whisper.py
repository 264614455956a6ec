"""Whisper, language models that hear with its encoder, and Moonshine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfcalc.blocks import LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family, nested
from tfcalc.configs.heads import bare, labels, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.families.bart import (
    Side,
    attention,
    decoder_layer,
    encoder_layer,
    feed_forward,
    half,
    side,
    sum_last,
    words,
)
from tfcalc.families.images import part
from tfcalc.families.vision_language import conditional, two_maps
from tfcalc.leaves import (
    activation,
    convolution,
    embedding,
    learned_position,
    linear,
    norm,
    parameter,
    sinusoidal_position,
)
from tfcalc.workload import Sequences, Workload

ENCODER_ALIASES = {
    "d_model": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_dim": "intermediate_size",
}


def heard(c: Config, run: Workload) -> Sequences:
    """What the encoder makes of a clip: always as many frames as it has positions, for clips are padded."""
    return run.beside(c.size("max_source_positions"))


def stem(width: Num, channels: Num, frames: Num) -> Iterator[Component]:
    """Two convolutions over time, of which the second halves it."""
    yield convolution("conv1", channels, width, (3,), 2 * frames, input_gradient=False)
    yield activation("conv1_activation", "gelu", 2 * frames * width)
    yield convolution("conv2", width, width, (3,), frames)
    yield activation("conv2_activation", "gelu", frames * width)


def audio_encoder(c: Config, run: Workload, s: Side) -> Component:
    """Keys have no bias; the fixed positions count as parameters that are not trained."""
    stream = heard(c, run)
    made = encoder_layer(
        s,
        stream,
        attention("self_attn", s, stream, stream, run, key_bias=False),
        feed_forward(s, stream, run),
    )
    return half(
        "encoder",
        s,
        stream,
        *stem(s.width, c.size("num_mel_bins"), stream.tokens),
        sinusoidal_position(
            "embed_positions", c.size("max_source_positions"), s.width, stream.tokens, stored="parameter"
        ),
        made._replace(copies=s.layers),
    )


def text_decoder(c: Config, run: Workload, memory: Sequences | None) -> Component:
    """A trained table of positions, keys without bias."""
    s, stream = side(c, "decoder", ends_with_sum=sum_last(c, run, 0.0)), run.target
    return half(
        "decoder",
        s,
        stream,
        words(c, stream.tokens),
        learned_position("embed_positions", c.size("max_target_positions"), s.width, stream.tokens),
        decoder_layer(s, run, memory, key_bias=False)._replace(copies=s.layers),
    )


def classes(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """A class for each clip; the layers' outputs may be mixed by a trained weight each."""
    stream, width = heard(c, run), c.size("classifier_proj_size")
    yield from base.parts
    if c.flag("use_weighted_layer_sum"):
        yield parameter("layer_weights", c.size("encoder_layers") + 1)
    yield linear("projector", c.size("d_model"), width, stream.tokens)
    yield linear("classifier", width, labels(c), stream.batch)


@family(
    "whisper",
    architecture="WhisperForConditionalGeneration",
    heads={
        "Model": bare,
        "ForConditionalGeneration": lm_head("proj_out", width="d_model"),
        "ForCausalLM": lm_head("proj_out", width="d_model"),
        "ForAudioClassification": classes,
    },
    aliases={
        "num_key_value_heads": "encoder_attention_heads",
        "num_attention_heads": "encoder_attention_heads",
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
    },
)
def whisper(c: Config, run: Workload) -> Component:
    """Radford et al. 2022 (arXiv 2212.04356)."""
    alone, hears_only = c.head == "ForCausalLM", c.head == "ForAudioClassification"
    parts: list[Component] = []
    if not alone:
        parts.append(audio_encoder(c, run, side(c, "encoder", ends_with_sum=sum_last(c, run, 0.0))))
    if not hears_only:
        parts.append(text_decoder(c, run, None if alone else heard(c, run)))
    return Component("model", "encoder-decoder", parts=tuple(parts))


ALONE: dict[str, Head] = {"Encoder": bare}


@family("voxtral_encoder", architecture="VoxtralEncoder", heads=ALONE, aliases=ENCODER_ALIASES)
@family(
    "moss_transcribe_diarize_audio",
    architecture="MossTranscribeDiarizeAudioModel",
    heads={"Model": bare},
    aliases=ENCODER_ALIASES,
)
@family("audioflamingo3_encoder", architecture="AudioFlamingo3Encoder", heads=ALONE, aliases=ENCODER_ALIASES)
@family(
    "musicflamingo_encoder",
    architecture="AudioFlamingo3Encoder",
    heads=ALONE,
    aliases=ENCODER_ALIASES,
    like="audioflamingo3_encoder",
)
def whisper_encoder(c: Config, run: Workload) -> Component:
    """Whisper's encoder by itself (transformers' VoxtralEncoder, AudioFlamingo3Encoder)."""
    s = Side(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        c.quotient("hidden_size", "num_attention_heads"),
        c.size("intermediate_size"),
        c.size("num_hidden_layers"),
        c.word("activation_function"),
        sum_last(c, run, 0.0),
    )
    return audio_encoder(c, run, s)


@family(
    "qwen2_audio_encoder",
    architecture="Qwen2AudioEncoder",
    heads=ALONE,
    aliases={own: other for other, own in ENCODER_ALIASES.items()},
)
def qwen2_audio_encoder(c: Config, run: Workload) -> Component:
    """The same, by Whisper's own names of fields."""
    return audio_encoder(c, run, side(c, "encoder", ends_with_sum=sum_last(c, run, 0.0)))


def language(c: Config) -> Config:
    """The nested config of the language model."""
    kind, over = TEXT[c.model_type]
    if c.model_type in ONLY_WITHOUT_ONE:
        return part(c, "text_config", kind, over=over, free=True)
    return c.sub("text_config", kind, over=over)


TEXT: dict[str, tuple[str, Mapping[str, Any]]] = {
    "voxtral": (
        "llama",
        {
            "vocab_size": 131072,
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 30,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "voxtral_realtime": (
        "voxtral_realtime_text",
        {
            "vocab_size": 131072,
            "hidden_size": 3072,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "glmasr": (
        "llama",
        {
            "vocab_size": 59264,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
        },
    ),
    "granite_speech": ("granite", {}),
    "granite_speech_plus": ("granite", {}),
    "moss_transcribe_diarize": (
        "qwen3",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
    ),
    "nemo_speechlm": (
        "nemotron_h",
        {
            "hidden_size": 2688,
            "intermediate_size": 1856,
            "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
            "mamba_num_heads": 64,
            "moe_intermediate_size": 1856,
            "moe_shared_expert_intermediate_size": 3712,
            "n_routed_experts": 128,
            "num_experts_per_tok": 6,
            "num_key_value_heads": 2,
        },
    ),
    "qwen3_asr": (
        "qwen3",
        {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
    ),
    "vibevoice_asr": ("qwen2", {}),
    "qwen2_audio": ("qwen2", {}),
    "audioflamingo3": ("qwen2", {}),
    "musicflamingo": ("qwen2", {}),
}
"""Which language model each has, and what its defaults are where they are not that family's."""
ONLY_WITHOUT_ONE = ("moss_transcribe_diarize", "nemo_speechlm", "qwen3_asr")
"""Whose defaults hold where no text_config is given, but do not fill one up that is."""


def listener(c: Config, run: Workload, ears: Component, *projector: Component) -> Component:
    """An encoder of sound, a ``projector`` of its frames, and the language model that reads them among its words."""
    return Component(
        "model",
        "listener",
        parts=(
            ears._replace(name="audio_tower"),
            Component("multi_modal_projector", "projector", parts=projector),
            nested(language(c), run, "language_model"),
        ),
    )


def never(_whole: Config, _text: Config) -> bool:
    """``tie_word_embeddings`` is not heeded."""
    return False


HEADS: dict[str, Head] = {"Model": bare, "ForConditionalGeneration": conditional(language, tied=never)}


@family("voxtral", architecture="VoxtralForConditionalGeneration", heads=HEADS)
def voxtral(c: Config, run: Workload) -> Component:
    """Voxtral (arXiv 2507.13264): as many frames as fill the encoder's inner width are one vector to the projector."""
    audio = c.sub("audio_config", "voxtral_encoder")
    inner, frames = audio.size("intermediate_size"), heard(audio, run)
    vectors = divide(frames.tokens * audio.size("hidden_size"), inner)
    maps = two_maps(c, inner, language(c).size("hidden_size"), vectors, bias=False)
    return listener(c, run, nested(audio, run, "audio_tower"), *maps)


@family("audioflamingo3", architecture="AudioFlamingo3ForConditionalGeneration", heads=HEADS)
@family("musicflamingo", architecture="MusicFlamingoForConditionalGeneration", heads=HEADS)
def audioflamingo3(c: Config, run: Workload) -> Component:
    """Audio Flamingo 3 (arXiv 2507.08128) and Music Flamingo (arXiv 2511.10289): half as many vectors as frames."""
    audio = c.sub("audio_config", "audioflamingo3_encoder")
    vectors, bias = divide(heard(audio, run).tokens, 2), c.flag("projector_bias")
    maps = two_maps(c, audio.size("hidden_size"), language(c).size("hidden_size"), vectors, bias=bias)
    return listener(c, run, nested(audio, run, "audio_tower"), *maps)


@family(
    "moss_transcribe_diarize",
    architecture="MossTranscribeDiarizeForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": conditional(language)},
)
def moss_transcribe_diarize(c: Config, run: Workload) -> Component:
    """MOSS Transcribe Diarize (transformers' MossTranscribeDiarizeModel): frames side by side, mapped, then normed."""
    audio, joined = part(c, "audio_config", "moss_transcribe_diarize_audio"), c.size("audio_merge_size")
    vectors, width = divide(heard(audio, run).tokens, joined), language(c).size("hidden_size")
    maps = two_maps(c, audio.size("hidden_size") * joined, width, vectors, bias=c.flag("projector_bias"))
    return listener(c, run, nested(audio, run, "audio_tower"), *maps, norm("norm", "layernorm", width, vectors))


@family("qwen2_audio", architecture="Qwen2AudioForConditionalGeneration", heads=HEADS)
def qwen2_audio(c: Config, run: Workload) -> Component:
    """Qwen2-Audio (arXiv 2407.10759): half as many vectors as frames, through a single map."""
    audio = c.sub("audio_config", "qwen2_audio_encoder")
    vectors = divide(heard(audio, run).tokens, 2)
    projector = linear("linear", audio.size("d_model"), language(c).size("hidden_size"), vectors)
    return listener(c, run, nested(audio, run, "audio_tower"), projector)


@family(
    "moonshine",
    architecture="MoonshineForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": lm_head("proj_out")},
    aliases={
        "num_key_value_heads": "decoder_num_key_value_heads",
        "num_attention_heads": "decoder_num_attention_heads",
        "num_hidden_layers": "decoder_num_hidden_layers",
        "hidden_act": "decoder_hidden_act",
    },
)
def moonshine(c: Config, run: Workload) -> Component:
    """Jeffries et al. 2024 (arXiv 2410.15608): raw sound through three convolutions, and a gate in the decoder."""
    return Component("model", "encoder-decoder", parts=(_moonshine_encoder(c, run), _moonshine_decoder(c, run)))


def _read(made: Num, kernel: int, stride: int) -> Num:
    """How many positions a convolution without padding reads, at the least, to make so many: ``stride·(n − 1) + k``."""
    positions: Num = stride * (made - 1) + kernel
    return positions


def _moonshine_encoder(c: Config, run: Workload) -> Component:
    h, f, stream = c.size("hidden_size"), c.size("intermediate_size"), run.source
    t, clips = stream.tokens, 0 if run.decoding else stream.batch
    second = clips * _read(stream.length, 3, 2)
    first = clips * _read(_read(stream.length, 3, 2), 7, 3)
    ffn = FeedForward(h, f, c.word("encoder_hidden_act"), bias=True, names=("fc1", "fc2"))("mlp", stream, run)
    parts = (
        _moonshine_attention(c, run, "self_attn", stream, stream),
        ffn,
        *(norm(name, UNBIASED, h, t) for name in ("input_layernorm", "post_attention_layernorm")),
    )
    return Component(
        "encoder",
        "encoder",
        parts=(
            convolution("conv1", 1, h, (127,), first, bias=False, input_gradient=False),
            activation("conv1_activation", "tanh", first * h),
            norm("groupnorm", "layernorm", h, first),
            convolution("conv2", h, 2 * h, (7,), second),
            activation("conv2_activation", "gelu", second * 2 * h),
            convolution("conv3", 2 * h, h, (3,), t),
            activation("conv3_activation", "gelu", t * h),
            layer("layers", parts, t * h, copies=c.size("encoder_num_hidden_layers")),
            norm("layer_norm", UNBIASED, h, t),
        ),
    )


def _moonshine_decoder(c: Config, run: Workload) -> Component:
    h, f, stream = c.size("hidden_size"), c.size("intermediate_size"), run.target
    act, t = c.word("decoder_hidden_act"), stream.tokens
    parts = (
        _moonshine_attention(c, run, "self_attn", stream, stream, causal=True),
        _moonshine_attention(c, run, "encoder_attn", stream, run.source),
        FeedForward(h, f, act, bias=True, names=("fc1", "fc2"), gated=True)("mlp", stream, run),
        *(norm(name, UNBIASED, h, t) for name in ("input_layernorm", "post_attention_layernorm", "final_layernorm")),
    )
    return Component(
        "decoder",
        "decoder",
        parts=(
            embedding("embed_tokens", c.size("vocab_size"), h, t),
            layer("layers", parts, t * h, copies=c.size("decoder_num_hidden_layers")),
            norm("norm", UNBIASED, h, t),
        ),
    )


UNBIASED = "layernorm-no-bias"


def _moonshine_attention(
    c: Config, run: Workload, name: str, queries: Sequences, keys: Sequences, *, causal: bool = False
) -> Component:
    """The decoder is built with the encoder's heads, whatever its own fields say (transformers' MoonshineAttention)."""
    heads = "encoder_num_attention_heads"
    d = c.quotient("hidden_size", heads) if c.get("head_dim") is None else c.size("head_dim")
    groups = c.size("encoder_num_key_value_heads" if c.has("encoder_num_key_value_heads") else heads)
    bias = c.flag("attention_bias")
    block = Attention(
        c.size("hidden_size"), c.size(heads), groups, d, d, bias=bias, output_bias=False, names=LLAMA_NAMES
    )
    return block(name, queries, keys, run, causal=causal)
