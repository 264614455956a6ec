"""Nemotron 3.5 Transcribe: an encoder of speech, one of speakers beside it, and a Nemotron-H."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.llama import head_dim, kv_heads
from tfcalc.families.sound_kit import language
from tfcalc.families.unread import unread
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.leaves.convolution import convolution
from tfcalc.workload import Sequences, Workload

SPEAKERS = {"hidden_size": 192, "num_speakers": 8, "audio_hidden_size": 512, "subsampling_factor": 8}


def encoder(name: str, c: Config, run: Workload, stream: Sequences, stem: Component, *, qk_norm: bool) -> Component:
    """A ``stem``, then layers between two norms that look both ways, with rotary positions."""
    h, t = c.size("hidden_size"), stream.tokens
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_act"), bias=True, names=("fc1", "fc2"))
    parts = (
        norm("layer_norm1", "layernorm", h, t),
        _attention(c, run, stream, qk_norm=qk_norm),
        norm("layer_norm2", "layernorm", h, t),
        ffn("mlp", stream, run),
    )
    return Component(
        name,
        "encoder",
        parts=(
            stem,
            norm("input_layer_norm", "layernorm", h, t),
            layer("layers", parts, t * h, copies=c.size("num_hidden_layers")),
            norm("layer_norm", "layernorm", h, t),
        ),
    )


def _attention(c: Config, run: Workload, stream: Sequences, *, qk_norm: bool) -> Component:
    """Only keys are shared among heads: there are as many values as queries (Nemotron3DiarizationAttention)."""
    h, a, g, d = c.size("hidden_size"), c.size("num_attention_heads"), kv_heads(c), head_dim(c)
    rows = {"q_norm": a, "k_norm": g} if qk_norm else {}
    within = (
        linear("v_proj", h, a * d, stream.tokens, bias=False, letter="V"),
        *(norm(name, "layernorm", d, stream.tokens * heads) for name, heads in rows.items()),
    )
    block = Attention(h, a, g, d, d, output_bias=True, names=LLAMA_NAMES, within=within, made="K")
    return block("self_attn", stream, stream, run, causal=False)


def stacked(c: Config, frames: Num) -> Component:
    """As many frames of the spectrogram as become one are laid side by side, and mapped."""
    wide = c.size("subsampling_factor") * c.size("num_mel_bins")
    return linear("embedder.projection", wide, c.size("hidden_size"), frames, bias=False, input_gradient=False)


def diarization(c: Config, run: Workload) -> Component:
    """Who speaks in each frame of the spectrogram (transformers' Nemotron3DiarizationForAudioFrameClassification)."""
    audio, head = _voices(c), c.sub("head_config", defaults=SPEAKERS)
    same(head, "audio_hidden_size", audio, "hidden_size")
    same(head, "subsampling_factor", audio, "subsampling_factor")
    h, narrow, factor, t = (
        audio.size("hidden_size"),
        head.size("hidden_size"),
        head.size("subsampling_factor"),
        run.source.tokens,
    )
    base = (
        encoder("audio_tower", audio, run, run.source, stacked(audio, t), qk_norm=False),
        linear("proj", h, narrow, t),
        convolution("upsampler.conv", narrow, narrow * factor, (3,), t),
    )
    fine = t * factor
    logits = (
        activation("relu1", "relu", fine * narrow),
        linear("dense", narrow, narrow, fine),
        activation("relu2", "relu", fine * narrow),
        linear("out_proj", narrow, head.size("num_speakers"), fine),
    )
    return Component(
        "diarization_model",
        "encoder",
        parts=(
            Component("model", "encoder", parts=base),
            Component("classifier", "head", parts=logits),
            parameter("silence_embeds", h),
        ),
    )


def _voices(c: Config) -> Config:
    """The config of what hears who speaks."""
    return c.within("audio_config", "nemotron3_diarization_audio")


def _words(c: Config) -> Config:
    """The config of what hears the words."""
    return c.within("asr_config", "nemotron3_5_transcribe_asr_audio")


def same(one: Config, field: str, other: Config, wanted: str) -> None:
    """Both fields must have one value."""
    one.size(field), other.size(wanted)  # sizes, though nothing else reads them
    if one.number(field) != other.number(wanted):
        raise InvalidModel(
            f"{one.path(field)} {one.number(field)} is not {other.path(wanted)}", f"write {other.number(wanted)}"
        )


def _told(speakers: Num, width: Num, frames: Num) -> Component:
    """Fixed vectors of those who speak, added up: only what says who does has a gradient."""
    return Component(
        "speaker_embedding", "linear", Cost(products=(Product("X S", (2, frames, speakers, width), backward=1),))
    )


def _heard(c: Config, run: Workload) -> Component:
    """Whoever speaks more than half of the time does so: that choice has no gradient."""
    audio = c.sub("audio_config", defaults={})
    asr, speakers = _words(audio), audio.sub("diarization_config", defaults={})
    t, told = run.source.tokens, speakers.sub("head_config", defaults=SPEAKERS)
    same(asr, "subsampling_factor", _voices(speakers), "subsampling_factor")
    return Component(
        "audio_tower",
        "encoder",
        parts=(
            encoder("asr_encoder", asr, run, run.source, stacked(asr, t), qk_norm=True),
            unread(diarization(speakers, run)),
            norm("asr_norm", "layernorm", asr.size("hidden_size"), t),
            norm("speaker_norm", "layernorm", told.size("num_speakers"), t),
            _told(told.size("num_speakers"), asr.size("hidden_size"), t),
        ),
    )


def _times(c: Config, run: Workload) -> Component:
    """Finer frames than the encoder's, by a transposed convolution, to tell when a word was said: asked for alone."""
    inner, stream = times(c), run.source
    h, factor = inner.size("hidden_size"), inner.size("upsampling_factor")
    finer = Sequences(stream.batch, stream.length * factor)
    stem = convolution("upsampler", h, h, (factor,), stream.tokens)
    return encoder("word_timestamp_encoder", inner, run, finer, stem, qk_norm=True)._replace(passes=0)


def times(c: Config) -> Config:
    """The config of what tells when a word was said."""
    return c.within("word_timestamp_config", "nemotron3_5_transcribe_word_timestamp")


def _written(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits of words, never tied; those of pieces of words for each finer frame are asked for alone."""
    text, timed = language(c), times(c)
    yield base
    yield output("lm_head", text.size("hidden_size"), text.size("vocab_size"), run, tied=False)
    frames = run.source.tokens * timed.size("upsampling_factor")
    head = convolution("word_timestamp_head", timed.size("hidden_size"), timed.size("vocab_size"), (1,), frames)
    yield head._replace(passes=0)


@family(
    "nemo_speechlm",
    architecture="Nemotron3_5TranscribeForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": _written},
)
def nemo_speechlm(c: Config, run: Workload) -> Component:
    """Transformers' Nemotron3_5TranscribeModel: fixed vectors of who speaks are added to what the encoder hears.

    ``run.source`` are the encoder's frames, heard at once: recordings are cut only where they are longer than chunks.
    """
    asr = _words(c.sub("audio_config", defaults={}))
    width, t = language(c).size("hidden_size"), run.source.tokens
    return Component(
        "model",
        "listener",
        parts=(
            _heard(c, run),
            linear("multi_modal_projector", asr.size("hidden_size"), width, t),
            nested(language(c), run, "language_model"),
            _times(c, run),
        ),
    )
