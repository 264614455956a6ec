"""Mixtures of experts whose layers differ in their heads: MiMo-V2-Flash, Laguna."""

from __future__ import annotations

from tfcalc.configs.config import FULL, SLIDING, Config
from tfcalc.configs.family import family
from tfcalc.core import number
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention, EagerCode
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.ops.elementwise import scaled
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.attention import GatedBehind
from tfcalc.zoo.blocks.experts import mlp_types, routed, sparse_after
from tfcalc.zoo.blocks.layers import LAYERS, LLAMA_NAMES, layer_types, multi_head, windows


class ScaledValues(Attention):
    """Values are multiplied by a number before anything reads them (transformers' MiMoV2FlashAttention)."""

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Scale the values."""
        q, k, v = super().project(x, source, ctx)
        return q, k, scaled(v)


BALANCE = "gate.e_score_correction_bias"


def mimo_attention(kind: str, c: Config) -> Attention:
    """Attention, with twice as many keys and values, and sinks, where it slides."""
    sliding = kind == SLIDING
    if sliding and c.number("num_attention_heads") % (2 * c.number("num_key_value_heads")):
        field = c.path("num_key_value_heads")
        raise InvalidModel(f"twice {field} must divide num_attention_heads where attention slides", f"halve {field}")
    a, g, d, d_v = c.size("num_attention_heads"), decoders.kv_heads(c), c.size("head_dim"), c.size("v_head_dim")
    return multi_head(
        ScaledValues,
        "self_attn",
        LLAMA_NAMES,
        *(c.size("hidden_size"), a, d),
        groups=2 * g if sliding else g,
        value_width=d_v,
        bias=c.flag("attention_bias"),
        output_bias=False,
        rope=decoders.rope(c, d, kind, by_window=True, copies=True),
        sinks=decoders.sinks(c, "highest") if sliding else None,
        window=mimo_window(c) if sliding else None,
        dropout=bool(c.get("attention_dropout")),
        eager=EagerCode(softmax="less highest"),
    )


def mimo_window(c: Config) -> int:
    """A query's own key and those before it; ``sliding_window_size`` does not count its own."""
    return c.number("sliding_window_size") + 1 if c.has("sliding_window_size") else c.number("sliding_window")


@family(
    "mimo_v2_flash",
    partial_rotary_factor=0.334,  # by __post_init__
)
def mimo_v2_flash(c: Config) -> Module:
    """MiMo-V2-Flash (arXiv 2601.02780): values narrower than keys; sliding layers have more of both."""

    def one(kind: tuple[str, str]) -> PreNorm:
        window, mlp = kind
        return decoders.layer(c, mimo_attention(window, c), routed(c) if mlp == "sparse" else decoders.gated(c))

    slides = layer_types(c, lambda place: SLIDING if place and (place + 1) % 6 else FULL, (SLIDING, FULL))
    return decoders.decoder(c, one, list(zip(slides, mlp_types(c, sparse_after(c, 1)), strict=True)))


@family("laguna")
def laguna(c: Config) -> Module:
    """Poolside's Laguna (transformers' LagunaModel): gated attention, whose layers may differ in their query heads."""

    def one(kind: tuple[int | None, int, str]) -> PreNorm:
        window, queries, mlp = kind
        mixer = laguna_attention(queries, window, c)
        return decoders.layer(c, mixer, laguna_experts(c) if mlp == "sparse" else decoders.gated(c))

    count = c.number(LAYERS)
    given = c.get("num_attention_heads_per_layer") is not None
    queries = c.numbers("num_attention_heads_per_layer", count, least=1) if given else [0] * count
    seen = windows(c, lambda _: False)
    return decoders.decoder(c, one, list(zip(seen, queries, mlp_types(c, sparse_after(c, 1)), strict=True)))


def laguna_experts(c: Config) -> Mixture:
    """Experts and shared ones, which run first; logits of the router may have a cap."""
    beside = decoders.gated(c, name="shared_experts", width=c.size("shared_expert_intermediate_size", least=0))
    capped, stored = bool(c.get("moe_router_logit_softcapping")), experts.frozen(c, BALANCE, "num_experts")
    made = routed(
        c,
        "num_experts",
        normalized=True,
        code=RouterCode(in_place=False, logits="float32", result="stream", capped=capped),
    )
    return made.replace(shared=(beside,), stored=(stored,), shared_first=True)


def laguna_attention(count: int, window: int | None, c: Config) -> Attention:
    """Attention of ``count`` heads (0: of ``num_attention_heads``), gated head by head, or element by element."""
    groups, d, h = c.number("num_key_value_heads"), c.size("head_dim"), c.size("hidden_size")
    if (count or c.number("num_attention_heads")) % groups:
        raise InvalidModel(f"num_key_value_heads {groups} must divide every layer's query heads", "give a divisor")
    a, by_head = count or c.size("num_attention_heads"), c.get("gating") in (True, "per-head")
    return multi_head(
        GatedBehind,
        "self_attn",
        LLAMA_NAMES,
        *(h, a, d),
        groups=c.size("num_key_value_heads"),
        bias=c.flag("attention_bias"),
        norms=tuple(Norm(name, "rmsnorm", d) for name in ("q_norm", "k_norm")),
        rope=laguna_rope(c, d, window),
        window=window,
        dropout=bool(c.get("attention_dropout")),
        gate=Linear("g_proj", h, a if by_head else a * d, "gate"),
        opens="softplus",
        by_head=by_head,
        gate_in_float32=True,
    )


def laguna_rope(c: Config, d: Num, window: int | None) -> Rope:
    """Rotary embedding: layers that see everything turn half of each head, where the config does not say otherwise."""
    if window is None and not c.get("rope_parameters"):
        return Rope(number.scaled(d, 0.5), RopeCode(by_window=True, copies=True), partial=True)
    return decoders.rope(c, d, FULL if window is None else SLIDING, by_window=True, copies=True)
