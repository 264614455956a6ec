"""Mixtures of experts whose layers differ in their heads: MiMo-V2-Flash, Laguna."""

from __future__ import annotations

from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, scaled
from tfcalc.errors import InvalidModel
from tfcalc.families import experts, kit
from tfcalc.families.experts import mlp_types, sparse_after
from tfcalc.families.glm_moe import routed
from tfcalc.families.windows import FULL, LAYERS, SLIDING, windows
from tfcalc.nn.attention import Attention, EagerCode
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.gated_behind import GatedBehind
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope
from tfcalc.nn.scaled_values import ScaledValues


def inward(c: Config, queries: Num, keys: Num, values: Num) -> tuple[Linear, ...]:
    """Maps to queries, keys and values of these widths."""
    h, bias = c.size("hidden_size"), c.flag("attention_bias")
    widths = {"q_proj": queries, "k_proj": keys, "v_proj": values}
    return tuple(Linear(name, h, width, name[0].upper(), bias) for name, width in widths.items())


def mimo_attention(kind: str, c: Config) -> Attention:
    """Where it slides, with twice as many keys and values, and sinks."""
    sliding = kind == SLIDING
    if sliding and c.number("num_attention_heads") % (2 * c.number("num_key_value_heads")):
        field = c.path("num_key_value_heads")
        raise InvalidModel(f"twice {field} must divide num_attention_heads where attention slides", f"halve {field}")
    a, g, d, d_v = c.size("num_attention_heads"), kit.kv_heads(c), c.size("head_dim"), c.size("v_head_dim")
    g = 2 * g if sliding else g
    return ScaledValues(
        "self_attn",
        a,
        g,
        d,
        d_v,
        inward(c, a * d, g * d, g * d_v),
        (),
        Linear("o_proj", a * d_v, c.size("hidden_size"), "O"),
        rope=kit.rope(c, d, kind, by_window=True, copies=True),
        sinks=kit.sinks(c, "highest") if sliding else None,
        window=mimo_window(c) if sliding else None,
        dropout=bool(c.get("attention_dropout")),
        eager=EagerCode(softmax="less highest"),
    )


def mimo_window(c: Config) -> int:
    """A query's own key and those before it; ``sliding_window_size`` does not count its own."""
    return c.number("sliding_window_size") + 1 if c.has("sliding_window_size") else c.number("sliding_window")


def mimo_layer_types(c: Config) -> list[str]:
    """Full attention in the first layer and every sixth, where it is not said."""
    count = c.number(LAYERS)
    if c.has("layer_types"):
        return c.words("layer_types", count, (SLIDING, FULL))
    return [SLIDING if place and (place + 1) % 6 else FULL for place in range(count)]


@family(
    "mimo_v2_flash",
    architecture="MiMoV2FlashForCausalLM",
    heads=tops.CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts"},
    partial_rotary_factor=0.334,  # by __post_init__
)
def mimo_v2_flash(c: Config) -> Module:
    """MiMo-V2-Flash (arXiv 2601.02780): values narrower than keys; sliding layers have more of both."""

    def one(kind: tuple[str, str]) -> PreNorm:
        window, mlp = kind
        return kit.layer(c, mimo_attention(window, c), routed(c) if mlp == "sparse" else kit.gated(c))

    return kit.decoder(c, one, list(zip(mimo_layer_types(c), mlp_types(c, sparse_after(c, 1)), strict=True)))


@family("laguna", architecture="LagunaForCausalLM", heads=tops.CAUSAL_LM)
def laguna(c: Config) -> Module:
    """Poolside's Laguna (transformers' LagunaModel): gated attention, whose layers may differ in their query heads."""

    def one(kind: tuple[int | None, int, str]) -> PreNorm:
        window, queries, mlp = kind
        mixer = laguna_attention(queries, window, c)
        return kit.layer(c, mixer, laguna_experts(c) if mlp == "sparse" else kit.gated(c))

    count = c.number(LAYERS)
    given = c.get("num_attention_heads_per_layer") is not None
    queries = c.numbers("num_attention_heads_per_layer", count, least=1) if given else [0] * count
    seen = windows(c, lambda _: False)
    return kit.decoder(c, one, list(zip(seen, queries, mlp_types(c, sparse_after(c, 1)), strict=True)))


def laguna_experts(c: Config) -> Mixture:
    """Experts and shared ones, which run first; logits of the router may have a cap."""
    beside = kit.gated(c, name="shared_experts", width=c.size("shared_expert_intermediate_size", least=0))
    routing: dict[str, Any] = {"scores": "sigmoid", "corrected": True, "normalized": True, "in_place": False}
    capped = bool(c.get("moe_router_logit_softcapping"))
    code: dict[str, Any] = {"logits": "float32", "result": "stream", "capped": capped}
    fields: dict[str, Any] = {"experts": "num_experts", "width": "moe_intermediate_size"}
    stored = experts.frozen(c, "gate.e_score_correction_bias", "num_experts")
    made = experts.mixture(c, beside, **fields, **routing, **code)
    return made.but(stored=(stored,), shared_first=True, scales=True)


def laguna_attention(count: int, window: int | None, c: Config) -> Attention:
    """Attention of so many heads (0: of ``num_attention_heads``), gated head by head, or element by element."""
    groups, d, h = c.number("num_key_value_heads"), c.size("head_dim"), c.size("hidden_size")
    if (count or c.number("num_attention_heads")) % groups:
        raise InvalidModel(f"num_key_value_heads {groups} must divide every layer's query heads", "give a divisor")
    a, g = count or c.size("num_attention_heads"), c.size("num_key_value_heads")
    by_head = c.get("gating") in (True, "per-head")
    return GatedBehind(
        "self_attn",
        a,
        g,
        d,
        d,
        inward(c, a * d, g * d, g * d),
        tuple(Norm(name, "rmsnorm", d) for name in ("q_norm", "k_norm")),
        Linear("o_proj", a * d, h, "O", c.flag("attention_bias")),
        rope=laguna_rope(c, d, window),
        window=window,
        dropout=bool(c.get("attention_dropout")),
        gate=Linear("g_proj", h, a if by_head else a * d, "gate"),
        opens="softplus",
        by_head=by_head,
        gate_in_float32=True,
    )


def laguna_rope(c: Config, d: Num, window: int | None) -> Rope:
    """Layers that see everything turn half of each head, where the config does not say otherwise."""
    if window is None and not c.get("rope_parameters"):
        return Rope(scaled(d, 0.5), by_window=True, copies=True, partial=True)
    return kit.rope(c, d, FULL if window is None else SLIDING, by_window=True, copies=True)
