"""Plain decoders, as rows: a type that differs from another by a few options is a ``variant`` of it.

A type with a part of its own, or with layers of several kinds, is a function in the file of its architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.layers import PreNorm, Sandwich
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Frozen, Module
from tfcalc.nn.positions import RopeCode
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import FUSED, LAYERS, LLAMA_NAMES, full_and_sliding, windows

QUESTIONS = {"ForQuestionAnswering": tops.classifier("qa_outputs", bias=True, classes=2)}


class PlainDecoder(Frozen):
    """Equal layers of attention and a feed-forward network, of which some may see a window.

    ``bias`` (of queries, keys and values), ``output_bias`` (else as ``bias``) and ``mlp_bias`` are true, false, or the
    config's flag that says so. ``maps`` and ``mlp_maps`` are names of projections. ``head_norms`` is the form of the
    norms of each head's query and key. ``head_width`` is that of a head, where there is no field ``head_dim``.
    ``mixer`` and ``rope`` are further fields of ``Attention``, or functions of the config that make them, and of
    ``RopeCode``. Without a ``gate`` the network has two maps.

    ``dropout`` is the config's field of the share that is dropped of what sub-layers make. These may be multiplied by a
    number (``scaled_sublayers``), and so may be embeddings (``scaled_table``). ``windows`` are those of all layers, and
    ``masks`` those that transformers makes, by their windows.
    """

    bias: bool | str = False
    output_bias: bool | str | None = None
    maps: Sequence[str] = LLAMA_NAMES
    head_norms: str = ""
    head_norm_names: tuple[str, str] = ("q_norm", "k_norm")
    head_width: Callable[[Config], Num] | None = None
    mixer: Mapping[str, Any] = {}
    rope: Mapping[str, Any] = {}
    gate: bool = True
    mlp_bias: bool | str = False
    mlp_maps: Sequence[str] = ()
    activation: str = "hidden_act"
    placement: type[PreNorm] = PreNorm
    norm: str = "rmsnorm"
    norm_code: str = ""
    norm_names: Sequence[str] = decoders.PRE_NORM
    dropout: str = ""
    scaled_sublayers: bool = False
    scaled_table: bool = False
    windows: Callable[[Config], Sequence[int | None]] | None = None
    masks: Callable[[Config], tuple[int | None, ...]] | None = None

    def variant(
        self,
        *model_types: str,
        heads: Mapping[str, Top] | None = None,
        architecture: str = "",
        like: str = "",
        libraries: tuple[str, ...] = (),
        defaults: Mapping[str, object] | None = None,
        **options: Any,
    ) -> PlainDecoder:
        """Register model types that differ by these ``options``; for all else see :func:`family`."""
        own: Mapping[str, Any] = defaults or {}
        if unknown := options.keys() - self.fields_.keys():
            raise TypeError(f"{', '.join(model_types)}: no option {', '.join(sorted(unknown))} of a plain decoder")
        register = family(*model_types, heads=heads, architecture=architecture, like=like, libraries=libraries, **own)
        return register(self.replace(**options))

    def __call__(self, c: Config) -> Decoder:
        """Build the model without a head."""
        layer = decoders.layer(
            c,
            self.attention(c),
            self.network(c),
            of=self.placement,
            norm=self.norm,
            names=self.norm_names,
            code=self.norm_code,
            dropped=bool(self.dropout and c.get(self.dropout)),
        ).replace(scales=self.scaled_sublayers)
        layers = layer if self.windows is None else decoders.with_windows(layer, self.windows(c))
        masks = () if self.masks is None else self.masks(c)
        whole = decoders.decoder(c, layers, norm=self.norm, code=self.norm_code, masks=masks)
        return whole.replace(scales=self.scaled_table)

    def attention(self, c: Config) -> Attention:
        """Build the attention of a layer that sees everything."""
        made = decoders.attention(
            c,
            names=self.maps,
            bias=flag(c, self.bias),
            output_bias=None if self.output_bias is None else flag(c, self.output_bias),
            qk_norms=self.head_norms,
            norm_names=self.head_norm_names,
            code=self.norm_code,
            width=None if self.head_width is None else self.head_width(c),
        )
        assert made.rope is not None
        fields = {name: value(c) if callable(value) else value for name, value in self.mixer.items()}
        return made.replace(rope=made.rope.replace(code=RopeCode(**self.rope)), **fields)

    def network(self, c: Config) -> Module:
        """Build the feed-forward network of a layer."""
        bias, act = flag(c, self.mlp_bias), self.activation
        if self.gate:
            return decoders.gated(c, bias=bias, act=act, names=self.mlp_maps or decoders.GATED)
        return decoders.plain(c, bias=bias, act=act, names=self.mlp_maps or decoders.PLAIN)


def flag(c: Config, given: bool | str) -> bool:
    """Return what is given, or what the config says under this name."""
    return c.flag(given) if isinstance(given, str) else given


def split_evenly(c: Config) -> Num:
    """Width of a head: the hidden size split among the heads."""
    return c.quotient("hidden_size", "num_attention_heads")


# --- which layers see a window, and which masks transformers makes


def in_all_layers(c: Config) -> list[int | None]:
    """Mistral's: each layer has a window, unless ``layer_types`` says otherwise."""
    return windows(c, lambda _: True)


