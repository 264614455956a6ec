"""Inkling's text: learned distances, short convolutions everywhere, shared experts among which a router weighs."""

from __future__ import annotations

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward
from tfcalc.blocks.keeping import FP32
from tfcalc.blocks.recurrence import convolved
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.deepseek import mlp_types, sparse_after
from tfcalc.families.hybrid import never_tied
from tfcalc.families.llama import decoder
from tfcalc.families.mixtral import correction, layers, mixture
from tfcalc.leaves import linear, norm, parameter
from tfcalc.workload import Workload

WINDOW, FULL = "hybrid_sliding", "hybrid"


def attention(kind: str, c: Config, run: Workload) -> Component:
    """Each head mixes profiles of bias over distance. Windows have sizes of their own."""
    full, prefix = kind == FULL, "" if kind == FULL else "swa_"
    c.quotient(f"{prefix}num_attention_heads", f"{prefix}num_key_value_heads")  # heads share keys evenly
    a, g = c.size(f"{prefix}num_attention_heads"), c.size(f"{prefix}num_key_value_heads")
    h, d, rel, t = c.size("hidden_size"), c.size(f"{prefix}head_dim"), c.size("d_rel"), run.target.tokens
    within = (
        *(
            convolved(f"{name}.conv1d", g * d, c.size("conv_kernel_size"), run.target, bias=False, bits=FP32)
            for name in ("k_sconv", "v_sconv")
        ),
        norm("q_norm", "rmsnorm", d, t * a),
        norm("k_norm", "rmsnorm", d, t * g),
        linear("r_proj", h, a * rel, t, bias=False),
        linear("rel_logits_proj.proj", rel, c.size("rel_extent" if full else "sliding_window_size"), t * a, bias=False),
    )
    window = None if full else c.size("sliding_window_size")
    block = Attention(h, a, g, d, d, names=LLAMA_NAMES, within=within, window=window)
    return block("self_attn", run.target, run.target, run, causal=True)


def feed_forward(kind: str, c: Config, run: Workload) -> Component:
    """A dense network or experts, each scaled by one number. The router has a say over the shared experts too."""
    h, scale = c.size("hidden_size"), parameter("global_scale", 1, minor=True)
    # Older files call the experts' width intermediate_size, and the dense layers' dense_intermediate_size.
    older = c.get("dense_intermediate_size") is not None
    wide, narrow = (
        ("dense_intermediate_size", "intermediate_size") if older else ("intermediate_size", "moe_intermediate_size")
    )
    if kind == "dense":
        block = FeedForward(h, c.size(wide), c.word("hidden_act"), names=GATED, gated=True, within=(scale,))
        return block("mlp", run.target, run)
    common = c.size("n_shared_experts", least=0)
    beside = FeedForward(h, c.size(narrow), c.word("hidden_act"), names=GATED, gated=True)
    return mixture(
        c,
        run,
        experts="n_routed_experts",
        width=narrow,
        routing=linear("gate", h, c.size("n_routed_experts") + common, run.target.tokens, bias=False, letter="router"),
        within=(
            beside("shared_experts", run.target, run)._replace(copies=common),
            scale._replace(name="gate.global_scale"),
            correction(c),
        ),
    )


def layer_types(c: Config) -> list[str]:
    """Which layers see a window: those listed, or all but every sixth."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return c.words("layer_types", count, (WINDOW, FULL))
    listed = c.get("local_layer_ids") is not None
    local = c.numbers("local_layer_ids") if listed else [place for place in range(count) if (place + 1) % 6]
    return [WINDOW if place in local else FULL for place in range(count)]


@family(
    "inkling_text",
    architecture="InklingForCausalLM",
    heads=CAUSAL_LM | {"ForCausalLM": never_tied},
    aliases={
        "sliding_window": "sliding_window_size",
        "num_local_experts": "n_routed_experts",
        "sconv_kernel_size": "conv_kernel_size",
        "model_max_length": "max_position_embeddings",
    },
    dense_mlp_idx=0,  # by __post_init__, for older configs
)
def inkling_text(c: Config, run: Workload) -> Component:
    """Inkling (transformers' InklingTextModel): a short convolution of every key, value and sub-layer's output."""
    h, t, kernel = c.size("hidden_size"), run.target.tokens, c.size("conv_kernel_size")

    def parts(kind: tuple[str, str]) -> tuple[Component, ...]:
        return (
            attention(kind[0], c, run),
            convolved("attn_sconv.conv1d", h, kernel, run.target, bias=False, bits=FP32),
            feed_forward(kind[1], c, run),
            convolved("mlp_sconv.conv1d", h, kernel, run.target, bias=False, bits=FP32),
        )

    kinds = list(zip(layer_types(c), mlp_types(c, sparse_after(c, c.number("dense_mlp_idx", least=0))), strict=True))
    base = decoder(c, run, *layers(c, run, kinds, parts))
    return base._replace(parts=(*base.parts, norm("embed_tokens.embed_norm", "rmsnorm", h, t)))
