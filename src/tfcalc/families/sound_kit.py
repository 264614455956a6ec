"""What models that hear are composed of: Whisper's stem, a projector, and the language model that is nested in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tfcalc.configs.config import Config
from tfcalc.configs.family import subconfig
from tfcalc.configs.tops import Top, bare, logits
from tfcalc.core.number import Num
from tfcalc.families.image_kit import nested as nested
from tfcalc.nn.basic import Linear
from tfcalc.nn.frames import Convolution, Stem
from tfcalc.nn.listener import Listener, SoundProjector
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module

ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}
"""The names that other encoders have for Whisper's fields."""


def stem(width: Num, channels: Num, name: str = "") -> Stem:
    """Two convolutions over time, of which the second halves it."""
    first = Convolution("conv1", channels, width, (3,), activation="gelu")
    return Stem(name, first, Convolution("conv2", width, width, (3,), activation="gelu"))


class Nested(NamedTuple):
    """The language model that a model has: its type, and defaults that are not those of its family."""

    model_type: str
    own: Mapping[str, object] = MappingProxyType({})
    whole: bool = False
    """Whether its own defaults hold only where no config is nested: one that is given is not filled up with them."""


TEXT = {
    "voxtral": Nested(
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
    "voxtral_realtime": Nested(
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
    "glmasr": Nested(
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
    "granite_speech": Nested("granite"),
    "granite_speech_plus": Nested("granite"),
    "moss_transcribe_diarize": Nested(
        "qwen3",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
        whole=True,
    ),
    "nemo_speechlm": Nested(
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
        whole=True,
    ),
    "qwen3_asr": Nested(
        "qwen3",
        {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
        whole=True,
    ),
    "vibevoice_asr": Nested("qwen2"),
    "qwen2_audio": Nested("qwen2"),
    "audioflamingo3": Nested("qwen2"),
    "musicflamingo": Nested("qwen2"),
}
"""Which language model each has."""


def language(c: Config) -> Config:
    """The nested config of the language model."""
    nested = TEXT[c.model_type]
    if nested.whole:
        return subconfig(c, "text_config", nested.model_type, over=nested.own, free=True)
    return c.sub("text_config", nested.model_type, over=nested.own)


def two_maps(
    c: Config, fan_in: Num, width: Num, *, between: Num | None = None, bias: bool, act: str = "projector_hidden_act"
) -> SoundProjector:
    """Two linear maps with an activation between them, where vectors may be wider than behind them."""
    wide = width if between is None else between
    maps = Linear("linear_1", fan_in, wide, "", bias), Linear("linear_2", wide, width, "", bias)
    return SoundProjector("multi_modal_projector", maps, c.word(act))


def listener(c: Config, audio: Config, projector: SoundProjector) -> Listener:
    """An encoder of sound, a projector of its frames, and the language model that reads them among its words."""
    return Listener("model", nested(audio, "audio_tower"), projector, nested(language(c), "language_model"))


def writes(*, tied: bool = False, **loss: bool) -> Callable[[Config, Module], WithHead]:
    """Logits of the language model's vectors; ``tie_word_embeddings`` of the whole may not be heeded.

    ``loss`` says of what copies of the logits it is made.
    """

    def top(c: Config, base: Module) -> WithHead:
        text, shared = language(c), tied and c.flag("tie_word_embeddings")
        head = logits("lm_head", text.size("hidden_size"), text.size("vocab_size"), tied=shared)
        return WithHead("", base, head, **loss)

    return top


HEADS: dict[str, Top] = {"Model": bare, "ForConditionalGeneration": writes()}
ALONE: dict[str, Top] = {"Encoder": bare}
