"""DeepSeek-V2 and V3, and those that share their latent attention and their experts (Kimi-K2, GLM-5, …)."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.latent import LatentAttention as LatentModule
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope
from tfcalc.printable import quoted
from tfcalc.zoo.blocks import decoders, sparse_attention
from tfcalc.zoo.blocks.experts import mixture, mlp_types, shared
from tfcalc.zoo.blocks.sparse_attention import SparseLatentAttention
from tfcalc.zoo.glm_moe import dense_first, dense_or_sparse, routed


def latent_module(c: Config, *, value: Num | None = None, low_rank: bool = True) -> LatentModule:
    """Multi-head latent attention. It has no use for ``head_dim`` and ``num_key_value_heads``."""
    return latent_of(
        c,
        c.size("num_attention_heads"),
        c.optional("q_lora_rank") if low_rank else None,
        c.size("kv_lora_rank"),
        (c.size("qk_nope_head_dim", least=0), c.size("qk_rope_head_dim", least=0)),
        c.size("v_head_dim") if value is None else value,
    )


def latent_of(c: Config, a: Num, q_rank: Num | None, rank: Num, key: tuple[Num, Num], d_v: Num) -> LatentModule:
    """The same of these sizes: heads, ranks of the vectors of low rank, the two parts of a ``key``, and values."""
    h, bias, (nope, rope) = c.size("hidden_size"), c.flag("attention_bias"), key
    width = a * (nope + rope)
    norms: tuple[Norm, ...] = (Norm("kv_a_layernorm", "rmsnorm", rank),)
    maps = [Linear("q_proj", h, width, "Q")]
    if q_rank is not None:
        maps = [Linear("q_a_proj", h, q_rank, "DQ", bias), Linear("q_b_proj", q_rank, width, "UQ")]
        norms = (Norm("q_a_layernorm", "rmsnorm", q_rank), *norms)
    maps.append(Linear("kv_a_proj_with_mqa", h, rank + rope, "DKV", bias))
    maps.append(Linear("kv_b_proj", rank, a * (nope + d_v), "UKV"))
    output = Linear("o_proj", a * d_v, h, "O", bias)
    made = LatentModule("self_attn", a, a, nope + rope, d_v, tuple(maps), norms, output, kv_rank=rank, nope_dim=nope)
    return made.but(rope=Rope(rope, pairs=bool(c.get("rope_interleave"))), dropout=bool(c.get("attention_dropout")))


def shared_and_routed(c: Config, *, bias: bool = False, corrected: bool = True, **routing: Any) -> Mixture:
    """Routed experts and a shared one, which is as wide as ``n_shared_experts`` of them."""
    common = decoders.gated(c, name="shared_experts", width=shared(c), bias=bias)
    if corrected:
        return routed(c, **routing).but(shared=(common,))
    return mixture(c, common, experts="n_routed_experts", width="moe_intermediate_size", **routing)


@family("deepseek_v2")
def deepseek_v2(c: Config) -> Module:
    """DeepSeek-V2 (arXiv 2405.04434): the first layers are dense; V2-Lite projects queries directly."""
    bias = c.flag("mlp_bias")

    def mixed() -> Mixture:
        grouped = c.get("topk_method") == "group_limited_greedy"
        return shared_and_routed(c, bias=bias, corrected=False, logits="copies", grouped=grouped, scales=True)

    mixer = latent_module(c).but(rope=Rope(c.size("qk_rope_head_dim", least=0), "complex", in_float32=True))
    return dense_or_sparse(c, dense_first(c), mixer, mixed, bias=bias)


@family("deepseek_v3")
@family("kimi_k2", like="deepseek_v3")
def deepseek_v3(c: Config) -> Module:
    """DeepSeek-V3 (arXiv 2412.19437), Kimi K2 (arXiv 2507.20534), without the layer that predicts a second token."""
    return dense_or_sparse(c, dense_first(c), latent_module(c), lambda: shared_and_routed(c))


EXPERTS = {"num_experts": "n_routed_experts"}


@family("deepseek_v32", aliases=EXPERTS)
def deepseek_v32(c: Config) -> Module:
    """DeepSeek-V3.2 (arXiv 2512.02556): V3 with an indexer in every layer."""
    kinds = mlp_types(c, dense_first(c))
    return dense_or_sparse(c, kinds, sparse_latent(c), lambda: shared_and_routed(c))


def sparse_latent(c: Config, *, chooses: bool = True) -> SparseLatentAttention:
    """Latent attention to chosen keys; what ``chooses`` reads the query's latent vector, so there must be one."""
    c.size("q_lora_rank")
    made = latent_module(c)
    rope = Rope(c.size("qk_rope_head_dim", least=0), pairs=True)
    chooser = index_module(c) if chooses else None
    return made.to(SparseLatentAttention, indexer=chooser, always_masked=True, rope=rope)


def index_module(c: Config, rank: Num | None = None, rope: Num | None = None) -> sparse_attention.Indexer:
    """What chooses the keys, of a vector of low rank; so much of its own (``rope``) is turned."""
    h, heads, width = c.size("hidden_size"), c.size("index_n_heads"), c.size("index_head_dim")
    rank = c.size("q_lora_rank") if rank is None else rank
    rope = c.size("qk_rope_head_dim", least=0) if rope is None else rope
    return sparse_attention.Indexer(
        "indexer",
        Linear("wq_b", rank, heads * width, "IQ"),
        Linear("wk", h, width, "IK"),
        Norm("k_norm", "layernorm", width),
        Linear("weights_proj", h, heads, "Iw"),
        heads,
        width,
        Rope(rope, partial=True),
    )


def indexer_types(c: Config) -> list[str]:
    """Which layers have an indexer of their own; the others share the choice of the one before."""
    count, known = c.number("num_hidden_layers"), ("full", "shared")
    if c.has("indexer_types"):
        return c.words("indexer_types", count, known)
    pattern = c.get("index_topk_pattern")
    if pattern is None:
        freq, offset = c.number("index_topk_freq", least=0), c.number("index_skip_topk_offset", least=0)
        return [known[max(place - offset + 1, 0) % max(freq, 1) > 0] for place in range(count)]
    if not isinstance(pattern, str):
        return c.words("index_topk_pattern", count, known)
    if len(pattern) != count or set(pattern) - set("FS"):
        raise InvalidModel(f"index_topk_pattern {quoted(pattern)} is not one of F and S for each layer", "as in FSSF")
    return [known[letter == "S"] for letter in pattern]


@family(
    "glm_moe_dsa",
    aliases=EXPERTS,
    # by __post_init__:
    index_topk_freq=1,
    index_skip_topk_offset=2,
)
def glm_moe_dsa(c: Config) -> Module:
    """GLM-5 (arXiv 2602.15763): DeepSeek-V3.2 whose layers may share an indexer's choice (arXiv 2603.12201)."""

    def one(kind: tuple[str, str]) -> Module:
        chooses, mlp = kind
        ffn = shared_and_routed(c) if mlp == "sparse" else decoders.gated(c)
        return decoders.layer(c, sparse_latent(c, chooses=chooses == "full"), ffn)

    return decoders.decoder(c, one, list(zip(indexer_types(c), mlp_types(c, dense_first(c)), strict=True)))
