"""Hunyuan 4: DeepSeek-V3.2's attention with a gate and sinks, on several residual streams that do not mix."""

from __future__ import annotations

from tfcalc.blocks import layer, stack
from tfcalc.blocks.hyper_connection import HyperConnection
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.deepseek import feed_forward, indexer, latent, mlp_types, sparse_after
from tfcalc.families.llama import PRE_NORM, decoder, norms
from tfcalc.families.mixtral import sinks
from tfcalc.leaves import activation, linear
from tfcalc.workload import Workload


def attention(kind: str, c: Config, run: Workload) -> Component:
    """Latent attention; layers that share an indexer's choice have none of their own."""
    values, tokens = c.size("num_attention_heads") * c.size("v_head_dim"), run.target.tokens
    gate = linear("gate_proj", c.size("hidden_size"), values, tokens, bias=False, letter="gate")
    chooses = (indexer(c, run),) if kind == "full" else ()
    return latent(c, run, within=(*chooses, gate, activation("gate", "sigmoid", values * tokens), sinks(c)))


def indexer_types(c: Config) -> list[str]:
    """The first layer and every fourth after the second choose, where it is not said."""
    count = c.number("num_hidden_layers")
    if c.has("indexer_types"):
        return c.words("indexer_types", count, ("full", "shared"))
    return ["full" if place == 0 or place % 4 == 1 else "shared" for place in range(count)]


@family("hy_v4", architecture="HYV4ForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "n_routed_experts"})
def hy_v4(c: Config, run: Workload) -> Component:
    """Hunyuan 4 (transformers' HYV4Model): ``hc_mult`` residual streams, read and written by weights."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    connect = HyperConnection(h, c.size("hc_mult"), mixes=False)

    def make(kind: tuple[str, str]) -> Component:
        connections = (connect(name, run.target) for name in ("attn_hc", "ffn_hc"))
        parts = attention(kind[0], c, run), feed_forward(kind[1], c, run), *connections
        return layer("layers", (*parts, *norms(PRE_NORM, "rmsnorm", c, run)), tokens * h)

    kinds = list(zip(indexer_types(c), mlp_types(c, sparse_after(c, 1)), strict=True))
    base = decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), make))
    return base._replace(parts=(*base.parts, connect._replace(head=True)("hc_head", run.target)))
