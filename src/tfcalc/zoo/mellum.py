"""Mellum: Qwen3 whose layers have a mixture of experts, or a feed-forward network, as a list says."""

from __future__ import annotations

from tfcalc.configs.config import FULL, SLIDING, Config
from tfcalc.configs.family import family
from tfcalc.nn.mixture import RouterCode
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.experts import dense_or_sparse
from tfcalc.zoo.blocks.layers import windows


@family("mellum")
def mellum(c: Config) -> Module:
    """Mellum 2 (transformers' MellumDecoderLayer); a layer is sparse unless ``mlp_layer_types`` calls it dense."""
    kinds = experts.mlp_types(c, experts.sparse_after(c, 0))
    routed = experts.mixture(
        c, width="moe_intermediate_size", normalized=bool(c.get("norm_topk_prob")), code=RouterCode(result="logits")
    )

    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    slides, full = (mixer.replace(rope=decoders.rope(c, kind=kind, by_window=True)) for kind in (SLIDING, FULL))
    seen = windows(c, lambda _: False)
    return dense_or_sparse(c, kinds, slides, lambda: routed, seen=seen, full={"rope": full.rope})
