"""MiniMax-M3's text: blocks of keys chosen by an indexer, shared experts, gates and inputs of one matrix."""

from __future__ import annotations

from tfcalc.blocks import FUSED, FeedForward
from tfcalc.blocks.block_indexer import BlockIndexer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.deepseek import mlp_types
from tfcalc.families.llama import attention, decoder, qk_norms
from tfcalc.families.mixtral import correction, layers, mixture
from tfcalc.workload import Workload

FULL, SPARSE = "full_attention", "minimax_m3_sparse"
ACTIVATION = "silu"  # transformers overrules the config's


def older(c: Config) -> Config:
    """The published files' own way to describe sparse attention."""
    return c.sub("sparse_attention_config", defaults={})


def index_size(c: Config, name: str, other: str) -> Num:
    """A size of the indexer, by either name."""
    return older(c).size(other) if older(c).has(other) else c.size(name)


def layer_types(c: Config) -> list[str]:
    """Which layers choose among keys: none, where it is not said."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return c.words("layer_types", count, (FULL, SPARSE))
    if older(c).has("sparse_attention_freq"):
        return [SPARSE if flag else FULL for flag in older(c).numbers("sparse_attention_freq", count)]
    return [FULL] * count


def sparse_layers(c: Config) -> list[str]:
    """Which layers have experts: all, where it is not said."""
    count = c.number("num_hidden_layers")
    listed = c.numbers("moe_layer_freq", count) if c.has("moe_layer_freq") else [1] * count
    return mlp_types(c, ["sparse" if flag else "dense" for flag in listed])


def dense(name: str, width: str, c: Config, run: Workload) -> Component:
    """A network that every token goes through."""
    block = FeedForward(c.size("hidden_size"), c.size(width, least=0), ACTIVATION, names=FUSED, gated=True)
    return block(name, run.target, run)


@family(
    "minimax_m3_vl_text",
    architecture="MiniMaxM3VLForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_experts": "num_local_experts"},
)
def minimax_m3_vl_text(c: Config, run: Workload) -> Component:
    """MiniMax-M3 (transformers' MiniMaxM3VLTextModel): ``intermediate_size`` is each routed expert's."""

    def mixer(kind: str) -> Component:
        within = qk_norms("rmsnorm", c, run)
        if kind == FULL:
            return attention(c, run, within=within)
        heads = index_size(c, "index_n_heads", "sparse_num_index_heads")
        width = index_size(c, "index_head_dim", "sparse_index_dim")
        indexer = BlockIndexer(c.size("hidden_size"), heads, width)("indexer", run.target, run)
        return attention(c, run, within=(*within, indexer))

    def mlp(kind: str) -> Component:
        if kind == "dense":
            return dense("mlp", "dense_intermediate_size", c, run)
        beside = dense("shared_experts", "shared_intermediate_size", c, run)
        return mixture(c, run, act=ACTIVATION, first=(beside,), within=(correction(c, experts="num_local_experts"),))

    kinds = list(zip(layer_types(c), sparse_layers(c), strict=True))
    return decoder(c, run, *layers(c, run, kinds, lambda kind: (mixer(kind[0]), mlp(kind[1]))))
