"""Language models that hear with Whisper's encoder."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks.sound import HEADS, SoundProjector, language, listener, two_maps, writes


@family("voxtral", heads=HEADS)
def voxtral(c: Config) -> Module:
    """Voxtral (arXiv 2507.13264): as many frames as fill the encoder's inner width are one vector to the projector."""
    audio = c.sub("audio_config", "voxtral_encoder")
    return listener(c, audio, two_maps(c, audio.size("encoder_ffn_dim"), language(c).size("hidden_size"), bias=False))


@family("audioflamingo3", "musicflamingo", heads=HEADS)
def audioflamingo3(c: Config) -> Module:
    """Audio Flamingo 3 (arXiv 2507.08128) and Music Flamingo (arXiv 2511.10289): half as many vectors as frames."""
    audio, bias = c.sub("audio_config", "audioflamingo3_encoder"), c.flag("projector_bias")
    return listener(c, audio, two_maps(c, audio.size("d_model"), language(c).size("hidden_size"), bias=bias))


@family("moss_transcribe_diarize", heads={"Model": bare, "ForConditionalGeneration": writes(tied=True)})
def moss_transcribe_diarize(c: Config) -> Module:
    """MOSS Transcribe Diarize (transformers' MossTranscribeDiarizeModel): frames side by side, mapped, then normed."""
    audio, width = subconfig(c, "audio_config", "moss_transcribe_diarize_audio"), language(c).size("hidden_size")
    joined = audio.size("d_model") * c.size("audio_merge_size")
    maps = two_maps(c, joined, width, bias=c.flag("projector_bias"))
    return listener(c, audio, maps.replace(norm=Norm("norm", "layernorm", width)))


CUT = HEADS | {"ForConditionalGeneration": writes(upcasts=False, cuts=True)}


@family("qwen2_audio", heads=CUT)
def qwen2_audio(c: Config) -> Module:
    """Qwen2-Audio (arXiv 2407.10759): half as many vectors as frames, through a single map."""
    audio = c.sub("audio_config", "qwen2_audio_encoder")
    single = Linear("linear", audio.size("d_model"), language(c).size("hidden_size"), "", True)
    return listener(c, audio, SoundProjector("multi_modal_projector", (single,)))
