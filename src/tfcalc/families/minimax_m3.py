"""MiniMax-M3's text: blocks of keys chosen by an indexer, shared experts, gates and inputs of one matrix."""

from __future__ import annotations

from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.families import experts, kit
from tfcalc.families.experts import mlp_types
from tfcalc.families.gemma import CODE
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.block_indexer import BlockIndexer, IndexedBlockAttention
from tfcalc.nn.clipped import ClippedFeedForward
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module

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


def dense(name: str, width: str, c: Config) -> GatedFeedForward:
    """A network that every token goes through."""
    h, f = c.size("hidden_size"), c.size(width, least=0)
    up, down = Linear("gate_up_proj", h, 2 * f, "1"), Linear("down_proj", f, h, "2")
    return ClippedFeedForward(name, None, up, down, ACTIVATION)


def mixer(kind: str, c: Config) -> Attention:
    """Attention, to what an indexer has chosen where it is sparse."""
    made = kit.attention(c, qk_norms="rmsnorm", code=CODE).but(rope=kit.rope(c, copies=True))
    return IndexedBlockAttention(**made.__dict__ | {"indexer": None if kind == FULL else indexer(c)})


def indexer(c: Config) -> BlockIndexer:
    """Queries of so many heads, one key, and norms of both."""
    h, heads = c.size("hidden_size"), index_size(c, "index_n_heads", "sparse_num_index_heads")
    width = index_size(c, "index_head_dim", "sparse_index_dim")
    q, k = Linear("q_proj", h, heads * width, "IQ"), Linear("k_proj", h, width, "IK")
    q_norm, k_norm = (Norm(name, "rmsnorm", width, CODE) for name in ("q_norm", "k_norm"))
    return BlockIndexer("indexer", q, k, q_norm, k_norm, heads)


def mixed(c: Config) -> Mixture:
    """Experts and shared ones, which run first."""
    beside = dense("shared_experts", "shared_intermediate_size", c)
    routing: dict[str, Any] = {"scores": "sigmoid", "corrected": True, "normalized": True, "logits": "float32"}
    made = experts.mixture(c, beside, act=ACTIVATION, **routing)
    stored = experts.correction(c, experts="num_local_experts")
    return made.but(experts=made.experts.but(clipped=True), stored=(stored,), shared_first=True, scales=True)


@family(
    "minimax_m3_vl_text",
    architecture="MiniMaxM3VLForCausalLM",
    heads=tops.CAUSAL_LM,
    aliases={"num_experts": "num_local_experts"},
)
def minimax_m3_vl_text(c: Config) -> Module:
    """MiniMax-M3 (transformers' MiniMaxM3VLTextModel): ``intermediate_size`` is each routed expert's."""

    def one(kind: tuple[str, str]) -> PreNorm:
        ffn = dense("mlp", "dense_intermediate_size", c) if kind[1] == "dense" else mixed(c)
        return kit.layer(c, mixer(kind[0], c), ffn, code=CODE)

    return kit.decoder(c, one, list(zip(layer_types(c), sparse_layers(c), strict=True)), code=CODE)
