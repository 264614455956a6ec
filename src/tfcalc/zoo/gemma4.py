"""Gemma 4's text: layers of two widths of heads, experts and tables for each layer where a config says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfcalc.configs.config import FULL, Config, layer_named
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.basic import Norm, buffer, parameter
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.decoders import SANDWICH
from tfcalc.zoo.blocks.gemma import CAPPED, Beside, ScaledRouting, SharingAttention, SharingDecoder
from tfcalc.zoo.blocks.layers import full_and_sliding
from tfcalc.zoo.gemma3n import CODE, attention, layer_input, layer_types, layer_vectors, norms, reusing


class Kind(NamedTuple):
    """Traits in which layers differ. A width or number of heads that is 0 is that of its type."""

    full: bool
    reuses: bool
    head_dim: int = 0
    kv_heads: int = 0


def kinds(c: Config) -> list[Kind]:
    """One for each layer; the last always sees everything."""
    types = layer_types(c, 6)
    types[-1] = FULL
    each = "per_layer_config" in c.data
    return [
        Kind(kind == FULL, reads, *(_overridden(c, place) if each else (0, 0)))
        for place, (kind, reads) in enumerate(zip(types, reusing(c, types), strict=True))
    ]


def _overridden(c: Config, place: int) -> tuple[int, int]:
    """Width and number of key heads that ``per_layer_config`` gives a layer, else those of the config itself."""
    given = c.get("per_layer_config") or {}
    if not isinstance(given, Mapping):
        raise InvalidModel(f"{c.path('per_layer_config')} is not an object", "write { … }")
    name = next((key for key in given if layer_named(key) == place), "")
    own: Mapping[str, Any] = {"head_dim": c.number("head_dim"), "num_key_value_heads": c.number("num_key_value_heads")}
    if not name:
        return own["head_dim"], own["num_key_value_heads"]
    layer_config = c.sub("per_layer_config", defaults={}).sub(name, defaults=own)
    return layer_config.number("head_dim"), layer_config.number("num_key_value_heads")


def _groups(c: Config, kind: Kind) -> Num:
    """Key and value heads, which share the query heads evenly."""
    of_its_own = kind.full and c.flag("attention_k_eq_v") and c.get("num_global_key_value_heads") is not None
    name = "num_global_key_value_heads" if of_its_own else "num_key_value_heads"
    heads, groups = c.number("num_attention_heads"), kind.kv_heads or c.number(name)
    if heads % groups:
        raise InvalidModel(
            f"{c.path('num_attention_heads')} {heads} is not divisible by {name} {groups}",
            f"give a divisor of {heads}",
        )
    return kind.kv_heads or c.size(name)


def mixer(c: Config, kind: Kind) -> SharingAttention:
    """Layers that see everything have wider heads, and may have values that are the keys."""
    made = "" if kind.reuses else "K" if kind.full and c.flag("attention_k_eq_v") else "KV"
    width = kind.head_dim or c.size("global_head_dim" if kind.full else "head_dim")
    causal = c.get("use_bidirectional_attention") != "all"
    return attention(c, made, width, _groups(c, kind), full=kind.full, causal=causal)


def moe(c: Config) -> ScaledRouting:
    """The router's scales are trained."""
    act, h = c.word("hidden_activation"), c.size("hidden_size")
    made = experts.mixture(
        c,
        name="(moe)",
        experts="num_experts",
        each="top_k_experts",
        width="moe_intermediate_size",
        router="router.proj",
        act=act,
        normalized=True,
    )
    return made.as_type(
        ScaledRouting,
        reads=Norm("router.norm", "rmsnorm-plain", h, CODE),
        scale=parameter("router.scale", h, minor=True),
        expert_scale=parameter("router.per_expert_scale", c.size("num_experts"), minor=True),
    )


def decoder(c: Config, *, sparse: bool = False, by_layer: bool = False) -> SharingDecoder:
    """The layers have experts, and vectors of their own, where they may."""
    further: dict[str, Any] = {"scalar": buffer("layer_scalar", 1)}
    if sparse:
        names = ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2")
        further |= {"moe": moe(c), "moe_norms": norms(c, *names)}
    if by_layer:
        (norm,) = norms(c, "post_per_layer_input_norm")
        further |= {"input": layer_input(c), "input_norm": norm}

    def one(kind: Kind) -> Module:
        wide = c.flag("use_double_wide_mlp") and kind.reuses
        network = decoders.gated(c, width=(2 if wide else 1) * c.size("intermediate_size"), act="hidden_activation")
        return Beside("layers", (mixer(c, kind), network), norms(c, *SANDWICH), **further)

    made = decoders.decoder(c, one, kinds(c), code=CODE, masks=full_and_sliding(c)).replace(scales=True)
    return made.as_type(SharingDecoder, vectors=layer_vectors(c, made.layers) if by_layer else None)


@family("gemma4_text", heads=CAPPED, global_head_dim=512)  # by __post_init__
def gemma4_text(c: Config) -> Module:
    """Gemma 4 (Google 2026): layers that see everything have wider heads, and may have values that are the keys."""
    by_layer = c.number("hidden_size_per_layer_input", least=0) > 0
    return decoder(c, sparse=c.flag("enable_moe_block"), by_layer=by_layer)


@family(
    "gemma4_unified_text",
    heads=CAPPED,
    global_head_dim=512,  # by __post_init__
)
def gemma4_unified_text(c: Config) -> Module:
    """Gemma 4's unified text model: no experts, and no tables for each layer."""
    return decoder(c)
