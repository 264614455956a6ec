"""dots 3 Note's encoder of sound."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare
from tfcalc.core.number import ceil_div
from tfcalc.families import kit
from tfcalc.families.names import FUSED
from tfcalc.nn.attention import Attention
from tfcalc.nn.bands import AdaptedEncoder, BandStem, MapAdapter
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.frames import Convolution
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack

HALVINGS = 3


@family(
    "dots3_note_audio_encoder",
    architecture="Dots3NoteAudioModel",
    heads={"Model": bare},
    aliases={
        "whisper_adapter_in_dim": "adapter_input_size",
        "whisper_adapter_out_dim": "adapter_out_dim",
        "adapter_output_size": "adapter_out_dim",
    },
)
def dots3_note_audio_encoder(c: Config) -> Module:
    """Its tower for sound, as many steps as the source is long: Whisper's shape, but with gated networks."""
    h, into, out = c.size("hidden_size"), c.size("adapter_input_size"), c.size("adapter_out_dim")
    layer = kit.layer(c, _attention(c), kit.gated(c, bias=True, names=FUSED))
    adapter = MapAdapter(
        "adapter",
        Norm("norm", "layernorm", into),
        Linear("fc1", into, out, "", True),
        Linear("fc2", out, out, "", True),
    )
    return AdaptedEncoder(
        "audio_tower",
        _stem(c),
        None,
        Stack("layers", (layer,) * c.number("num_hidden_layers"), c.size("num_hidden_layers")),
        Norm("layer_norm", "rmsnorm", h),
        dropped=bool(c.get("dropout")),
        adapter=adapter,
    )


def _attention(c: Config) -> Attention:
    """Keys have no bias; there are as many as queries."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    bias = c.flag("attention_bias")
    maps = tuple(
        Linear(f"{letter.lower()}_proj", h, a * d, letter, bias and letter != "K") for letter in ("Q", "K", "V")
    )
    out = Linear("o_proj", a * d, h, "O", bias)
    drops = bool(c.get("attention_dropout"))
    return Attention(
        "self_attn", a, a, d, d, maps, (), out, rope=kit.rope(c, d, copies=True), causal=False, dropout=drops
    )


def _stem(c: Config) -> BandStem:
    """Three convolutions over frequency and time, each of which halves both, and a map of what is left."""
    width, bands = c.size("downsample_hidden_size"), c.number("feature_size")
    reads = (1, width, width)
    convolutions = tuple(Convolution(f"convs.{place}", each, width, (3, 3)) for place, each in enumerate(reads))
    left = ceil_div(bands, 2**HALVINGS)
    return BandStem("conv_stem", convolutions, Linear("conv_out", width * left, c.size("hidden_size")), bands)