def in_every_other_layer(c: Config) -> list[int | None]:
    """Gemma 2's: the first layer has a window, and every other one."""
    return windows(c, lambda place: place % 2 == 0)


def in_all_but_the_first_of_four(c: Config) -> list[int | None]:
    """Windows but in the first layer, and in each fourth one after it."""
    return windows(c, lambda place: place % 4 != 0)


def in_upper_layers(c: Config) -> list[int | None]:
    """Qwen's: where a flag asks for them, in the layers from ``max_window_layers`` on."""
    if not c.flag("use_sliding_window"):
        return [None] * c.number(LAYERS)
    first = c.number("max_window_layers", least=0)
    return windows(c, lambda place: place >= first)


def in_all_but_every_nth_layer(c: Config) -> list[int | None]:
    """Gemma 3's: every ``sliding_window_pattern``-th layer sees everything."""
    every = c.number("sliding_window_pattern")
    return windows(c, lambda place: (place + 1) % every != 0)


def full(c: Config) -> tuple[None]:
    """Return the only mask: that of layers that see everything."""
    return (None,)


# --- Llama

llama = PlainDecoder().variant("llama", bias="attention_bias", mlp_bias="mlp_bias", libraries=("torchtune",))
"""Touvron et al. 2023 (arXiv 2302.13971): RMSNorm, rotary positions, SwiGLU; biases only where a flag says so."""

llama.variant("iquestcoder", "internlm3")

llama.variant("emu3_text_model", architecture="Emu3ForCausalLM", dropout="attention_dropout")
"""Emu3 (arXiv 2409.18869): dropout behind each sub-layer (transformers' Emu3DecoderLayer)."""

llama.variant("seed_oss", output_bias="attention_out_bias", dropout="residual_dropout")
"""Seed-OSS (transformers' SeedOssAttention): the output's bias has a flag of its own."""

llama.variant(
    "ernie4_5", bias="use_bias", mlp_bias="use_bias", rope={"angles": "float32", "by_layer": True, "in_float32": True}
)
"""ERNIE 4.5 (transformers' Ernie4_5Attention): one flag for all biases."""

llama.variant("cwm", bias=False, windows=in_all_but_the_first_of_four, masks=full_and_sliding)
"""Code World Model (arXiv 2510.02387): biases in the feed-forward network only, where a flag says so."""

llama.variant(
    "hunyuan_v1_dense",
    mlp_bias=False,
    head_norms="rmsnorm",
    head_norm_names=("query_layernorm", "key_layernorm"),
    mixer={"normed_last": True},
)
"""Hunyuan dense (transformers' HunYuanDenseV1Attention): a norm of each head's query and key, once rotated."""

granite = llama.variant("granite", heads=tops.CAUSAL_LM | tops.scaled_lm(), scaled_sublayers=True, scaled_table=True)
"""Granite 3 (IBM 2024): the embedding, sub-layers and logits are multiplied by a number each."""

granite.variant(
    "granite_swa",
    heads=tops.CAUSAL_LM | tops.scaled_lm(),
    mixer={"sinks": decoders.sinks},
    windows=in_all_but_the_first_of_four,
    masks=full_and_sliding,
)
"""Granite with windows (transformers' GraniteSWAAttention): a trained sink for each head."""

# --- Mistral, Phi-3, Qwen

mistral = PlainDecoder().variant(
    "mistral", heads=tops.CAUSAL_LM | QUESTIONS, libraries=("torchtune",), windows=in_all_layers
)
"""Mistral 7B (arXiv 2310.06825): Llama with grouped heads, windows, and no flag for biases."""

mistral.variant("ministral", masks=full_and_sliding)
"""Ministral (Mistral AI 2024): some layers may see everything."""

mistral.variant("ministral3", heads=tops.CAUSAL_LM | QUESTIONS, mixer={"tempered": "own"})
"""Ministral 3 (Mistral AI 2025): queries are multiplied by a number for each place."""

phi3 = mistral.variant(
    "phi3", maps=("qkv_proj", "o_proj"), mlp_maps=FUSED, rope={"copies": True}, dropout="resid_pdrop"
)
"""Phi-3 (arXiv 2404.14219): fused projections; all layers see a window, where a config has one."""

qwen2 = mistral.variant(
    "qwen2", libraries=("torchtune",), bias=True, output_bias=False, windows=in_upper_layers, masks=full
)
"""Qwen2 technical report (arXiv 2407.10671): biases on queries, keys and values, none on the output."""

qwen2.variant("mimo", architecture="MiMoForCausalLM", like="qwen2")
"""MiMo-7B (arXiv 2505.07608). Its layers for multi-token prediction are not counted, as nothing runs them."""

