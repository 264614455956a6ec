"""DeepSeek-V2 and V3, and those that share their latent attention and their experts (Kimi-K2, GLM-5, …)."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.errors import InvalidModel
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.printable import quoted
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import dense_first, dense_or_sparse, mlp_types
from tfcalc.zoo.blocks.latent_attention import latent_module, shared_and_routed, sparse_latent


@family("deepseek_v2")
def deepseek_v2(c: Config) -> Module:
    """DeepSeek-V2 (arXiv 2405.04434): the first layers are dense; V2-Lite projects queries directly."""
    bias = c.flag("mlp_bias")

    def mixed() -> Mixture:
        grouped = c.get("topk_method") == "group_limited_greedy"
        return shared_and_routed(
            c, bias=bias, corrected=False, code=RouterCode(logits="copies"), grouped=grouped, scales=True
        )

    mixer = latent_module(c).replace(
        rope=Rope(c.size("qk_rope_head_dim", least=0), RopeCode("complex", in_float32=True))
    )
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


def indexer_types(c: Config) -> list[str]:
    """Return each layer's indexer type: ``full`` has an indexer of its own, ``shared`` the choice of the one before."""
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
