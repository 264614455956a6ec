"""Nemotron 3.5 Transcribe: an encoder of speech, one of speakers beside it, and a Nemotron-H."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import activation, add, pointwise
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders, vision_tower
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, stack
from tfcalc.zoo.blocks.sound import AudioLanguageModel, Convolution, SoundEncoder, language, writes
from tfcalc.zoo.blocks.vision_tower import nested


class SharedKeys(Attention):
    """Attention in which heads share keys, but not values."""

    @property
    def value_heads(self) -> Num:
        """Number of heads with values of their own: all."""
        return self.heads


class StackedFrames(Linear):
    """Linear map of the spectrogram's frames, laid side by side, as many as become one vector."""

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Return the vectors of a clip for each sequence, which is given beside ``x``."""
        (ctx,) = given
        assert isinstance(ctx, Context)
        shape = (ctx.stream.batch, ctx.stream.length, self.fan_in)
        return super().forward(x.trace.given(shape, x.trace.weights_format, "spectrogram"))


class UntrainedLayer(PreNorm):
    """A layer that no gradient reaches, and so none to recomputation."""

    kind = "unread"


class Upsampled(Module):
    """An encoder, a map of its frames, and a convolution that makes several finer ones of each (arXiv 1609.05158)."""

    kind = "encoder"

    encoder: SoundEncoder
    map: Linear
    convolution: Convolution
    finer: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return a narrow vector for each fine frame, ``finer`` times as many as the encoder's."""
        x = transpose(self.map(self.encoder(x, ctx)), 1, 2)
        b, h, n = x.shape
        return reshape(transpose(self.convolution(x, ctx, n), 1, 2), b, n * self.finer, h)


class SpeakerClasses(Module):
    """Logits of each speaker, by two maps, each of which has a ReLU before it."""

    kind = "head"

    dense: Linear
    output: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the speakers' logits of each frame."""
        for place, each in enumerate((self.dense, self.output), 1):
            x = each(_relu(x, f"relu{place}"))
        return x


def _relu(x: Tensor, name: str) -> Tensor:
    return activation("relu", x, lambda: pointwise("relu", x), name)


class Diarization(Module):
    """Speakers of each frame; a trained vector of ``silence`` is stored for longer clips than one."""

    kind = "encoder"

    model: Upsampled
    classifier: SpeakerClasses
    silence: Parameter

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the speakers' logits of each frame of a clip for each sequence."""
        return self.classifier(self.model(x, ctx), ctx)


class SpeakerVectors(Module):
    """The sum of fixed vectors of those who speak: a product with a table, and only the other factor has a gradient."""

    kind = "linear"

    speakers: Num
    width: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the sums of vectors, for ``x`` of b × n × speakers."""
        table = x.trace.given((self.speakers, self.width), x.dtype, "vectors of speakers")
        return linear(x, table, letter="S")


class WithSpeakers(Module):
    """An encoder, and to each of its frames, normed, the vectors of those who speak.

    Whoever speaks more than half of the time does so: that choice has no gradient.
    """

    kind = "encoder"

    encoder: SoundEncoder
    diarization: Diarization
    norm: Norm
    speaker_norm: Norm
    vectors: SpeakerVectors

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of a clip for each sequence, with those of its speakers added."""
        heard = self.encoder(x, ctx)
        with x.trace.without_gradients():
            self.diarization(x, ctx)
        speak = x.trace.new((*heard.shape[:2], self.vectors.speakers), heard.dtype, "who speaks")
        return add(self.norm(heard, ctx), self.vectors(self.speaker_norm(speak, ctx), ctx))


class TimingListener(AudioLanguageModel):
    """A listener that also holds an encoder which tells when a word was said: it runs only where that is asked for."""

    times: Module | None = None


class TimingHead(ModelWithHead):
    """Logits of words; the map for those of pieces of words for each fine frame is stored, and runs only on request."""

    timing: Convolution | None = None


SPEAKERS = {"hidden_size": 192, "num_speakers": 8, "audio_hidden_size": 512, "subsampling_factor": 8}
TURNED = {"partial_rotary_factor": 0.5}  # by __post_init__


def encoder(name: str, c: Config, stem: Module, *, qk_norm: bool = True, of: type[PreNorm] = PreNorm) -> SoundEncoder:
    """A ``stem``, then layers between two norms that look both ways, with rotary positions."""
    sublayers = _attention(c, qk_norm=qk_norm), vision_tower.network(c)
    layer = of("layers", sublayers, vision_tower.norms(c, "layer_norm1", "layer_norm2"))
    first, last = vision_tower.norms(c, "input_layer_norm", "layer_norm")
    return SoundEncoder(name, stem, None, stack(c, layer), last, first=first)