qwen2.variant(
    "qwen2_vl_text", "qwen2_5_vl_text", heads={"Model": tops.bare}, head_width=split_evenly, rope={"by_sequence": True}
)
"""Text of Qwen2-VL: rotary positions in three dimensions, which depend on the sequence."""

qwen3 = qwen2.variant("qwen3", bias="attention_bias", output_bias=None, head_norms="rmsnorm")
"""Qwen3 technical report (arXiv 2505.09388): a norm of each head's query and key."""

qwen3.variant("qwen3_vl_text", heads={"Model": tops.bare}, rope={"by_sequence": True})
"""Text of Qwen3-VL: rotary positions in three dimensions."""

# --- no gate

arcee = llama.variant("arcee", gate=False)
"""Arcee AFM (transformers' ArceeMLP): no gate."""

arcee.variant(
    "apertus", head_norms="rmsnorm", mlp_bias=False, norm_names=("attention_layernorm", "feedforward_layernorm")
)
"""Apertus (arXiv 2509.14233): an activation with two trained scalars, norms of each head."""

jais2 = arcee.variant("jais2", norm="layernorm")
"""Jais 2 (transformers' Jais2DecoderLayer): LayerNorms with biases."""

jais2.variant(
    "nemotron",
    rope={"copies": True},
    norm_code="plus one",
    defaults={"partial_rotary_factor": 0.5},  # by __post_init__
)
"""Nemotron-4 (arXiv 2402.16819): norms whose weight is the distance from 1, and a part of each head rotated."""

# --- GLM-4

glm = llama.variant(
    "glm",
    output_bias=False,
    rope={"by_layer": True, "copies": True},
    mlp_bias=False,
    mlp_maps=FUSED,
    defaults={"partial_rotary_factor": 0.5},  # by __post_init__
)
"""ChatGLM (arXiv 2406.12793): fused gate and input; no bias on the output, whatever the flag says."""

glm4 = glm.variant(
    "glm4",
    placement=Sandwich,
    norm_names=decoders.BOTH_SIDES,
    defaults={"partial_rotary_factor": 0.5},  # by __post_init__
)
"""GLM-4-0414 (transformers' Glm4DecoderLayer): a norm after each sub-layer too."""

glm4.variant(
    "glm4v_text",
    heads={"Model": tops.bare},
    bias=True,
    head_width=split_evenly,
    rope={"by_sequence": True, "copies": True},
)
"""Text of GLM-4V: biases of queries, keys and values, and rotary positions in three dimensions."""

# --- Gemma

gemma = llama.variant("gemma", mlp_bias=False, norm_code="gemma", scaled_table=True)
"""Gemma (arXiv 2403.08295): Llama with GeGLU and a tied head; a norm's weight is the distance from 1."""


def capped(c: Config) -> bool:
    """Return whether attention scores are capped."""
    return c.get("attn_logit_softcapping") is not None


CAPPED = tops.CAUSAL_LM | tops.capped_lm()

gemma2 = gemma.variant(
    "gemma2",
    heads=CAPPED,
    mixer={"capped": capped},
    activation="hidden_activation",
    placement=Sandwich,
    norm_names=decoders.SANDWICH,
    windows=in_every_other_layer,
    masks=full_and_sliding,
)
"""Gemma 2 (arXiv 2408.00118): four norms a layer; every other layer sees a window."""

gemma2.variant(
    "vaultgemma", heads=CAPPED, placement=PreNorm, norm_names=("input_layernorm", "pre_feedforward_layernorm")
)
"""VaultGemma (arXiv 2510.15001): Gemma 2 without the norms after the sub-layers."""

gemma2.variant(
    "gemma3_text",
    architecture="Gemma3TextModel",
    heads=CAPPED,
    mixer={"capped": capped, "causal": lambda c: not c.flag("use_bidirectional_attention")},
    head_norms="rmsnorm",
    rope={"by_window": True},
    windows=in_all_but_every_nth_layer,
    defaults={"sliding_window_pattern": 6},  # by __post_init__, for older configs
)
"""Gemma 3 (arXiv 2503.19786): a norm of each head's query and key; all layers but every sixth see a window."""

# --- those that transformers lacks: their code lies beside their weights, and is never run here

llama.variant(
    "baichuan",
    architecture="BaichuanForCausalLM",
    like="llama",
    bias=False,
    maps=("W_pack", "o_proj"),
    mlp_bias=False,
    defaults={"vocab_size": 64000},
)
"""Baichuan 2 (arXiv 2309.10305): one matrix for queries, keys and values."""

llama.variant(
    "internlm",
    architecture="InternLMForCausalLM",
    like="llama",
    bias="bias",
    mlp_bias=False,
    defaults={"vocab_size": 103168, "bias": True},
)
"""InternLM (its modeling_internlm.py): ``bias`` is that of attention only."""

orion = llama.variant(
    "orion",
    architecture="OrionForCausalLM",
    like="llama",
    mlp_bias=False,
    norm="layernorm",
    defaults={"vocab_size": 84608, "hidden_size": 5120, "intermediate_size": 15360},
)
"""Orion-14B (arXiv 2401.12246): LayerNorms, biases and all."""
