"""DBRX: attention and experts each have a nested config, and names of their own for everything."""

from __future__ import annotations

from tfcalc.blocks import Attention, FeedForward, layer
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head, renamed
from tfcalc.core.component import Component
from tfcalc.families.mixtral import chosen
from tfcalc.leaves import embedding, norm
from tfcalc.workload import Workload

ATTENTION = {"kv_n_heads": 1}
EXPERTS = {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1, "ffn_act_fn": None}
NORM = "layernorm-no-bias"


def attention(c: Config, run: Workload) -> Component:
    """One matrix makes queries, keys and values."""
    groups = c.sub("attn_config", defaults=ATTENTION).size("kv_n_heads")
    d = c.quotient("d_model", "n_heads")
    block = Attention(c.size("d_model"), c.size("n_heads"), groups, d, d, names=("Wqkv", "out_proj"))
    return block("norm_attn_norm.attn", run.target, run.target, run, causal=True)


def experts(c: Config, run: Workload) -> Component:
    """The matrices of all experts stand in one tensor each, as wide as the experts together."""
    h, inner = c.size("d_model"), c.sub("ffn_config", defaults=EXPERTS)
    act = inner.sub("ffn_act_fn", defaults={"name": "silu"}).word("name")
    block = MixtureOfExperts(
        h,
        inner.size("moe_num_experts"),
        chosen(inner, "moe_num_experts", "moe_top_k"),
        FeedForward(h, inner.size("ffn_hidden_size"), act, names=("mlp.w1", "mlp.v1", "mlp.w2"), gated=True),
        router="router.layer",
    )
    return block("ffn", run.target, run)


@family(
    "dbrx",
    architecture="DbrxForCausalLM",
    heads={"Model": bare, "ForCausalLM": renamed("transformer", lm_head(width="d_model"))},
    aliases={
        "num_attention_heads": "n_heads",
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layers",
        "max_position_embeddings": "max_seq_len",
    },
)
def dbrx(c: Config, run: Workload) -> Component:
    """Databricks 2024 (technical report); transformers' DbrxModel. Norms have no bias."""
    h, tokens = c.size("d_model"), run.target.tokens
    parts = (
        norm("norm_attn_norm.norm_1", NORM, h, tokens),
        attention(c, run),
        norm("norm_attn_norm.norm_2", NORM, h, tokens),
        experts(c, run),
    )
    return Component(
        "transformer",
        "decoder",
        parts=(
            embedding("wte", c.size("vocab_size"), h, tokens),
            layer("blocks", parts, tokens * h, copies=c.size("n_layers")),
            norm("norm_f", NORM, h, tokens),
        ),
    )
