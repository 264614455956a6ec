"""Whisper, and its encoder by itself, which language models hear with."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, labels, lm_head
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, parameter
from tfcalc.nn.embeddings import TOKENS, Positions
from tfcalc.nn.encoder_decoder import Alone
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import encoder_decoders
from tfcalc.zoo.blocks.encoders import MASKED
from tfcalc.zoo.blocks.sound import ALONE, ClipClassifier, FramePlaces, SoundEncoder, Transcriber, stem


def attention(c: Config, side: str, name: str, of: type[Attention] = Attention, **more: Any) -> Attention:
    """Attention whose keys have no bias."""
    made = encoder_decoders.attention(c, side, name, of, **more | {"given_ones": False})
    q, k, v = made.inward
    return made.replace(inward=(q, k.replace(bias=False), v), copied=True)


def encoder(c: Config) -> SoundEncoder:
    """Encoder whose fixed positions count as parameters that are not trained."""
    h, frames = c.size("d_model"), c.size("max_source_positions")
    return SoundEncoder(
        "encoder",
        stem(h, c.size("num_mel_bins")),
        FramePlaces("embed_positions", h, frames),
        encoder_decoders.equal_layers(c, "encoder", pre_norm=True, mixer=attention),
        encoder_decoders.norm(c, "layer_norm"),
        frames,
        dropped=bool(c.get("dropout")),
    )


def decoder(c: Config) -> Decoder:
    """A trained table of positions, keys without bias."""
    h = c.size("d_model")
    return Decoder(
        "decoder",
        Embedding("embed_tokens", c.size("vocab_size"), h),
        encoder_decoders.equal_layers(c, "decoder", pre_norm=True, mixer=attention),
        encoder_decoders.norm(c, "layer_norm"),
        added=(Positions("embed_positions", c.size("max_target_positions"), h, TOKENS),),
        dropped=bool(c.get("dropout")),
    )


def classes(c: Config, base: Module) -> Module:
    """A class for each clip; the layers' outputs may be mixed by a trained weight each."""
    assert isinstance(base, SoundEncoder)
    width = c.size("classifier_proj_size")
    mix = parameter("layer_weights", c.size("encoder_layers") + 1) if c.flag("use_weighted_layer_sum") else None
    projector = Linear("projector", c.size("d_model"), width, "", True)
    return ClipClassifier("", base, mix, projector, Linear("classifier", width, labels(c), "", True))


WRITES = lm_head("proj_out", width="d_model", **MASKED)
HEADS: dict[str, Top] = {
    "Model": bare,
    "ForConditionalGeneration": WRITES,
    "ForCausalLM": WRITES,
    "ForAudioClassification": classes,
}


@family("whisper", heads=HEADS)
def whisper(c: Config) -> Module:
    """Radford et al. 2022 (arXiv 2212.04356)."""
    if c.head == "ForAudioClassification":
        return encoder(c)
    if c.head == "ForCausalLM":
        return Alone("model", decoder(c))
    return Transcriber("model", None, encoder(c), decoder(c))


@family("voxtral_encoder", heads=ALONE)
@family("moss_transcribe_diarize_audio", heads={"Model": bare})
def whisper_encoder(c: Config) -> Module:
    """Whisper's encoder by itself (transformers' VoxtralEncoder)."""
    return encoder(c)


@family("audioflamingo3_encoder", "qwen2_audio_encoder", heads=ALONE)
@family("musicflamingo_encoder", heads=ALONE, like="audioflamingo3_encoder")
def halving_encoder(c: Config) -> Module:
    """Whisper's encoder with half as many vectors (transformers' AudioFlamingo3Encoder, Qwen2AudioEncoder)."""
    return encoder(c).replace(halved=True)
