"""Kimi Linear and Ling 2.5 (Bailing): Kimi Delta Attention, latent attention in some layers, experts in most."""

from __future__ import annotations

from tfcalc.blocks import FUSED, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.kimi_delta import KimiDeltaAttention
from tfcalc.blocks.latent_attention import LatentAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.hybrid import FULL, LINEAR, first, layer_types, never_tied, swiglu
from tfcalc.families.llama import PRE_NORM, decoder, gated, norms
from tfcalc.families.mixtral import chosen
from tfcalc.leaves import buffer, linear
from tfcalc.workload import Workload

HEADS = {"Model": bare, "ForCausalLM": never_tied}
ALIASES = {
    "max_position_embeddings": "model_max_length",
    "num_local_experts": "num_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
}


def latent(c: Config, run: Workload, *, rank: Num | None = None, within: tuple[Component, ...] = ()) -> Component:
    """Latent attention, by the names of fields that DeepSeek gave them."""
    block = LatentAttention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        rank,
        c.size("kv_lora_rank"),
        c.size("qk_nope_head_dim"),
        c.size("qk_rope_head_dim"),
        c.size("v_head_dim"),
        bias=c.flag("attention_bias"),
        within=within,
    )
    return block("self_attn", run.target, run)


def experts(c: Config, run: Workload) -> Component:
    """Experts chosen with a correction that is not trained; the shared ones are one wide network."""
    some = c.size("num_experts")
    wide = swiglu(c, c.size("moe_intermediate_size") * c.size("num_shared_experts", least=0))
    block = MixtureOfExperts(
        c.size("hidden_size"),
        some,
        chosen(c, "num_experts", "num_experts_per_token"),
        swiglu(c, c.size("moe_intermediate_size"), FUSED),
        within=(buffer("gate.e_score_correction_bias", some), wide("shared_experts", run.target, run)),
    )
    return block("mlp", run.target, run)


def layers(c: Config, run: Workload, kinds: list[str], full: Component, recurrent: Component) -> Component:
    """Layers with the one mixer or the other, the first few without experts."""
    dense = c.number("first_k_dense_replace", least=0)
    pattern = ["dense" if place < dense else "sparse" for place in range(len(kinds))]
    given = c.get("mlp_layer_types") is not None
    sparse = c.words("mlp_layer_types", len(kinds), ("dense", "sparse")) if given else pattern

    def made(kind: tuple[str, str]) -> Component:
        mixer = full if kind[0] == FULL else recurrent
        ffn = experts(c, run) if kind[1] == "sparse" else gated(c, run)
        parts = (mixer, ffn, *norms(PRE_NORM, "rmsnorm", c, run))
        return layer("layers", parts, run.target.tokens * c.size("hidden_size"), ends_with_sum=True)

    both = list(zip(kinds, sparse, strict=True))
    return decoder(c, run, *stack("layers", both, c.size("num_hidden_layers"), made))


@family(
    "kimi_linear",
    architecture="KimiLinearForCausalLM",
    heads=HEADS,
    aliases=ALIASES,
    first_k_dense_replace=1,  # by __post_init__, for older configs
)
def kimi_linear(c: Config, run: Workload) -> Component:
    """Kimi Linear (arXiv 2510.26692); published files keep what is linear in ``linear_attn_config``."""
    own = c.sub("linear_attn_config", defaults={})

    def size(name: str, otherwise: str) -> Num:
        return own.size(name) if own.has(name) else c.size(otherwise)

    heads, width = size("num_heads", "linear_num_heads"), size("head_dim", "linear_head_dim")
    kernel = size("short_conv_kernel_size", "linear_conv_kernel_dim")
    mixer = KimiDeltaAttention(c.size("hidden_size"), heads, width, kernel, c.word("hidden_act"))
    full = latent(c, run, rank=c.optional("q_lora_rank"))
    return layers(c, run, kimi_layers(c, own), full, mixer("self_attn", run.target))


def kimi_layers(c: Config, own: Config) -> list[str]:
    """``layer_types``, or the layers that ``full_attn_layers`` counts from one, or every fourth but the first."""
    if own.has("full_attn_layers") and own.has("kda_layers"):
        attends = set(own.numbers("full_attn_layers")) - set(own.numbers("kda_layers"))
        return layer_types(c, lambda place: FULL if place + 1 in attends else LINEAR)
    return layer_types(c, lambda place: FULL if place and place % 4 == 0 else LINEAR)


@family("bailing_hybrid", architecture="BailingHybridForCausalLM", heads=HEADS, aliases=ALIASES)
def bailing_hybrid(c: Config, run: Workload) -> Component:
    """Ling 2.5 (Ant Group, 2026): Kimi Linear with gates of full rank, and a gate for each head of latent attention."""
    h, a, group = c.size("hidden_size"), c.size("num_attention_heads"), c.number("layer_group_size")
    mixer = KimiDeltaAttention(
        h,
        c.size(first(c, "linear_num_heads", "num_attention_heads")),
        c.size(first(c, "linear_head_dim", "head_dim")),
        c.size(first(c, "linear_conv_kernel_dim", "short_conv_kernel_size")),
        c.word("hidden_act"),
        low_rank=False,
    )
    kinds = layer_types(c, lambda place: LINEAR if (place + 1) % group else FULL)
    full = latent(c, run, within=(linear("g_proj", h, a, run.target.tokens, bias=False, letter="g"),))
    return layers(c, run, kinds, full, mixer("self_attn", run.target))
