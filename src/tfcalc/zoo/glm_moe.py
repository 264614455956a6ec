"""Ordinary attention with DeepSeek's experts: dense layers first, shared experts, a correction of the router."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.decoders import BOTH_SIDES
from tfcalc.zoo.blocks.experts import dense_first, dense_or_sparse, mlp_types, routed, shared, sparse_after
from tfcalc.zoo.blocks.layers import GATED, LAYERS, full_and_sliding, no_rope_if_global, windows


@family(
    "deepseek",
    architecture="DeepseekForCausalLM",
    like="llama",
    vocab_size=102400,
    moe_intermediate_size=1407,
    num_hidden_layers=30,
    moe_layer_freq=1,
    first_k_dense_replace=0,
)
def deepseek(c: Config) -> Module:
    """DeepSeekMoE (arXiv 2401.06066), by its own code: ordinary attention, experts where their number is given."""
    some = c.get("n_routed_experts") is not None
    kinds = dense_first(c, c.number("moe_layer_freq")) if some else sparse_after(c, c.number(LAYERS))

    def mixed() -> Mixture:
        common = c.get("n_shared_experts") is not None
        beside = (decoders.gated(c, name="shared_experts", width=shared(c)),) if common else ()
        return experts.mixture(c, *beside, experts="n_routed_experts", width="moe_intermediate_size", names=GATED)

    return dense_or_sparse(c, kinds, decoders.attention(c, bias=c.flag("attention_bias")), mixed)


@family(
    "glm4_moe",
    partial_rotary_factor=0.5,  # by __post_init__
)
def glm4_moe(c: Config) -> Module:
    """GLM-4.5 (arXiv 2508.06471): biases on queries, keys and values; norms of them in the largest one only."""
    h, a = c.number("hidden_size"), c.number("num_attention_heads")
    # Its own default is 4096 among 96 heads, which transformers rounds down.
    d = h // a if c.get("head_dim") is None and h % a else decoders.head_dim(c)
    norms, bias = "rmsnorm" if c.flag("use_qk_norm") else "", c.flag("attention_bias")
    mixer = decoders.attention(c, bias=bias, output_bias=False, qk_norms=norms, width=d)
    mixer = mixer.replace(rope=decoders.rope(c, d, copies=True))
    return dense_or_sparse(c, dense_first(c), mixer, lambda: routed(c, common=shared(c)))


@family("dots1")
def dots1(c: Config) -> Module:
    """dots.llm1 (arXiv 2506.05767): Qwen3's attention; windows after the first ``max_window_layers``."""
    seen = windows(c, lambda place: place >= c.number("max_window_layers", least=0))
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    return dense_or_sparse(c, dense_first(c), mixer, lambda: routed(c, common=shared(c)), seen=seen)


@family("solar_open")
def solar_open(c: Config) -> Module:
    """Solar Open (transformers' SolarOpenModel): GLM-4.5 without dense layers and norms of queries and keys."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), output_bias=False)
    return dense_or_sparse(c, sparse_after(c, 0), mixer, lambda: routed(c, common=shared(c)))


@family("exaone_moe")
def exaone_moe(c: Config) -> Module:
    """K-EXAONE (transformers' ExaoneMoeModel): EXAONE 4's norms of queries and keys; every fourth layer sees all."""
    seen = windows(c, lambda place: (place + 1) % c.number("sliding_window_pattern") > 0)

    def mixed() -> Mixture:
        return routed(c, "num_experts", common=shared(c, "num_shared_experts"))

    kinds = mlp_types(c, dense_first(c))
    mixer = decoders.attention(c, qk_norms="rmsnorm")
    return dense_or_sparse(c, kinds, mixer, mixed, seen=seen, full=no_rope_if_global(c)).replace(
        masks=full_and_sliding(c)
    )


@family("hy_v3")
def hy_v3(c: Config) -> Module:
    """Hunyuan 3 (transformers' HYV3Model): without shared experts, there is one as wide as a dense layer."""
    bias = c.flag("mlp_bias")

    def mixed() -> Mixture:
        some = c.number("num_shared_experts", least=0) > 0
        common = shared(c, "num_shared_experts") if some else c.size("intermediate_size")
        beside = decoders.gated(c, name="shared_experts", width=common, bias=bias)
        made = routed(c, "num_experts", normalized=True, code=RouterCode(logits="copies", in_place=False))
        return made.replace(shared=(beside,), stored=(experts.correction(c, "e_score_correction_bias", "num_experts"),))

    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    return dense_or_sparse(c, mlp_types(c, sparse_after(c, 1)), mixer, mixed, bias=bias)


@family("kolibri1")
def kolibri1(c: Config) -> Module:
    """Kolibri (transformers' Kolibri1Model): four norms a layer, a shared expert of its own width, no dense layer.

    The sigmoid is that of the chosen experts alone.
    """
    common = c.size("shared_expert_intermediate_size", least=0)
    seen = windows(c, lambda place: (place + 1) % 5 > 0)

    def mixed() -> Mixture:
        return routed(
            c,
            "num_experts",
            common=common,
            scales=False,
            best_first=True,
            code=RouterCode(logits="copies", in_place=False),
        )

    kinds = sparse_after(c, 0)
    mixer, full = decoders.attention(c, qk_norms="rmsnorm"), no_rope_if_global(c)
    made = dense_or_sparse(c, kinds, mixer, mixed, seen=seen, full=full, of=Sandwich, names=BOTH_SIDES)
    return made.replace(masks=full_and_sliding(c))