def _attention(c: Config, *, qk_norm: bool) -> SharedKeys:
    """Only keys are shared among heads: there are as many values as queries (Nemotron3DiarizationAttention)."""
    h, a, g, d = c.size("hidden_size"), c.size("num_attention_heads"), decoders.kv_heads(c), decoders.head_dim(c)
    *inward, outward = LLAMA_NAMES
    maps = (Linear(n, h, heads * d, letter) for n, letter, heads in zip(inward, "QKV", (a, g, a), strict=True))
    norms = tuple(Norm(name, "layernorm", d) for name in ("q_norm", "k_norm")) if qk_norm else ()
    out, drops = Linear(outward, a * d, h, "O", True), bool(c.get("attention_dropout"))
    rope = decoders.rope(c, d, copies=True)
    return SharedKeys("self_attn", a, g, d, d, tuple(maps), norms, out, rope=rope, causal=False, dropout=drops)


def stacked(c: Config) -> StackedFrames:
    """Map of as many frames of the spectrogram as become one, laid side by side."""
    wide = c.size("subsampling_factor") * c.size("num_mel_bins")
    return StackedFrames("embedder.projection", wide, c.size("hidden_size"))


def diarization(c: Config) -> Diarization:
    """Speakers of each frame of the spectrogram (transformers' Nemotron3DiarizationForAudioFrameClassification)."""
    audio, head = _voices(c), c.sub("head_config", defaults=SPEAKERS)
    same(head, "audio_hidden_size", audio, "hidden_size")
    same(head, "subsampling_factor", audio, "subsampling_factor")
    h, narrow, factor = audio.size("hidden_size"), head.size("hidden_size"), head.size("subsampling_factor")
    model = Upsampled(
        "model",
        encoder("audio_tower", audio, stacked(audio), qk_norm=False, of=UntrainedLayer),
        Linear("proj", h, narrow, "", True),
        Convolution("upsampler.conv", narrow, narrow * factor, (3,)),
        factor,
    )
    last = Linear("out_proj", narrow, head.size("num_speakers"), "", True)
    classifier = SpeakerClasses("classifier", Linear("dense", narrow, narrow, "", True), last)
    return Diarization("diarization_model", model, classifier, parameter("silence_embeds", h))


def _voices(c: Config) -> Config:
    """The config of what hears who speaks."""
    return c.within("audio_config", "nemotron3_diarization_audio", **TURNED)


def _words(c: Config) -> Config:
    """The config of what hears the words."""
    return c.within("asr_config", "nemotron3_5_transcribe_asr_audio", **TURNED)


def same(one: Config, field: str, other: Config, wanted: str) -> None:
    """Raise InvalidModel unless both fields have one value."""
    one.size(field), other.size(wanted)  # sizes, though nothing else reads them
    if one.number(field) != other.number(wanted):
        raise InvalidModel(
            f"{one.path(field)} {one.number(field)} is not {other.path(wanted)}", f"write {other.number(wanted)}"
        )


def _heard(c: Config) -> WithSpeakers:
    audio = c.sub("audio_config", defaults={})
    asr, speakers = _words(audio), audio.sub("diarization_config", defaults={})
    told = speakers.sub("head_config", defaults=SPEAKERS).size("num_speakers")
    same(asr, "subsampling_factor", _voices(speakers), "subsampling_factor")
    h = asr.size("hidden_size")
    return WithSpeakers(
        "audio_tower",
        encoder("asr_encoder", asr, stacked(asr)),
        diarization(speakers),
        Norm("asr_norm", "layernorm", h),
        Norm("speaker_norm", "layernorm", told),
        SpeakerVectors("speaker_embedding", told, h),
    )


def _times(c: Config) -> SoundEncoder:
    """Finer frames than the encoder's, by a transposed convolution, to tell when a word was said: asked for alone."""
    timed = times(c)
    h = timed.size("hidden_size")
    stem = Convolution("upsampler", h, h, (timed.size("upsampling_factor"),))
    return encoder("word_timestamp_encoder", timed, stem)


def times(c: Config) -> Config:
    """The config of what tells when a word was said."""
    return c.within("word_timestamp_config", "nemotron3_5_transcribe_word_timestamp")


def _written(c: Config, base: Module) -> Module:
    """Logits of words, never tied; those of pieces of words for each finer frame are asked for alone."""
    whole, timed = writes()(c, base), times(c)
    timing = Convolution("word_timestamp_head", timed.size("hidden_size"), timed.size("vocab_size"), (1,))
    return whole.as_type(TimingHead, timing=timing)


@family("nemo_speechlm", heads={"Model": bare, "ForConditionalGeneration": _written})
def nemo_speechlm(c: Config) -> Module:
    """Transformers' Nemotron3_5TranscribeModel: fixed vectors of who speaks are added to what the encoder hears.

    As many frames are heard as the source is long, at once: recordings are cut only where they are longer than chunks.
    """
    asr, text = _words(c.sub("audio_config", defaults={})), language(c)
    projector = Linear("multi_modal_projector", asr.size("hidden_size"), text.size("hidden_size"), "", True)
    language_model = nested(text, "language_model")
    beyond = c.number("audio_token_id", least=0) >= text.number("vocab_size")
    return TimingListener("model", _heard(c), projector, language_model, copies_ids=beyond, times=_times(c))
