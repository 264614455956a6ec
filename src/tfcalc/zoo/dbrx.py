"""DBRX: attention and experts each have a nested config, and names of their own for everything."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope
from tfcalc.zoo.blocks import experts
from tfcalc.zoo.blocks.layers import multi_head, stack

ATTENTION = {"kv_n_heads": 1}
EXPERTS = {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1, "ffn_act_fn": None}
NORM = "layernorm-no-bias"


def attention(c: Config) -> Attention:
    """One matrix makes queries, keys and values, which are cut off."""
    inner = c.sub("attn_config", defaults=ATTENTION)
    h, a, g, d = c.size("d_model"), c.size("n_heads"), inner.size("kv_n_heads"), c.quotient("d_model", "n_heads")
    made = multi_head(Attention, "norm_attn_norm.attn", ("Wqkv", "out_proj"), h, a, d, groups=g, rope=Rope(d))
    return made.replace(clipped=inner.get("clip_qkv") is not None)


def mixture(c: Config) -> Mixture:
    """Return the mixture; the matrices of all experts are one tensor each, as wide as the experts together."""
    inner = c.sub("ffn_config", defaults=EXPERTS)
    act = inner.sub("ffn_act_fn", defaults={"name": "silu"}).word("name")
    return experts.mixture(
        inner,
        name="ffn",
        experts="moe_num_experts",
        each="moe_top_k",
        width="ffn_hidden_size",
        hidden=c.size("d_model"),
        router="router.layer",
        act=act,
        names=("mlp.w1", "mlp.v1", "mlp.w2"),
    )


@family("dbrx", heads={"Model": tops.bare, "ForCausalLM": tops.lm_head(width="d_model")})
def dbrx(c: Config) -> Module:
    """Databricks 2024 (technical report); transformers' DbrxModel. Norms have no bias.

    Its experts run one after another, on the tokens that each has got: training memory is not supported for them.
    """
    h, dropped = c.size("d_model"), bool(c.get("resid_pdrop"))
    norms = tuple(Norm(f"norm_attn_norm.norm_{place}", NORM, h) for place in (1, 2))
    layer = PreNorm("blocks", (attention(c), mixture(c)), norms, dropped)
    table = Embedding("wte", c.size("vocab_size"), h)
    return Decoder("transformer", table, stack(c, layer, "n_layers"), Norm("norm_f", NORM, h))
