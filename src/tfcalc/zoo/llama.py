"""Llama and those that differ from it by a flag or a default, and what its kin in other files are composed of."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import FUSED, LAYERS, full_and_sliding, windows


@family("llama", libraries=("torchtune",))
@family("iquestcoder", "internlm3")
def llama(c: Config) -> Module:
    """Touvron et al. 2023 (arXiv 2302.13971): RMSNorm, rotary positions, SwiGLU; biases only where a flag says so."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    return decoders.decoder(c, decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias"))))


@family("granite", heads=tops.CAUSAL_LM | tops.scaled_lm())
def granite(c: Config) -> Module:
    """Granite 3 (IBM 2024): Llama whose embedding, sub-layers and logits are multiplied by a number each."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    layers = decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias"))).replace(scales=True)
    return decoders.decoder(c, layers).replace(scales=True)


@family("emu3_text_model", architecture="Emu3ForCausalLM")
def emu3_text(c: Config) -> Module:
    """Emu3 (arXiv 2409.18869): Llama with dropout behind each sub-layer (transformers' Emu3DecoderLayer)."""
    parts = decoders.attention(c, bias=c.flag("attention_bias")), decoders.gated(c, bias=c.flag("mlp_bias"))
    return decoders.decoder(c, decoders.layer(c, *parts, dropped=bool(c.get("attention_dropout"))))


@family("smollm3")
def smollm3(c: Config) -> Module:
    """SmolLM3 (Hugging Face 2025): Llama whose layers without rotary positions may see a window."""
    rotated = positions_known(c)
    seen = windows(c, lambda place: c.flag("use_sliding_window") and not rotated[place])

    def one(kind: tuple[int | None, bool]) -> PreNorm:
        window, turns = kind
        mixer = decoders.attention(c, bias=c.flag("attention_bias"), window=window)
        return decoders.layer(
            c, mixer if turns else mixer.replace(rope=None), decoders.gated(c, bias=c.flag("mlp_bias"))
        )

    return decoders.decoder(c, one, list(zip(seen, rotated, strict=True)), masks=(None,))


def positions_known(c: Config) -> list[bool]:
    """SmolLM3's: not in the layers that ``no_rope_layers`` marks by a 0, every Nth where it is left out."""
    count, given = c.number(LAYERS), c.get("no_rope_layers")
    every = c.number("no_rope_layer_interval")
    known = [(place + 1) % every for place in range(count)] if given is None else c.numbers("no_rope_layers", count)
    return [bool(each) for each in known]


@family(
    "mistral",
    heads=tops.CAUSAL_LM | {"ForQuestionAnswering": tops.classifier("qa_outputs", bias=True, classes=2)},
    libraries=("torchtune",),
)
def mistral(c: Config) -> Decoder:
    """Mistral 7B (arXiv 2310.06825): Llama with grouped heads, and no flag for biases."""
    layer = decoders.layer(c, decoders.attention(c), decoders.gated(c))
    return decoders.decoder(c, decoders.with_windows(layer, windows(c, lambda _: True)))


@family("ministral")
def ministral(c: Config) -> Module:
    """Ministral (Mistral AI 2024): Mistral, some of whose layers may see everything."""
    return mistral(c).replace(masks=full_and_sliding(c))


@family(
    "ministral3", heads=tops.CAUSAL_LM | {"ForQuestionAnswering": tops.classifier("qa_outputs", bias=True, classes=2)}
)
def ministral3(c: Config) -> Module:
    """Ministral 3 (Mistral AI 2025): Mistral whose queries are multiplied by a number for each place."""
    layer = decoders.layer(c, decoders.attention(c).replace(tempered="own"), decoders.gated(c))
    return decoders.decoder(c, decoders.with_windows(layer, windows(c, lambda _: True)))


def upper_windows(c: Config) -> list[int | None]:
    """Qwen's: where a flag asks for them, in the layers from ``max_window_layers`` on."""
    if not c.flag("use_sliding_window"):
        return [None] * c.number(LAYERS)
    first = c.number("max_window_layers", least=0)
    return windows(c, lambda place: place >= first)


@family("qwen2", libraries=("torchtune",))
def qwen2(c: Config) -> Module:
    """Qwen2 technical report (arXiv 2407.10671): biases on queries, keys and values, none on the output."""
    layer = decoders.layer(c, decoders.attention(c, bias=True, output_bias=False), decoders.gated(c))
    return decoders.decoder(c, decoders.with_windows(layer, upper_windows(c)), masks=(None,))


@family("qwen3")
def qwen3(c: Config) -> Module:
    """Qwen3 technical report (arXiv 2505.09388): a norm of each head's query and key."""
    return with_head_norms(c)


def with_head_norms(c: Config, *, by_sequence: bool = False) -> Module:
    """The same, whose angles may be those of each sequence."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    layer = decoders.layer(c, mixer.replace(rope=decoders.rope(c, by_sequence=by_sequence)), decoders.gated(c))
    return decoders.decoder(c, decoders.with_windows(layer, upper_windows(c)), masks=(None,))


@family("phi3")
def phi3(c: Config) -> Module:
    """Phi-3 (arXiv 2404.14219): Llama with fused projections; all layers see a window, where a config has one."""
    mixer = decoders.attention(c, names=("qkv_proj", "o_proj")).replace(rope=decoders.rope(c, copies=True))
    layer = decoders.layer(c, mixer, decoders.gated(c, names=FUSED), dropped=bool(c.get("resid_pdrop")))
    return decoders.decoder(c, decoders.with_windows(layer, windows(c, lambda _: True)))
